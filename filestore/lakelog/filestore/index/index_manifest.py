"""The index manifest of a snapshot: the index files of its deletion vectors and of its HASH index.

Source: Paimon spec, "Index manifest". lakelog writes one index file of each kind for a bucket; a new one replaces the
old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any  # Any: Avro records are untyped

from lakelog.common.errors import ConflictError
from lakelog.common.file_names import check_file_name
from lakelog.filestore.formats.avro.avro import codec_of, encode_container
from lakelog.filestore.formats.records import read_records
from lakelog.filestore.index.deletion_vectors import DeletionFile, Positions, VectorRange, encode_vectors
from lakelog.filestore.index.hash_index import (
    HASH_TYPE,
    HashFile,
    HashIndex,
    HashIndexChange,
    check_unchanged,
    hash_index_of,
)
from lakelog.filestore.index.index_file import write_index_file
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.io.path_forms import plain_path
from lakelog.filestore.metadata.manifests.manifest import ManifestFiles
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.manifests.manifest_schemas import INDEX_SCHEMA
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.files import MANIFEST_COMPRESSION
from lakelog.filestore.options.merging import DELETION_VECTORS_64_BIT
from lakelog.filestore.schema.paths import INDEX_BESIDE_DATA, FileNames

INDEX_TYPE = "DELETION_VECTORS"
_RECORD_VERSION = 1
_ADD = 0
_KEYS = ("_INDEX_TYPE", "_PARTITION", "_BUCKET", "_FILE_NAME", "_DELETIONS_VECTORS_RANGES")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFile:
    """One index file of a bucket's deletion vectors."""

    file_name: str
    size_bytes: int
    ranges: tuple[VectorRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDeletions:
    """The deletion vectors of a bucket that a compaction has read, and the index file that replaces them, if any.

    `is_changed` False keeps the vectors, except those of deleted files.
    """

    bucket_id: BucketId
    seen: Mapping[str, DeletionFile]
    file: IndexFile | None = None
    is_changed: bool = False


def deletion_files(table: TableStore, snapshot: Snapshot | None) -> Mapping[BucketId, Mapping[str, DeletionFile]]:
    """The deletion vectors of a snapshot: by bucket, then by the name of the data file. Raises CorruptDataError."""
    if snapshot is None or snapshot.index_manifest is None:
        return {}
    return _vectors_of(table, read_index(table, snapshot.index_manifest))


def hash_index(table: TableStore, snapshot: Snapshot | None) -> HashIndex:
    """The HASH index of a snapshot; empty for a table without dynamic buckets. Raises CorruptDataError."""
    if snapshot is None or snapshot.index_manifest is None or not table.schema.has_dynamic_buckets:
        return {}
    return hash_index_of(read_index(table, snapshot.index_manifest))


def _vectors_of(table: TableStore, records: Sequence[Mapping[str, Any]]) -> dict[BucketId, dict[str, DeletionFile]]:
    found: dict[BucketId, dict[str, DeletionFile]] = {}
    for record in records:
        if record["_INDEX_TYPE"] == INDEX_TYPE:
            bucket = found.setdefault(_bucket_of(record), {})
            bucket.update(_files_of(record, table))
    return found


def read_index(table: TableStore, name: str) -> list[dict[str, Any]]:
    """The records of an index manifest. Raises NotFoundError, CorruptDataError."""
    path = table.paths.manifest(name)
    records = read_records(table.file_io, path)
    for record in records:
        missing = [key for key in _KEYS if key not in record]
        if missing:
            raise damaged(path, f"it holds a record without {', '.join(missing)}")
        try:
            check_file_name(record["_FILE_NAME"])
        except ValueError as error:
            raise damaged(path, str(error)) from error
    return records


def write_vectors(table: TableStore, vectors: Mapping[str, Positions]) -> IndexFile:
    """Write an index file with the deleted positions of data files, durably. No snapshot names it yet."""
    data, ranges = encode_vectors(vectors, is_64_bit=DELETION_VECTORS_64_BIT.of(table.schema.options))
    name = write_index_file(table, data)
    return IndexFile(file_name=name, size_bytes=len(data), ranges=tuple(ranges))


def index_after(
    table: TableStore,
    latest: Snapshot | None,
    *,
    deleted: Mapping[BucketId, Set[str]],
    deletions: Sequence[BucketDeletions],
    hashes: HashIndexChange | None,
    is_compaction: bool,
    names: FileNames,
    manifests: ManifestFiles,
) -> str | None:
    """The name of the index manifest after a commit: the present one, or a new one; None without index files.

    A new one is written to `manifests`.
    `deleted` are the names of the data files that the commit removes. Raises ConflictError if another writer has
    deleted rows of files that a compaction has merged or marked, or has assigned buckets to keys in partitions of
    `hashes`.
    """
    current = None if latest is None else latest.index_manifest
    changed = {one.bucket_id: one for one in deletions if one.is_changed}
    hashes = hashes or HashIndexChange()
    given = [] if current is None else read_index(table, current)
    check_unchanged(table, hash_index_of(given), hashes)
    there = _vectors_of(table, given)
    if is_compaction:
        _check_unchanged(table, there, deleted, deletions)
    kept = [left for record in given if (left := _without(record, deleted, changed, hashes)) is not None]
    added = [_record(bucket, one.file) for bucket, one in changed.items() if one.file is not None]
    added += [_hash_record(bucket, file) for bucket, file in hashes.files.items()]
    records = [*kept, *added]
    if kept == given and not added:
        return current
    if not records:
        return None
    codec = codec_of(MANIFEST_COMPRESSION.of(table.schema.options))
    data = encode_container(INDEX_SCHEMA, records, codec=codec)
    name = names.index_manifest(data)
    manifests.create(table.paths.manifest(name), data)
    return name


def _check_unchanged(
    table: TableStore,
    there: Mapping[BucketId, Mapping[str, DeletionFile]],
    deleted: Mapping[BucketId, Set[str]],
    deletions: Sequence[BucketDeletions],
) -> None:
    given = {one.bucket_id: one for one in deletions}
    for bucket in {*deleted, *given}:
        found, one = there.get(bucket, {}), given.get(bucket)
        seen = {} if one is None else one.seen
        files = {*found, *seen} if one is not None and one.is_changed else deleted.get(bucket, set())
        for name in files:
            if found.get(name) != seen.get(name):
                raise ConflictError(
                    f"rows of file {name} in bucket {bucket.number} of table {table.name} were deleted by another "
                    "writer while it was compacted; compact again from the newest snapshot"
                )


def _without(
    record: Mapping[str, Any],
    deleted: Mapping[BucketId, Set[str]],
    changed: Mapping[BucketId, BucketDeletions],
    hashes: HashIndexChange,
) -> Mapping[str, Any] | None:
    """A record without the vectors of files that were removed; None if it is replaced or becomes empty."""
    bucket = _bucket_of(record)
    if record["_INDEX_TYPE"] == HASH_TYPE:
        return None if hashes.drops(bucket) else record
    if record["_INDEX_TYPE"] != INDEX_TYPE:
        return record
    if bucket in changed:
        return None
    ranges = record["_DELETIONS_VECTORS_RANGES"] or ()
    removed = deleted.get(bucket, set())
    left = [one for one in ranges if one["f0"] not in removed]
    if len(left) == len(ranges):
        return record
    return {**record, "_DELETIONS_VECTORS_RANGES": left, "_ROW_COUNT": len(left)} if left else None


def _record(bucket: BucketId, file: IndexFile) -> Mapping[str, Any]:
    return {
        **_head(bucket, INDEX_TYPE),
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.size_bytes,
        "_ROW_COUNT": len(file.ranges),
        "_DELETIONS_VECTORS_RANGES": [
            {"f0": one.file_name, "f1": one.offset, "f2": one.length, "_CARDINALITY": one.cardinality}
            for one in file.ranges
        ],
    }


def _hash_record(bucket: BucketId, file: HashFile) -> Mapping[str, Any]:
    return {
        **_head(bucket, HASH_TYPE),
        "_FILE_NAME": file.file_name,
        "_FILE_SIZE": file.size_bytes,
        "_ROW_COUNT": file.key_count,
    }


def _head(bucket: BucketId, index_type: str) -> Mapping[str, Any]:
    return {
        "_VERSION": _RECORD_VERSION,
        "_KIND": _ADD,
        "_PARTITION": bucket.partition,
        "_BUCKET": bucket.number,
        "_INDEX_TYPE": index_type,
    }


def _bucket_of(record: Mapping[str, Any]) -> BucketId:
    return BucketId(record["_PARTITION"], record["_BUCKET"])


def _files_of(record: Mapping[str, Any], table: TableStore) -> Iterator[tuple[str, DeletionFile]]:
    name = record["_FILE_NAME"]
    is_beside_data = table.schema.options.get(INDEX_BESIDE_DATA, "").lower() == "true"
    folder = table.bucket_dir(_bucket_of(record)) if is_beside_data else table.paths.index_dir
    external = record.get("_EXTERNAL_PATH")
    path = plain_path(external) if external else f"{folder}/{name}"
    for entry in record["_DELETIONS_VECTORS_RANGES"] or ():
        yield (
            entry["f0"],
            DeletionFile(path=path, offset=entry["f1"], length=entry["f2"], cardinality=entry.get("_CARDINALITY")),
        )
