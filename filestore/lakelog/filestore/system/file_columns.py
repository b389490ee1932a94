"""The columns of the system table `files`, each computed when it is requested."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # Any: values of columns of any type

import polars as pl

from lakelog.filestore.encoding.key_order import comparable_key
from lakelog.filestore.metadata.manifests.data_file import FileSource, millis_of_wall_clock
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.system.live_columns import live_columns
from lakelog.filestore.system.texts import FileTexts, row_text

_COMPRESSED = ("gz", "bz2", "deflate", "snappy", "lz4", "zst")  # endings after that of the format
_SOURCES = {int(source): source.name for source in FileSource}
# Columns that are unchanged from the manifests.
_STORED = {
    "bucket": "bucket",
    "schema_id": "schema_id",
    "level": "level",
    "record_count": "row_count",
    "file_size_in_bytes": "size_bytes",
    "min_sequence_number": "min_sequence",
    "max_sequence_number": "max_sequence",
    "deleteRowCount": "deleted_rows",
    "first_row_id": "first_row_id",
    "write_cols": "write_columns",
}


class FileColumns:
    """The files of a snapshot, by partition, bucket, level and age, and what the system table shows of them."""

    def __init__(self, table: TableStore, snapshot: Snapshot | None) -> None:
        """Reads the manifests of the snapshot. Raises CorruptDataError."""
        self._table = table.stored
        self._live = _ordered(self._table, live_columns(self._table, snapshot))
        self._texts = FileTexts(self._table)
        self._made: dict[str, Callable[[], pl.Series]] = {
            "partition": self._partitions,
            "file_path": self._paths,
            "file_format": self._formats,
            "min_key": lambda: self._keys("min_key"),
            "max_key": lambda: self._keys("max_key"),
            "null_value_counts": self._null_counts,
            "min_value_stats": lambda: self._bounds("min_values"),
            "max_value_stats": lambda: self._bounds("max_values"),
            "creation_time": lambda: created(self._live),
            "file_source": self._sources,
        }

    def column(self, name: str) -> pl.Series:
        """A column of the system table."""
        return self._live[_STORED[name]] if name in _STORED else self._made[name]()

    def _partitions(self) -> pl.Series:
        fields = self._table.schema.partition_fields
        return mapped(self._live["partition"], lambda row: row_text(fields, row))

    def _paths(self) -> pl.Series:
        live = self._live
        places = live.select("partition", "bucket").unique()
        folders = [self._table.bucket_dir(BucketId(*row)) for row in places.iter_rows()]
        found = places.with_columns(folder=pl.Series(folders, dtype=pl.String))
        inside = live.join(found, on=["partition", "bucket"], how="left", maintain_order="left")
        return inside.select(pl.coalesce("external_path", pl.col("folder") + "/" + pl.col("file_name"))).to_series()

    def _formats(self) -> pl.Series:
        parts = pl.col("file_name").str.split(".")
        last, before = parts.list.get(-1, null_on_oob=True), parts.list.get(-2, null_on_oob=True)
        return self._live.select(pl.when(last.is_in(_COMPRESSED)).then(before).otherwise(last)).to_series()

    def _keys(self, name: str) -> pl.Series:
        rows = self._live.select("schema_id", name).iter_rows()
        return pl.Series([self._texts.key(*row) for row in rows], dtype=pl.String)

    def _null_counts(self) -> pl.Series:
        rows = self._live.select("schema_id", "stats_columns", "null_counts", "row_count").iter_rows()
        return pl.Series([self._texts.null_counts(*row) for row in rows], dtype=pl.String)

    def _bounds(self, name: str) -> pl.Series:
        rows = self._live.select("schema_id", "stats_columns", name).iter_rows()
        return pl.Series([self._texts.bounds(*row) for row in rows], dtype=pl.String)

    def _sources(self) -> pl.Series:
        return self._live["source"].replace_strict(_SOURCES, default=None, return_dtype=pl.String)


def _ordered(table: TableStore, live: pl.DataFrame) -> pl.DataFrame:
    kinds = [field.type for field in table.schema.partition_fields]
    found = sorted(live["partition"].unique(), key=lambda row: comparable_key(kinds, row))
    ranks = pl.DataFrame({"partition": found, "rank": range(len(found))}, schema_overrides={"partition": pl.Binary})
    order = ["rank", "bucket", "level", "min_sequence", "file_name"]
    return live.join(ranks, on="partition", how="left").sort(order)


def mapped(values: pl.Series, of: Callable[[Any], str | None]) -> pl.Series:
    """A string for each value, computed once for equal values."""
    known = {value: of(value) for value in values.unique()}
    return pl.Series([known[value] for value in values], dtype=pl.String)


def created(live: pl.DataFrame) -> pl.Series:
    """When files were created, in UTC."""
    known = {value: None if value is None else millis_of_wall_clock(value) for value in live["created_millis"].unique()}
    millis = pl.Series([known[value] for value in live["created_millis"]], dtype=pl.Int64)
    return millis.cast(pl.Datetime("ms"))
