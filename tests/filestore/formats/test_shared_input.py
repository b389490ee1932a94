"""Threads that share an open file get the bytes of the places that they ask for."""

from __future__ import annotations

import io
import random
import struct
import threading
import zlib

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.formats.blocks.checked import BLOCK_BYTES, CheckedInput
from lakelog.filestore.formats.blocks.range_sums import RANGE_SUMS
from lakelog.filestore.formats.blocks.shared_input import BLOCKS_HELD, SharedFile, VerifiedBlocks

CONTENT = random.Random(2).randbytes(40 * BLOCK_BYTES + 17)
SUMS = [zlib.crc32(CONTENT[at : at + BLOCK_BYTES]) for at in range(0, len(CONTENT), BLOCK_BYTES)]


def shared() -> SharedFile:
    sums = struct.pack(f">{len(SUMS)}I", *SUMS)
    source = CheckedInput(pa.BufferReader(CONTENT), "f", size_bytes=len(CONTENT), checksums=sums)
    return SharedFile(VerifiedBlocks(source))


@given(
    ranges=st.lists(
        st.tuples(st.integers(0, len(CONTENT) + 5), st.integers(0, 20 * BLOCK_BYTES) | st.integers(0, 100)), max_size=6
    )
)
def test_reads_give_the_bytes_of_the_file_and_hold_few_blocks(ranges: list[tuple[int, int]]) -> None:
    file = shared()
    for start, size in ranges:
        assert file.seek(start) == start
        assert file.read(size) == CONTENT[start : start + size]
        assert len(file._blocks._held) <= BLOCKS_HELD
    file.seek(-5, 2)
    assert file.read() == CONTENT[-5:]


class Counting(io.BytesIO):
    """Counts the bytes that are read, and stays open when a reader closes it."""

    bytes_read = 0

    def close(self) -> None:
        """Nothing."""

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.bytes_read += len(found)
        return found


def test_a_range_that_was_read_before_is_read_alone_and_compared() -> None:
    RANGE_SUMS.clear()
    content = Counting(CONTENT)

    def file() -> SharedFile:
        sums = struct.pack(f">{len(SUMS)}I", *SUMS)
        source = pa.PythonFile(content, mode="r")
        return SharedFile(VerifiedBlocks(CheckedInput(source, "g", size_bytes=len(CONTENT), checksums=sums)))

    start, size = 3 * BLOCK_BYTES - 10, 1_000

    def read() -> tuple[bytes, int]:
        before = content.bytes_read
        opened = file()
        opened.seek(start)
        return opened.read(size), content.bytes_read - before

    assert read() == (CONTENT[start : start + size], 2 * BLOCK_BYTES)
    assert read() == (CONTENT[start : start + size], size)
    for at in (start, start + size - 1):
        content.getbuffer()[at] ^= 4
        with pytest.raises(CorruptDataError, match="have the checksum"):
            read()
        content.getbuffer()[at] ^= 4
    assert read() == (CONTENT[start : start + size], size)
    content.getbuffer()[start + size] ^= 4  # bytes that nobody asks for
    assert read() == (CONTENT[start : start + size], size)


def test_threads_that_share_a_file_have_places_of_their_own() -> None:
    """Each thread goes to a place, lets the others do so too, and reads there."""
    file, barrier = shared(), threading.Barrier(8)
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
