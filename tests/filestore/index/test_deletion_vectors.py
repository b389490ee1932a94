"""Deletion vectors and the bitmaps in them: bytes made by hand after the format's texts, and damaged."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.encoding.roaring import decode_roaring
from lakelog.filestore.index.deletion_vectors import DeletionFile, read_positions, without_deleted
from lakelog.filestore.io.local_files import LocalFileIO

# One vector, position 0 deleted, as the format's description shows it.
ONE_DELETED = bytes.fromhex("01 00000016 5e43f2d0 3a30000001000000 00000000 10000000 0000 e33060d3")


def values_of(low: list[int]) -> bytes:
    """The numbers of one container: up to 4,096 as a list, more as bits."""
    if len(low) <= 4096:
        return struct.pack(f"<{len(low)}H", *low)
    bits = np.zeros(1 << 16, np.uint8)
    bits[low] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def runs_of(low: list[int]) -> bytes:
    present = set(low)
    starts = [value for value in low if value - 1 not in present]
    ends = [value for value in low if value + 1 not in present]
    pairs = [(start, end - start) for start, end in zip(starts, ends, strict=True)]
    return struct.pack("<H", len(pairs)) + b"".join(struct.pack("<HH", *pair) for pair in pairs)


def encoded(numbers: list[int], *, has_runs: bool) -> bytes:
    """The portable form of a 32-bit roaring bitmap, all containers as runs or none."""
    by_key: dict[int, list[int]] = {}
    for number in sorted(numbers):
        by_key.setdefault(number >> 16, []).append(number & 0xFFFF)
    heads = b"".join(struct.pack("<HH", key, len(low) - 1) for key, low in by_key.items())
    bodies = [runs_of(low) if has_runs else values_of(low) for low in by_key.values()]
    if has_runs:
        flags = (1 << len(by_key)) - 1
        head = struct.pack("<I", 12347 | (len(by_key) - 1) << 16) + flags.to_bytes((len(by_key) + 7) // 8, "little")
    else:
        head = struct.pack("<II", 12346, len(by_key))
    has_offsets = not has_runs or len(by_key) >= 4
    at = len(head) + len(heads) + (4 * len(by_key) if has_offsets else 0)
    offsets = b""
    for body in bodies:
        offsets += struct.pack("<I", at)
        at += len(body)
    return head + heads + (offsets if has_offsets else b"") + b"".join(bodies)


@given(st.sets(st.integers(0, 400_000), min_size=1, max_size=300), st.booleans())
def test_bitmaps_of_lists_and_of_runs_are_decoded(numbers: set[int], has_runs: bool) -> None:
    data = encoded(sorted(numbers), has_runs=has_runs)
    positions, size = decode_roaring(data + b"behind")
    assert positions.tolist() == sorted(numbers)
    assert size == len(data)


def test_full_containers_are_decoded() -> None:
    numbers = [*range(0, 20_000, 2), *range(70_000, 140_000)]
    for has_runs in (False, True):
        positions, _ = decode_roaring(encoded(numbers, has_runs=has_runs))
        assert positions.tolist() == numbers


@pytest.fixture
def vector(tmp_path: Path) -> DeletionFile:
    path = tmp_path / "index"
    path.write_bytes(ONE_DELETED)
    return DeletionFile(path=str(path), offset=1, length=22, cardinality=1)


def test_the_vector_of_the_description_is_read(vector: DeletionFile) -> None:
    assert read_positions(LocalFileIO(), vector).tolist() == [0]


def test_a_vector_of_64_bits_is_read(tmp_path: Path) -> None:
    body = struct.pack("<iq", 1_681_511_377, 2)
    body += struct.pack("<i", 0) + encoded([3, 70_000], has_runs=False)
    body += struct.pack("<i", 1) + encoded([5], has_runs=True)
    path = tmp_path / "index"
    path.write_bytes(b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body)))
    file = DeletionFile(path=str(path), offset=1, length=len(body) + 8, cardinality=3)
    assert read_positions(LocalFileIO(), file).tolist() == [3, 70_000, (1 << 32) + 5]


@pytest.mark.parametrize("at", range(1, len(ONE_DELETED)))
def test_every_damage_is_seen(vector: DeletionFile, at: int) -> None:
    data = bytearray(ONE_DELETED)
    data[at] ^= 0x10
    Path(vector.path).write_bytes(data)
    with pytest.raises(CorruptDataError, match="deletion vector at byte 1 of"):
        read_positions(LocalFileIO(), vector)


@pytest.mark.parametrize("size", range(len(ONE_DELETED)))
def test_a_file_that_is_cut_off_is_seen(vector: DeletionFile, size: int) -> None:
    Path(vector.path).write_bytes(ONE_DELETED[:size])
    with pytest.raises(CorruptDataError, match="deletion vector at byte 1 of"):
        read_positions(LocalFileIO(), vector)


@given(st.sets(st.integers(0, 99)), st.integers(1, 30))
def test_deleted_rows_are_left_out_whatever_the_batches(gone: set[int], batch_rows: int) -> None:
    rows = pa.table({"at": list(range(100))})
    positions = np.array(sorted(gone), np.uint64)
    kept = without_deleted(iter(rows.to_batches(max_chunksize=batch_rows)), positions)
    assert [at for batch in kept for at in batch.column(0).to_pylist()] == [at for at in range(100) if at not in gone]
