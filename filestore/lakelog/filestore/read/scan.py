"""The files of a snapshot that a read needs, as splits that can be read independently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.data.row_ids import groups_by_row_id, has_row_groups
from lakelog.filestore.index.deletion_vectors import DeletionFile
from lakelog.filestore.index.index_manifest import deletion_files
from lakelog.filestore.io.collection import paused_collection
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.levels import sections_of_files
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.identity import check_schema
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.foreign import OptionUse, check_foreign_options
from lakelog.filestore.options.merging import DELETION_VECTORS_MERGE_ON_READ
from lakelog.filestore.options.reading import SOURCE_SPLIT_OPEN_FILE_COST, SOURCE_SPLIT_TARGET_SIZE
from lakelog.filestore.predicate import Predicate, check_filter
from lakelog.filestore.read.changes import files_in_changelogs
from lakelog.filestore.read.file_pruning import Pruning
from lakelog.filestore.schema.paths import MAIN_BRANCH

FileGroup = tuple[tuple[DataFileMeta, ...], bool]  # files, and whether their rows are the table's rows
POSTPONE_BUCKET = -2  # rows are shown once a compaction has moved them


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSplit:
    """Files of one bucket that are read together: files with overlapping key ranges are in one split.

    `raw_convertible` means that the files' rows are the table's rows, except those at the positions in `deletions`, by
    a file's name: no key occurs twice and no other row is deleted. `branch` is the branch of the files, if it is not
    the table's: see `lakelog.filestore.read.fallback`.
    """

    snapshot_id: int
    bucket_id: BucketId
    files: tuple[DataFileMeta, ...]
    raw_convertible: bool
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)
    branch: str | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.file_size_bytes for file in self.files)

    @property
    def row_count(self) -> int:
        """Rows of all files, before merging."""
        return sum(file.row_count for file in self.files)

    @property
    def is_plain(self) -> bool:
        """Whether each row of the files is a row of the table, and no other is."""
        return self.raw_convertible and not self.deletions


def first_splits(splits: Sequence[DataSplit], rows: int) -> Sequence[DataSplit]:
    """The first files with at least so many rows that need no merge; all splits if they are too few. Pure."""
    found: list[DataSplit] = []
    left = rows
    for split in splits:
        if not split.is_plain or split.branch is not None:
            continue
        files: list[DataFileMeta] = []
        for file in split.files:
            if left <= 0:
                break
            files.append(file)
            left -= file.row_count
        found += [replace(split, files=tuple(files))] if files else []
        if left <= 0:
            return found
    return splits


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The splits of a snapshot to read; `snapshot` is None for a table without snapshots."""

    snapshot: Snapshot | None
    splits: tuple[DataSplit, ...]


def plan_splits(
    table: TableStore,
    snapshot: Snapshot | None,
    *,
    where: Predicate | None = None,
    buckets: Set[int] | None = None,
    is_followed: bool = False,
) -> Plan:
    """The splits of a snapshot that may hold rows which pass `where`, of the given buckets or all.

    `where` only skips files; the reader filters rows. `is_followed` is for a reader that continues with the changes
    after the snapshot: it leaves out rows that are in later changelogs, and includes those that wait for a compaction
    and are in no changelog. Raises InvalidRequestError for a filter that does not fit the table and UnsupportedError
    for tables that lakelog cannot read correctly yet.
    """
    table = table.stored
    check_readable(table)
    if snapshot is None:
        return Plan(snapshot=None, splits=())
    check_schema(table, snapshot)
    if where is not None:
        check_filter(where, table.schema.fields)
    wanted = Pruning(table, where, buckets, is_followed=is_followed)
    with paused_collection():
        return Plan(snapshot=snapshot, splits=tuple(_splits(table, snapshot, wanted, is_followed=is_followed)))


def _splits(table: TableStore, snapshot: Snapshot, wanted: Pruning, *, is_followed: bool) -> Iterator[DataSplit]:
    deletions = deletion_files(table, snapshot)
    for bucket, live in sorted(table.live_files.matching(snapshot, wanted).buckets.items()):
        if bucket.number == POSTPONE_BUCKET:
            continue
        total_buckets = next(iter(live.values())).total_buckets
        if not wanted.may_hold(bucket, total_buckets):
            continue
        bucket_files = [entry.file for entry in live.values()]
        shown = files_in_changelogs(table, bucket_files) if is_followed else bucket_files
        files = [file for file in shown if wanted.keys_may_match(bucket.partition, file)]
        vectors = deletions.get(bucket, {})
        for group, is_raw in _groups(table, bucket.partition, files, wanted):
            yield DataSplit(
                snapshot_id=snapshot.id,
                bucket_id=bucket,
                files=group,
                raw_convertible=is_raw,
                deletions={file.file_name: vectors[file.file_name] for file in group if file.file_name in vectors},
            )


def check_readable(table: TableStore) -> None:
    """Raise UnsupportedError for tables whose rows lakelog cannot read correctly."""
    options = table.schema.options
    if table.branch != MAIN_BRANCH:  # the branch was asked for, so the option `branch` does not matter
        options = {key: value for key, value in options.items() if key != "branch"}
    check_foreign_options(options, OptionUse.READ, table_name=table.name)
    row_merge(table.schema)
    if table.schema.primary_keys and DELETION_VECTORS_MERGE_ON_READ.of(table.schema.options):
        raise UnsupportedError(
            f"table {table.name} has {DELETION_VECTORS_MERGE_ON_READ.key}=true, which is not read yet"
        )


def _groups(table: TableStore, partition: bytes, files: Sequence[DataFileMeta], wanted: Pruning) -> Iterator[FileGroup]:
    """The files of a bucket as splits, and for each whether its rows are the table's rows."""
    options = table.schema.options
    sizes = SOURCE_SPLIT_TARGET_SIZE.understood(options), SOURCE_SPLIT_OPEN_FILE_COST.understood(options)
    if wanted.is_merged:
        sections = sections_of_files(files, table.key_types)
        return _packed(((wanted.left_of(partition, section), section.is_raw) for section in sections), *sizes)
    if has_row_groups(table.schema):
        groups = ((group, len(group) == 1) for group in groups_by_row_id(files))
        return _packed((one for one in groups if not one[1] or wanted.rows_may_match(partition, one[0][0])), *sizes)
    shown = [file for file in files if file.level > 0 or not table.schema.primary_keys]
    left = [file for file in shown if wanted.rows_may_match(partition, file)]
    left.sort(key=lambda file: (file.min_sequence_number, file.file_name))
    return _packed((((file,), True) for file in left), *sizes)


def _packed(parts: Iterable[FileGroup], target_bytes: int, open_file_cost_bytes: int) -> Iterator[FileGroup]:
    """Neighbouring parts joined, up to the size of a split; parts that need no merge are joined separately.

    A part is never cut, and counts at least as the cost of opening a file.
    """
    held: dict[bool, list[DataFileMeta]] = {True: [], False: []}
    held_bytes = {True: 0, False: 0}
    for part, is_raw in parts:
        if not part:
            continue
        size = max(sum([file.file_size_bytes for file in part]), open_file_cost_bytes)
        files = held[is_raw]
        if files and held_bytes[is_raw] + size > target_bytes:
            yield tuple(files), is_raw
            files.clear()
            held_bytes[is_raw] = 0
        files.extend(part)
        held_bytes[is_raw] += size
    for is_raw, files in held.items():
        if files:
            yield tuple(files), is_raw
