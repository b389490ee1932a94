"""Threads that share an open file get the bytes of the places that they ask for."""

from __future__ import annotations

import random
import struct
import threading
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.formats.blocks.checked import BLOCK_BYTES, CheckedInput
from lakelog.filestore.formats.blocks.shared_input import BLOCKS_HELD, SharedFile, VerifiedBlocks

CONTENT = random.Random(2).randbytes(40 * BLOCK_BYTES + 17)
SUMS = [zlib.crc32(CONTENT[at : at + BLOCK_BYTES]) for at in range(0, len(CONTENT), BLOCK_BYTES)]


def verified() -> VerifiedBlocks:
    sums = struct.pack(f">{len(SUMS)}I", *SUMS)
    return VerifiedBlocks(CheckedInput(pa.BufferReader(CONTENT), "f", size_bytes=len(CONTENT), checksums=sums))


@given(
    ranges=st.lists(
        st.tuples(st.integers(0, len(CONTENT) + 5), st.integers(0, 20 * BLOCK_BYTES) | st.integers(0, 100)), max_size=6
    )
)
def test_reads_give_the_bytes_of_the_file_and_hold_few_blocks(ranges: list[tuple[int, int]]) -> None:
    blocks = verified()
    file = SharedFile(blocks)
    for start, size in ranges:
        assert file.seek(start) == start
        assert file.read(size) == CONTENT[start : start + size]
        assert len(blocks._held) <= BLOCKS_HELD
    file.seek(-5, 2)
    assert file.read() == CONTENT[-5:]


def test_a_range_that_was_read_before_is_read_alone_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "f"
    start, size = 3 * BLOCK_BYTES - 10, 1_000

    def read(damaged_at: int | None = None) -> bytes:
        content = bytearray(CONTENT)
        if damaged_at is not None:
            content[damaged_at] ^= 4
        path.write_bytes(content)
        sums = struct.pack(f">{len(SUMS)}I", *SUMS)
        source = CheckedInput(pa.OSFile(str(path)), str(path), size_bytes=len(CONTENT), checksums=sums)
        opened = SharedFile(VerifiedBlocks(source))
        opened.seek(start)
        return opened.read(size)

    expected = CONTENT[start : start + size]
    with pytest.raises(CorruptDataError, match="have the checksum"):
        read(damaged_at=start - 1)  # the block is compared
    assert read() == expected
    assert read() == expected
    for at in (start, start + size - 1):
        with pytest.raises(CorruptDataError, match="have the checksum"):
            read(damaged_at=at)
    for at in (start - 1, start + size):  # bytes that nobody asks for
        assert read(damaged_at=at) == expected


def test_threads_that_share_a_file_have_places_of_their_own() -> None:
    """Each thread goes to a place, lets the others do so too, and reads there."""
    file, barrier = SharedFile(verified()), threading.Barrier(8)
    wrong: list[int] = []

    def read(number: int) -> None:
        for step in range(20):
            start = (number * 37 + step * 11) * 65_537 % len(CONTENT)
            file.seek(start)
            barrier.wait()
            if file.read(50_000) != CONTENT[start : start + 50_000]:
                wrong.append(start)
            barrier.wait()

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
