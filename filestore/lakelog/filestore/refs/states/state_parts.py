"""What two states of a table do not share: the splits of each that the other lacks, unit by unit.

A *part* is a set of files that are read together: a section of runs, or one file. A part that both states have holds
the same rows in both, and no row of another part is in its range of keys: so only the other parts are read. A unit
holds all rows with equal keys of both states: a bucket if both have the same buckets, else a partition, or the table.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from lakelog.filestore.data.row_ids import groups_by_row_id, has_row_groups
from lakelog.filestore.index.deletion_vectors import DeletionFile
from lakelog.filestore.index.index_manifest import deletion_files
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.levels import sections_of_files
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.identity import check_schema
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.read.changes import files_in_changelogs
from lakelog.filestore.read.file_pruning import is_merged_for
from lakelog.filestore.read.scan import POSTPONE_BUCKET, DataSplit, check_readable
from lakelog.filestore.refs.states.table_state import TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class StateUnit:
    """The splits of two states that may hold rows with equal keys, without those that both have."""

    before: tuple[DataSplit, ...]
    after: tuple[DataSplit, ...]

    @property
    def bucket(self) -> BucketId:
        """The bucket of its rows, or the lowest of several: there its changes are together, in their order."""
        return min(split.bucket_id for split in (*self.before, *self.after))


def unshared(before: TableState, after: TableState, *, is_followed: bool = False) -> Iterator[StateUnit]:
    """The units in which the two states have different files. Reads manifests, and no data file.

    `is_followed` compares what followers begin with, see `lakelog.filestore.read.scan.plan`. Raises UnsupportedError
    for tables that lakelog cannot read.
    """
    parts = [_parts(state, is_followed=is_followed) for state in (before, after)]
    layouts = [_layout(before), _layout(after)]
    units: dict[Hashable, tuple[list[DataSplit], list[DataSplit]]] = {}
    for side, (own, other) in enumerate((tuple(parts), tuple(reversed(parts)))):
        for bucket, found in own.items():
            there = other.get(bucket, {})
            new = [split for key, split in found.items() if key not in there]
            if new:
                units.setdefault(_unit_of(bucket, layouts), ([], []))[side].extend(new)
    for old, new in units.values():
        yield StateUnit(before=tuple(old), after=tuple(new))


_Parts = Mapping[BucketId, Mapping[Hashable, DataSplit]]


def _parts(state: TableState, *, is_followed: bool) -> _Parts:
    """The parts of a state by bucket; the key of a part is the same in two states that both have it."""
    table, snapshot = state.table.stored, state.snapshot
    check_readable(table)
    if snapshot is None:
        return {}
    check_schema(table, snapshot)
    vectors = deletion_files(table, snapshot)
    found: dict[BucketId, dict[Hashable, DataSplit]] = {}
    for bucket, live in table.live_files.of(snapshot).buckets.items():
        if bucket.number == POSTPONE_BUCKET:
            continue
        deletions = vectors.get(bucket, {})
        files = [entry.file for entry in live.values()]
        if is_followed:
            files = files_in_changelogs(table, files)
        found[bucket] = {
            _key(group, deletions): DataSplit(
                snapshot_id=snapshot.id,
                bucket_id=bucket,
                files=group,
                raw_convertible=is_raw,
                deletions={file.file_name: deletions[file.file_name] for file in group if file.file_name in deletions},
            )
            for group, is_raw in _groups(table, files, is_followed=is_followed)
        }
    return found


def _groups(
    table: TableStore, files: Iterable[DataFileMeta], *, is_followed: bool
) -> Iterator[tuple[tuple[DataFileMeta, ...], bool]]:
    """The files of a bucket that are read together, and whether their rows are rows of the table."""
    if is_merged_for(table.schema, is_followed=is_followed):
        yield from ((section.files, section.is_raw) for section in sections_of_files(files, table.key_types))
    elif has_row_groups(table.schema):
        yield from ((group, len(group) == 1) for group in groups_by_row_id(list(files)))
    else:
        yield from (((file,), True) for file in files if file.level > 0 or not table.schema.primary_keys)


def _key(files: Iterable[DataFileMeta], deletions: Mapping[str, DeletionFile]) -> Hashable:
    return frozenset((file.file_name, file.external_path, deletions.get(file.file_name)) for file in files)


_Layout = Mapping[bytes, int]


def _layout(state: TableState) -> _Layout:
    """The fixed number of buckets of each partition; 0 for dynamic buckets, -1 if keys may be in any partition."""
    schema = state.table.schema
    live = state.table.live_files.of(state.snapshot)
    partitions = {bucket.partition for bucket in live.buckets}
    if schema.primary_keys and not set(schema.partition_keys) <= set(schema.primary_keys):
        return dict.fromkeys(partitions, -1)
    return {partition: max(count, 0) for partition, count in live.total_buckets(partitions).items()}


def _unit_of(bucket: BucketId, layouts: list[_Layout]) -> Hashable:
    counts = {layout[bucket.partition] for layout in layouts if bucket.partition in layout}
    if -1 in counts:
        return None
    is_same = len(counts) == 1 and counts != {0}
    return bucket if is_same else bucket.partition
