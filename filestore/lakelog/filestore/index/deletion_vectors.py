"""Deletion vectors: the positions of the deleted rows of a data file.

An index file holds the vectors of a bucket's data files, one entry each; see `filestore.index.index_manifest` for how
a snapshot finds them. Source: Paimon spec, "Deletion vectors"; the 64 bit form is Iceberg's.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.encoding.roaring import NUMBERS_MAX, decode_roaring, encode_roaring
from lakelog.filestore.formats.blocks.reader_errors import errors_named
from lakelog.filestore.io.fileio import WHOLE_BYTES_MAX, FileIO
from lakelog.filestore.io.integrity import WAY_OUT, has_digest, read_checked

_VERSION = b"\x01"
_MAGIC_32 = 1_581_511_376  # big endian, after the size
_MAGIC_64 = 1_681_511_377  # little endian, after the size
_HEAD_BYTES = 8
_CHECKSUM_BYTES = 4

Positions = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFile:
    """The bytes in an index file with the deletion vector of one data file. Pickled without the vector."""

    path: str
    offset: int
    length: int
    cardinality: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRange:
    """The position of the deletion vector of a data file in an index file."""

    file_name: str
    offset: int
    length: int
    cardinality: int | None


def read_positions(file_io: FileIO, file: DeletionFile) -> Positions:
    """The deleted positions of a data file, in ascending order. Raises NotFoundError, CorruptDataError."""
    if file.offset < 0 or not 0 <= file.length <= WHOLE_BYTES_MAX:
        raise _corrupt(file, f"its manifest names {file.length} bytes at byte {file.offset}")
    data = _vector_bytes(file_io, file)
    if len(data) < _HEAD_BYTES:
        raise _corrupt(file, f"the file ends {len(data)} bytes behind its start")
    try:
        positions = _decode(data)
    except (ValueError, struct.error) as error:
        raise _corrupt(file, str(error)) from error
    if file.cardinality is not None and len(positions) != file.cardinality:
        raise _corrupt(file, f"it has {len(positions)} positions, expected {file.cardinality}")
    return positions


def encode_vectors(vectors: Mapping[str, Positions], *, is_64_bit: bool) -> tuple[bytes, list[VectorRange]]:
    """An index file with the deleted positions (ascending) of data files, and the position of each vector."""
    parts = [_VERSION]
    at = len(_VERSION)
    ranges: list[VectorRange] = []
    for file_name, positions in vectors.items():
        body = _body_64(positions) if is_64_bit else _body_32(positions)
        part = struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        # The 64 bit form includes size and checksum, as in Iceberg.
        length = len(part) if is_64_bit else len(body)
        ranges.append(VectorRange(file_name=file_name, offset=at, length=length, cardinality=len(positions)))
        parts.append(part)
        at += len(part)
    return b"".join(parts), ranges


def _body_32(positions: Positions) -> bytes:
    return struct.pack(">i", _MAGIC_32) + encode_roaring(positions.astype(np.uint32))


def _body_64(positions: Positions) -> bytes:
    highs, starts = np.unique(positions >> np.uint64(32), return_index=True)
    parts = np.split((positions & np.uint64(0xFFFF_FFFF)).astype(np.uint32), starts[1:])[: len(highs)]
    bitmaps = [struct.pack("<I", high) + encode_roaring(low) for high, low in zip(highs.tolist(), parts, strict=True)]
    return struct.pack("<iq", _MAGIC_64, len(bitmaps)) + b"".join(bitmaps)


def _vector_bytes(file_io: FileIO, file: DeletionFile) -> bytes:
    """The bytes of a vector and its checksum. A file named by a digest is read whole, to compare."""
    end = file.offset + file.length + _HEAD_BYTES
    if has_digest(file.path):
        return read_checked(file_io, file.path)[file.offset : end]
    try:
        with errors_named(file.path, "index"), file_io.open_input(file.path) as source:
            source.seek(file.offset)
            return bytes(source.read(end - file.offset))
    except NotFoundError as error:
        raise NotFoundError(
            f"index file {file.path} is missing: its snapshot has expired meanwhile, or the file was lost; plan the "
            "read again, and when it is still missing restore it from a copy"
        ) from error


def without_deleted(
    batches: Iterator[pa.RecordBatch], positions: Positions, *, start: int = 0
) -> Iterator[pa.RecordBatch]:
    """The rows of a data file's batches, from the row at `start` on, whose positions are not deleted."""
    for batch in batches:
        low, high = np.searchsorted(positions, [start, start + batch.num_rows])
        if low == high:
            yield batch
        else:
            keeps = np.ones(batch.num_rows, np.bool_)
            keeps[positions[low:high] - np.uint64(start)] = False
            yield batch.filter(pa.array(keeps))
        start += batch.num_rows


def _decode(data: bytes) -> Positions:
    (size,) = struct.unpack_from(">i", data, 0)
    body, checksum = data[4 : 4 + size], data[4 + size : 4 + size + _CHECKSUM_BYTES]
    if size < 4 or len(checksum) < _CHECKSUM_BYTES:
        raise ValueError(f"it is cut off: {size} bytes expected, {len(body)} found")
    if zlib.crc32(body) != int.from_bytes(checksum, "big"):
        raise ValueError("its checksum does not match")
    if int.from_bytes(body[:4], "big") == _MAGIC_32:
        positions, _ = decode_roaring(body[4:])
        return positions.astype(np.uint64)
    if int.from_bytes(body[:4], "little") == _MAGIC_64:
        return _decode_64(memoryview(body)[4:])
    raise ValueError(f"it begins with {body[:4].hex()}, which is not a deletion vector")


def _decode_64(view: memoryview) -> Positions:
    """Bitmaps of the low 32 bits, each after its high 32 bits."""
    (count,) = struct.unpack_from("<q", view, 0)
    if not 0 <= count <= len(view):
        raise ValueError(f"it claims {count} bitmaps in {len(view)} bytes")
    at = 8
    left = NUMBERS_MAX
    parts: list[Positions] = []
    for _ in range(count):
        (high,) = struct.unpack_from("<I", view, at)
        low, length = decode_roaring(view[at + 4 :], numbers_max=left)
        left -= len(low)
        parts.append(low.astype(np.uint64) + np.uint64(high << 32))
        at += 4 + length
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def _corrupt(file: DeletionFile, what: str) -> CorruptDataError:
    return CorruptDataError(f"the deletion vector at byte {file.offset} of {file.path} is damaged: {what}; {WAY_OUT}")
