"""Which files of a snapshot a read must look at, as splits that can be read independently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.binary_row import StoredValue, to_table
from lakelog.filestore.bucket import bucket_of
from lakelog.filestore.changes import told_files
from lakelog.filestore.data_file import DataFileMeta
from lakelog.filestore.deletion_vectors import DeletionFile
from lakelog.filestore.index_manifest import deletion_files
from lakelog.filestore.levels import runs_of, sections_of
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.options import DELETION_VECTORS, DELETION_VECTORS_MERGE_ON_READ, MERGE_ENGINE, MergeEngine
from lakelog.filestore.predicate import Predicate, bounds_of_row, bounds_of_stats, check_filter, equal_rows, may_match
from lakelog.filestore.schema import TableSchema
from lakelog.filestore.snapshot import Snapshot
from lakelog.filestore.store import TableStore

SPLIT_BYTES = 128 << 20
FileGroup = tuple[tuple[DataFileMeta, ...], bool]  # files, and whether their rows are the table's rows
POSTPONE_BUCKET = -2  # read once a compaction has moved its rows


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSplit:
    """Files of one bucket that are read together: whoever shares a key range is in one split.

    `raw_convertible` says that the files' rows are the table's rows, but for those at the positions that `deletions`
    tell for a file's name: no key is there twice and nothing else is deleted.
    """

    snapshot_id: int
    partition: bytes
    bucket: int
    files: tuple[DataFileMeta, ...]
    raw_convertible: bool
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.file_size_bytes for file in self.files)

    @property
    def row_count(self) -> int:
        """Rows of all files, before merging."""
        return sum(file.row_count for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to read of a snapshot; `snapshot` is None for a table without any."""

    snapshot: Snapshot | None
    splits: tuple[DataSplit, ...]


def plan(
    table: TableStore,
    snapshot: Snapshot | None,
    *,
    where: Predicate | None = None,
    buckets: Set[int] | None = None,
    is_followed: bool = False,
) -> Plan:
    """The splits of a snapshot that may hold rows which pass `where`, of the given buckets or all.

    `where` only skips; the reader filters. `is_followed` leaves out what later changelogs tell: for a reader that goes
    on with the changes after the snapshot. Raises InvalidRequestError for a filter that does not fit the table and
    UnsupportedError for tables that lakelog cannot read right yet.
    """
    check_readable(table)
    if snapshot is None:
        return Plan(snapshot=None, splits=())
    check_schema(table, snapshot)
    if where is not None:
        check_filter(where, table.schema.fields)
    splits: list[DataSplit] = []
    wanted = _Pruning(table, where)
    deletions = deletion_files(table, snapshot)
    for (partition, bucket), live in sorted(table.live_files.of(snapshot).buckets.items()):
        if bucket == POSTPONE_BUCKET or (buckets is not None and bucket not in buckets):
            continue
        total_buckets = next(iter(live.values())).total_buckets
        if not wanted.may_hold(partition, bucket, total_buckets):
            continue
        bucket_files = [entry.file for entry in live.values()]
        shown = told_files(table, bucket_files) if is_followed else bucket_files
        files = [file for file in shown if wanted.may_match(file)]
        gone = deletions.get((partition, bucket), {})
        for group, is_raw in _groups(table, files):
            splits.append(
                DataSplit(
                    snapshot_id=snapshot.id,
                    partition=partition,
                    bucket=bucket,
                    files=group,
                    raw_convertible=is_raw,
                    deletions={file.file_name: gone[file.file_name] for file in group if file.file_name in gone},
                )
            )
    return Plan(snapshot=snapshot, splits=tuple(splits))


def check_readable(table: TableStore) -> None:
    """Raise UnsupportedError for tables whose rows lakelog cannot tell right."""
    row_merge(table.schema)
    if DELETION_VECTORS_MERGE_ON_READ.of(table.schema.options):
        raise UnsupportedError(
            f"table {table.name} has {DELETION_VECTORS_MERGE_ON_READ.key}=true, which is not read yet"
        )


def check_schema(table: TableStore, snapshot: Snapshot | None) -> None:
    """Raise NotFoundError where the schema of a snapshot was lost; a table may have been opened before it was made."""
    if snapshot is not None and snapshot.schema_id > table.schema.id:
        table.schemas.get(snapshot.schema_id)


def is_merged_on_read(schema: TableSchema) -> bool:
    """Whether several files of a bucket may hold one key.

    They may not in tables without primary key; with deletion vectors and with the merge engine first-row they may, but
    in level 0 only, which batch reads leave out.
    """
    options = schema.options
    is_compacted_first = DELETION_VECTORS.of(options) or MERGE_ENGINE.of(options) is MergeEngine.FIRST_ROW
    return bool(schema.primary_keys) and not is_compacted_first


def _groups(table: TableStore, files: Sequence[DataFileMeta]) -> Iterator[FileGroup]:
    """The files of a bucket as splits, and for each whether its rows are the table's rows."""
    if is_merged_on_read(table.schema):
        sections = sections_of(runs_of(files, table.key_types), table.key_types)
        return _packed((section.files, section.is_raw) for section in sections)
    shown = [file for file in files if file.level > 0 or not table.schema.primary_keys]
    in_order = sorted(shown, key=lambda file: (file.min_sequence_number, file.file_name))
    return _packed(((file,), True) for file in in_order)


class _Pruning:
    """What a filter rules out before any file is opened."""

    def __init__(self, table: TableStore, where: Predicate | None) -> None:
        self._schema = table.schema
        self._where = where
        self._partitions: dict[bytes, bool] = {}
        self._keys = None if where is None else equal_rows(where, self._schema.fields, self._schema.bucket_keys)
        self._buckets: dict[int, frozenset[int]] = {}

    def may_hold(self, partition: bytes, bucket: int, total_buckets: int) -> bool:
        """False when no row of the bucket can pass."""
        if self._where is None:
            return True
        if partition not in self._partitions:
            bounds = bounds_of_row(self._schema.partition_fields, partition)
            self._partitions[partition] = may_match(self._where, self._schema.fields, bounds)
        if not self._partitions[partition]:
            return False
        if self._keys is None or total_buckets < 1:
            return True
        if total_buckets not in self._buckets:
            self._buckets[total_buckets] = _buckets_of(self._schema, self._keys, total_buckets)
        return bucket in self._buckets[total_buckets]

    def may_match(self, file: DataFileMeta) -> bool:
        """False when no key of the file can pass: then no younger or older row of these keys can either."""
        if self._where is None or not self._schema.primary_keys:
            return True
        bounds = bounds_of_stats(self._schema.key_fields, file.key_stats, row_count=file.row_count)
        return may_match(self._where, self._schema.fields, bounds)


def _buckets_of(schema: TableSchema, keys: Sequence[tuple[StoredValue, ...]], total_buckets: int) -> frozenset[int]:
    if not keys:
        return frozenset()
    fields = schema.bucket_fields
    return frozenset(bucket_of(to_table(fields, keys), fields, total_buckets, schema.bucket_function).tolist())


def _packed(parts: Iterable[FileGroup]) -> Iterator[FileGroup]:
    """Neighbouring parts joined, up to the size of a split; those that need no merge apart from the others."""
    held: dict[bool, list[DataFileMeta]] = {True: [], False: []}
    for part, is_raw in parts:
        files = held[is_raw]
        if files and sum(file.file_size_bytes for file in (*files, *part)) > SPLIT_BYTES:
            yield tuple(files), is_raw
            files.clear()
        files.extend(part)
    for is_raw, files in held.items():
        if files:
            yield tuple(files), is_raw
