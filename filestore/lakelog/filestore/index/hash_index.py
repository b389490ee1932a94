"""The HASH index of a table with dynamic buckets: the hashes of the keys that each bucket holds.

One index file per bucket, named by the index manifest: 4 bytes per key, the default bucket function's hash of its
trimmed primary key as a big-endian signed number. The order is free; lakelog writes the hashes in ascending order. A
hash is kept when its key is deleted. Source: Paimon spec, "Table index", "Dynamic bucket index".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any  # Any: Avro records are untyped

import numpy as np
import numpy.typing as npt

from lakelog.common.bounded_cache import BoundedCache
from lakelog.common.errors import ConflictError, CorruptDataError
from lakelog.filestore.index.index_file import write_index_file
from lakelog.filestore.io.integrity import damaged, read_checked
from lakelog.filestore.io.path_forms import plain_path
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore

HASH_TYPE = "HASH"
Hashes = npt.NDArray[np.int32]  # ascending, each once
_HASH_BYTES = 4
_STORED = np.dtype(">i4")
_READ: BoundedCache[str, Hashes] = BoundedCache(bytes_max=128 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class HashFile:
    """One bucket's index file. `external_path` is its path, if it is not among the table's index files."""

    file_name: str
    key_count: int
    size_bytes: int
    external_path: str | None = None


HashIndex = Mapping[bytes, Mapping[int, HashFile]]  # by partition, then by bucket


@dataclass(frozen=True, slots=True, kw_only=True)
class HashIndexChange:
    """The changes of a commit to the HASH index, and the index by which its buckets were chosen.

    `seen` are the index files of each partition to which rows are written, `files` are the new ones, each of which
    replaces that of its bucket. All index files of `replaced` partitions are dropped.
    """

    seen: HashIndex = field(default_factory=dict)
    files: Mapping[BucketId, HashFile] = field(default_factory=dict)
    replaced: Set[bytes] = frozenset()

    @classmethod
    def joined(cls, changes: Sequence[HashIndexChange]) -> HashIndexChange:
        """The joined changes of writers that assigned buckets on one snapshot, with new keys in different buckets."""
        return cls(
            seen={partition: seen for one in changes for partition, seen in one.seen.items()},
            files={bucket: file for one in changes for bucket, file in one.files.items()},
        )

    @property
    def partitions(self) -> set[bytes]:
        """The partitions whose rows may be committed with this change."""
        return {*self.seen, *self.replaced}

    def drops(self, bucket: BucketId) -> bool:
        """Whether the old index file of a bucket is dropped."""
        return bucket.partition in self.replaced or bucket in self.files


def hash_index_of(records: Sequence[Mapping[str, Any]]) -> HashIndex:
    """The HASH files among the records of an index manifest."""
    found: dict[bytes, dict[int, HashFile]] = {}
    for record in records:
        if record["_INDEX_TYPE"] == HASH_TYPE:
            found.setdefault(record["_PARTITION"], {})[record["_BUCKET"]] = HashFile(
                file_name=record["_FILE_NAME"],
                key_count=record["_ROW_COUNT"],
                size_bytes=record["_FILE_SIZE"],
                external_path=record.get("_EXTERNAL_PATH"),
            )
    return found


def check_unchanged(table: TableStore, index: HashIndex, change: HashIndexChange) -> None:
    """Raise ConflictError if a bucket was chosen by an index that is no longer the newest one.

    Otherwise one key could be in two buckets.
    """
    if is_changed(index, change):
        raise ConflictError(
            f"another writer assigned buckets to keys of table {table.name} at the same time; write the rows again "
            "from the newest snapshot"
        )


def is_changed(index: HashIndex, change: HashIndexChange) -> bool:
    """Whether the index of a partition differs from the one of the change."""
    return any(index.get(partition, {}) != seen for partition, seen in change.seen.items())


def check_complete(table: TableStore, index: HashIndex, buckets: Set[BucketId]) -> None:
    """Raise CorruptDataError for a bucket with files that has no index: a key in it would be written elsewhere."""
    missing = [bucket for bucket in buckets if bucket.number not in index.get(bucket.partition, {})]
    if missing:
        raise CorruptDataError(
            f"{table.bucket_dir(min(missing))} of table {table.name} has data files, but no HASH index file of "
            "their keys: they were written without one. Keys could be written twice; read the rows, and "
            "overwrite the table or the partition with them"
        )


def read_hashes(table: TableStore, file: HashFile) -> Hashes:
    """The hashes of an index file. Cached between calls. Raises NotFoundError, CorruptDataError."""
    path = plain_path(file.external_path) if file.external_path else table.paths.index(file.file_name)
    held = _READ.get(path)
    if held is None:
        data = read_checked(table.file_io, path, size_bytes=file.size_bytes)
        if len(data) != file.key_count * _HASH_BYTES:
            raise damaged(path, f"it has {len(data)} bytes, expected {_HASH_BYTES} for each of {file.key_count} keys")
        held = _rising(np.frombuffer(data, _STORED).astype(np.int32))
        _READ.add(path, held, held.nbytes)
    return held


def _rising(hashes: Hashes) -> Hashes:
    """The hashes in order, each once, by a sort: np.unique takes a hundred times as long for this many."""
    if (hashes[1:] > hashes[:-1]).all():
        return hashes
    ordered = np.sort(hashes)
    distinct: Hashes = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return distinct


def write_hashes(table: TableStore, hashes: Hashes) -> HashFile:
    """Write an index file, durably. No snapshot names it yet."""
    data = hashes.astype(_STORED).tobytes()
    name = write_index_file(table, data)
    return HashFile(file_name=name, key_count=len(hashes), size_bytes=len(data))
