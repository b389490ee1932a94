"""The system tables of files: `files`, `file_key_ranges`, `manifests`, `partitions`, `buckets`, `table_indexes`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any  # Any: Avro records

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.filestore.index.index_manifest import read_index
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.system.file_columns import FileColumns, created, mapped
from lakelog.filestore.system.live_columns import live_columns, manifests_of
from lakelog.filestore.system.system_columns import SYSTEM_COLUMNS
from lakelog.filestore.system.texts import partition_name, row_text


def files(table: TableStore, snapshot: Snapshot | None, names: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of `files`, and of `file_key_ranges`, in the columns `names`: by partition, bucket, level and age."""
    found = FileColumns(table, snapshot)
    yield _arrow("files", {name: found.column(name) for name in names})


def manifests(table: TableStore, snapshot: Snapshot | None) -> list[tuple[object, ...]]:
    """The rows of `manifests`: manifests from before the snapshot, then its own."""
    fields = table.schema.partition_fields
    return [
        (
            one.file_name,
            one.file_size_bytes,
            one.num_added_files,
            one.num_deleted_files,
            one.schema_id,
            row_text(fields, one.partition_stats.min_values),
            row_text(fields, one.partition_stats.max_values),
            one.min_row_id,
            one.max_row_id,
        )
        for one in ([] if snapshot is None else manifests_of(table, snapshot))
    ]


def partitions(table: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """The rows of `partitions`, in the order of their names. Only catalogs know `done` and who created a partition."""
    found = _summed(table, snapshot, ["partition"])
    unknown = {name: pl.lit(None) for name in ("created_at", "created_by", "updated_by", "options")}
    rows = found.with_columns(done=pl.lit(False), **unknown).sort("partition")
    return _arrow("partitions", {field.name: rows[field.name] for field in SYSTEM_COLUMNS["partitions"]})


def buckets(table: TableStore, snapshot: Snapshot | None) -> pa.Table:
    """The rows of `buckets`, by partition and bucket."""
    rows = _summed(table, snapshot, ["partition", "bucket"]).sort("partition", "bucket")
    return _arrow("buckets", {field.name: rows[field.name] for field in SYSTEM_COLUMNS["buckets"]})


def _summed(table: TableStore, snapshot: Snapshot | None, keys: Sequence[str]) -> pl.DataFrame:
    live = live_columns(table, snapshot)
    summed = (
        live.with_columns(created=created(live))
        .group_by(keys)
        .agg(
            record_count=pl.col("row_count").sum(),
            file_size_in_bytes=pl.col("size_bytes").sum(),
            file_count=pl.len().cast(pl.Int64),
            last_update_time=pl.col("created").max(),
            total_buckets=pl.col("total_buckets").max(),
            deleted_record_count=pl.col("deleted_rows").sum(),
        )
    )
    return summed.with_columns(partition=mapped(summed["partition"], lambda row: partition_name(table.schema, row)))


def table_indexes(table: TableStore, snapshot: Snapshot | None) -> list[tuple[object, ...]]:
    """The rows of `table_indexes`: the index files of a snapshot."""
    if snapshot is None or snapshot.index_manifest is None:
        return []
    fields = table.schema.partition_fields
    names = {field.id: field.name for field in table.schema.fields}
    return [
        _index_row(record, row_text(fields, record["_PARTITION"]), names)
        for record in read_index(table, snapshot.index_manifest)
    ]


def _index_row(record: dict[str, Any], partition: str, names: dict[int, str]) -> tuple[object, ...]:
    whole = record.get("_GLOBAL_INDEX") or {}
    column = whole.get("_INDEX_FIELD_ID")
    ranges = record["_DELETIONS_VECTORS_RANGES"]
    return (
        partition,
        record["_BUCKET"],
        record["_INDEX_TYPE"],
        record["_FILE_NAME"],
        record["_FILE_SIZE"],
        record["_ROW_COUNT"],
        None if ranges is None else [{"_CARDINALITY": None, **one} for one in ranges],
        whole.get("_ROW_RANGE_START"),
        whole.get("_ROW_RANGE_END"),
        column,
        names.get(column) if column is not None else None,
    )


def _arrow(name: str, columns: dict[str, pl.Series]) -> pa.Table:
    """Columns of a system table with its types."""
    schema = to_arrow_schema([field for field in SYSTEM_COLUMNS[name] if field.name in columns])
    found = pa.table({one: columns[one].to_arrow() for one in schema.names})
    return found.cast(schema)
