"""Sums over all files of a snapshot, from the columns of its manifests: no object is created for a file."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from lakelog.filestore.compact.bucket_work import pick_unit, small_file_bytes
from lakelog.filestore.metadata.manifests.data_file import millis_of_wall_clock
from lakelog.filestore.metadata.manifests.levels import highest_level
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
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
