"""Deletion vectors: which rows of a data file are gone, by their positions.

The index manifest of a snapshot names for each data file an entry of an index file: its offset and length. Source:
Paimon spec, "Deletion vectors"; the 64 bit form is Iceberg's.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any  # Any: Avro records are untyped

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.fileio import FileIO
from lakelog.filestore.formats.avro import read_container
from lakelog.filestore.live_files import BucketId
from lakelog.filestore.roaring import decode_roaring
from lakelog.filestore.snapshot import Snapshot
from lakelog.filestore.store import TableStore

INDEX_TYPE = "DELETION_VECTORS"
_MAGIC_32 = 1_581_511_376  # big endian, after the size
_MAGIC_64 = 1_681_511_377  # little endian, after the size
_HEAD_BYTES = 8
_CHECKSUM_BYTES = 4

Positions = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionFile:
    """Where the deletion vector of one data file is: bytes of an index file. Pickles small."""

    path: str
    offset: int
    length: int
    cardinality: int | None


def deletion_files(table: TableStore, snapshot: Snapshot) -> Mapping[BucketId, Mapping[str, DeletionFile]]:
    """The deletion vectors of a snapshot: by bucket, then by the name of the data file. Raises CorruptDataError."""
    if snapshot.index_manifest is None:
        return {}
    path = table.paths.manifest(snapshot.index_manifest)
    found: dict[BucketId, dict[str, DeletionFile]] = {}
    try:
        for record in read_container(table.file_io, path):
            if record["_INDEX_TYPE"] == INDEX_TYPE:
                bucket = found.setdefault((record["_PARTITION"], record["_BUCKET"]), {})
                bucket.update(_files_of(record, table))
    except (KeyError, TypeError) as error:
        raise CorruptDataError(f"index manifest {path} holds a record that is not readable: {error!r}") from error
    return found


def _files_of(record: Mapping[str, Any], table: TableStore) -> Iterator[tuple[str, DeletionFile]]:
    path = record.get("_EXTERNAL_PATH") or table.paths.index(record["_FILE_NAME"])
    for entry in record["_DELETIONS_VECTORS_RANGES"] or ():
        yield (
            entry["f0"],
            DeletionFile(path=path, offset=entry["f1"], length=entry["f2"], cardinality=entry.get("_CARDINALITY")),
        )


def read_positions(file_io: FileIO, file: DeletionFile) -> Positions:
    """The deleted positions of a data file, rising. Raises NotFoundError, CorruptDataError."""
    with file_io.open_input(file.path) as source:
        size = source.size()
        if file.offset + _HEAD_BYTES > size:
            raise _corrupt(file, f"the file has {size} bytes only")
        source.seek(file.offset)
        data = source.read(file.length + _HEAD_BYTES)
    try:
        positions = _decode(data)
    except (ValueError, struct.error) as error:
        raise _corrupt(file, str(error)) from error
    if file.cardinality is not None and len(positions) != file.cardinality:
        raise _corrupt(file, f"it has {len(positions)} positions, expected {file.cardinality}")
    return positions


def without_deleted(batches: Iterator[pa.RecordBatch], positions: Positions) -> Iterator[pa.RecordBatch]:
    """The rows of a data file's batches, from its first row on, whose positions are not deleted."""
    start = 0
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
    raise ValueError(f"it begins with {body[:4].hex()}, which is no deletion vector")


def _decode_64(view: memoryview) -> Positions:
    """Bitmaps of the low 32 bits, each behind its high 32 bits."""
    (count,) = struct.unpack_from("<q", view, 0)
    at = 8
    parts: list[Positions] = []
    for _ in range(count):
        (high,) = struct.unpack_from("<I", view, at)
        low, length = decode_roaring(view[at + 4 :])
        parts.append(low.astype(np.uint64) + np.uint64(high << 32))
        at += 4 + length
    return np.concatenate(parts) if parts else np.zeros(0, np.uint64)


def _corrupt(file: DeletionFile, what: str) -> CorruptDataError:
    return CorruptDataError(f"the deletion vector at byte {file.offset} of {file.path} is damaged: {what}")
