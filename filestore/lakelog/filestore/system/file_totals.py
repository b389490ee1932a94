"""Sums over the files of a snapshot: of all together, and of each partition.

Those of all come from the columns of its manifests: no object is created for a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from lakelog.filestore.compact.bucket_work import pick_unit, small_file_bytes
from lakelog.filestore.encoding.key_order import comparable_key
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, millis_of_wall_clock
from lakelog.filestore.metadata.manifests.levels import highest_level
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId, ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.table_files import partition_values
from lakelog.filestore.system.live_columns import live_columns

_BUCKET = ["partition", "bucket"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableTotals:
    """The files of a snapshot together.

    `rows_in_files` counts the rows in files, some of which may be older values. `last_modified_millis` is when the
    newest file was written, in milliseconds since 1970; None if no file records that. `is_compacted` says that a full
    compaction would find nothing to merge.
    """

    file_count: int
    size_bytes: int
    rows_in_files: int
    last_modified_millis: int | None
    is_compacted: bool


def table_totals(table: TableStore, snapshot: Snapshot | None) -> TableTotals:
    """The totals of a snapshot, None before the first. Raises CorruptDataError."""
    columns = ("size_bytes", "row_count", "created_millis", "deleted_rows")
    live = live_columns(table.stored, snapshot, columns)
    newest = live["created_millis"].max()
    assert isinstance(newest, int | None)
    return TableTotals(
        file_count=live.height,
        size_bytes=int(live["size_bytes"].sum()),
        rows_in_files=int(live["row_count"].sum()),
        last_modified_millis=None if newest is None else millis_of_wall_clock(newest),
        is_compacted=_is_compacted(table, snapshot, live),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTotals:
    """The files of a partition together, as `TableTotals`. `values` is column -> value, `paths` are their folders."""

    values: Mapping[str, object]
    paths: tuple[str, ...]
    last_modified_millis: int | None
    file_count: int
    size_bytes: int
    rows_in_files: int
    is_compacted: bool


def partition_totals(table: TableStore, snapshot: Snapshot | None) -> list[PartitionTotals]:
    """The totals of each partition of a snapshot, by its values. Raises CorruptDataError."""
    kinds = [field.type for field in table.schema.partition_fields]
    parts: dict[bytes, list[ManifestEntry]] = {}
    for entry in table.live_files.of(snapshot).entries():
        parts.setdefault(entry.partition, []).append(entry)
    order = sorted(parts, key=lambda partition: comparable_key(kinds, partition))
    return [_of_partition(table, partition, parts[partition]) for partition in order]


def _of_partition(table: TableStore, partition: bytes, entries: Sequence[ManifestEntry]) -> PartitionTotals:
    files = [entry.file for entry in entries]
    times = [file.creation_time_millis for file in files if file.creation_time_millis is not None]
    buckets: dict[BucketId, list[DataFileMeta]] = {}
    for entry in entries:
        buckets.setdefault(entry.bucket_id, []).append(entry.file)
    return PartitionTotals(
        values=partition_values(table.schema, partition),
        paths=tuple(sorted({table.bucket_dir(bucket).rpartition("/")[0] for bucket in buckets})),
        file_count=len(files),
        size_bytes=sum(file.file_size_bytes for file in files),
        rows_in_files=sum(file.row_count for file in files),
        last_modified_millis=millis_of_wall_clock(max(times)) if times else None,
        is_compacted=all(pick_unit(table, bucket, is_full=True) is None for bucket in buckets.values()),
    )


def _is_compacted(table: TableStore, snapshot: Snapshot | None, live: pl.DataFrame) -> bool:
    """Whether no bucket has anything to merge: only those that may have it are looked at file by file."""
    files = table.live_files.near(snapshot)
    for bucket in _open_buckets(table.stored, live).iter_rows():
        if pick_unit(table, files.files(BucketId(*bucket)), is_full=True) is not None:
            return False
    return True


def _open_buckets(table: TableStore, live: pl.DataFrame) -> pl.DataFrame:
    """The buckets that are not surely compacted, in the order of their files."""
    if not table.schema.primary_keys:
        small = live.filter(pl.col("size_bytes") < small_file_bytes(table))
        return small.group_by(_BUCKET, maintain_order=True).len().filter(pl.col("len") > 1).select(_BUCKET)
    highest = highest_level(table.schema.options, ())
    has_deletes = (pl.col("deleted_rows") != 0).fill_null(value=True)  # not every writer counts them
    return live.filter((pl.col("level") != highest) | has_deletes).select(_BUCKET).unique(maintain_order=True)
