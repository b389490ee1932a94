"""The data files of a snapshot as columns, from the columns of its manifests: no object is created for a file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import polars as pl

from lakelog.common.errors import CorruptDataError
from lakelog.common.file_name_columns import check_column
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore

_STRINGS = pl.List(pl.String)
# Column -> (field of a manifest, type); fields that a manifest lacks are null.
_FIELDS: Mapping[str, tuple[str, pl.DataType]] = {
    "kind": ("_KIND", pl.Int32()),
    "partition": ("_PARTITION", pl.Binary()),
    "bucket": ("_BUCKET", pl.Int32()),
    "total_buckets": ("_TOTAL_BUCKETS", pl.Int32()),
    "file_name": ("_FILE_NAME", pl.String()),
    "size_bytes": ("_FILE_SIZE", pl.Int64()),
    "row_count": ("_ROW_COUNT", pl.Int64()),
    "min_key": ("_MIN_KEY", pl.Binary()),
    "max_key": ("_MAX_KEY", pl.Binary()),
    "min_sequence": ("_MIN_SEQUENCE_NUMBER", pl.Int64()),
    "max_sequence": ("_MAX_SEQUENCE_NUMBER", pl.Int64()),
    "schema_id": ("_SCHEMA_ID", pl.Int64()),
    "level": ("_LEVEL", pl.Int32()),
    "extra_files": ("_EXTRA_FILES", _STRINGS),
    "deleted_rows": ("_DELETE_ROW_COUNT", pl.Int64()),
    "embedded_index": ("_EMBEDDED_FILE_INDEX", pl.Binary()),
    "source": ("_FILE_SOURCE", pl.Int32()),
    "stats_columns": ("_VALUE_STATS_COLS", _STRINGS),
    "external_path": ("_EXTERNAL_PATH", pl.String()),
    "first_row_id": ("_FIRST_ROW_ID", pl.Int64()),
    "write_columns": ("_WRITE_COLS", _STRINGS),
}
_STATS: Mapping[str, tuple[str, pl.DataType]] = {
    "min_values": ("_MIN_VALUES", pl.Binary()),
    "max_values": ("_MAX_VALUES", pl.Binary()),
    "null_counts": ("_NULL_COUNTS", pl.List(pl.Int64)),
}
_SCHEMA = {
    **{name: kind for name, (_, kind) in _FIELDS.items()},
    **{name: kind for name, (_, kind) in _STATS.items()},
    "created_millis": pl.Int64(),
}
_OF_IDENTITY = ("kind", "partition", "bucket", "level", "file_name", "extra_files", "embedded_index", "external_path")
_IDENTITY = ("partition", "bucket", "level", "file_name", "embedded_index", "external_path")


def live_columns(table: TableStore, snapshot: Snapshot | None, columns: Collection[str] | None = None) -> pl.DataFrame:
    """The files of a snapshot, one row per file, in the order in which they were added.

    `partition`, `min_key`, `max_key` and the statistics are serialized rows; `created_millis` is the wall clock of the
    writer's zone, as the format stores it. With `columns` these are there, and those that identify a file. Raises
    CorruptDataError.
    """
    wanted = [name for name in _SCHEMA if columns is None or name in _OF_IDENTITY or name in columns]
    if snapshot is None:
        return pl.DataFrame(schema=_SCHEMA).select(wanted)
    entries = [_entries(table, manifest).select(wanted) for manifest in manifests_of(table, snapshot)]
    return _living(pl.concat([pl.DataFrame(schema=_SCHEMA).select(wanted), *entries]), snapshot.id)


def manifests_of(table: TableStore, snapshot: Snapshot) -> list[ManifestFileMeta]:
    """The manifests of a snapshot: those from before it, then its own."""
    lists = (
        (snapshot.base_manifest_list, snapshot.base_manifest_list_size),
        (snapshot.delta_manifest_list, snapshot.delta_manifest_list_size),
    )
    return [one for name, size in lists for one in table.manifests.read_list(name, size_bytes=size)]


def _living(entries: pl.DataFrame, snapshot_id: int) -> pl.DataFrame:
    """The files that were added and not deleted since. Raises CorruptDataError for a deletion without its file."""
    is_added = entries["kind"] == int(FileKind.ADD)
    added = int(is_added.sum())
    # Few files were deleted, and comparing all by their names takes several times the memory of the entries.
    is_named = entries["file_name"].is_in(entries.filter(~is_added)["file_name"].implode())
    is_kept = is_added & ~is_named
    hashes = entries["file_name"].hash().filter(is_kept)
    if hashes.n_unique() < len(hashes):  # a name in two buckets, or a file that was added twice
        is_named, is_kept = is_named | True, is_kept & False
    last = _last_of_each(entries.with_row_index().filter(is_named))
    is_last = np.zeros(entries.height, np.bool_)
    is_last[last.filter(last["kind"] == int(FileKind.ADD))["index"].to_numpy()] = True
    living = entries.filter(is_kept | pl.Series(is_last))
    if living.height != 2 * added - entries.height:
        raise CorruptDataError(
            f"the manifests of snapshot {snapshot_id} contradict each other: they add {added} files and delete "
            f"{entries.height - added}, which leaves {living.height}"
        )
    return living


def _last_of_each(entries: pl.DataFrame) -> pl.DataFrame:
    """The last entry of each file."""
    named = entries.with_columns(extra=pl.col("extra_files").list.join("/"))
    return named.unique([*_IDENTITY, "extra"], keep="last", maintain_order=True)


def _entries(table: TableStore, manifest: ManifestFileMeta) -> pl.DataFrame:
    frame = table.manifests.read_columns(manifest)
    if frame is None:
        return _of_entries(table.manifests.read(manifest.file_name, size_bytes=manifest.file_size_bytes))
    try:
        check_column(frame["_FILE_NAME"])
        stats = frame["_VALUE_STATS"].struct.unnest()
        return frame.select(*_picked(frame, _FIELDS), **_stats_of(stats), created_millis=_created(frame))
    except (ValueError, pl.exceptions.PolarsError) as error:
        raise damaged(
            table.paths.manifest(manifest.file_name), f"it holds a record that is not readable: {error}"
        ) from error


def _picked(frame: pl.DataFrame, fields: Mapping[str, tuple[str, pl.DataType]]) -> list[pl.Series]:
    return [
        (frame[key] if key in frame.columns else pl.repeat(None, frame.height, eager=True)).cast(kind).alias(name)
        for name, (key, kind) in fields.items()
    ]


def _stats_of(stats: pl.DataFrame) -> dict[str, pl.Series]:
    return {column.name: column for column in _picked(stats, _STATS)}


def _created(frame: pl.DataFrame) -> pl.Series:
    if "_CREATION_TIME" not in frame.columns:
        return pl.repeat(None, frame.height, dtype=pl.Int64, eager=True)
    found = frame["_CREATION_TIME"]
    return found.dt.timestamp("ms") if isinstance(found.dtype, pl.Datetime) else found.cast(pl.Int64)


def _of_entries(entries: Sequence[ManifestEntry]) -> pl.DataFrame:
    """The columns of entries that were decoded one by one."""
    rows = [_row_of(entry) for entry in entries]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _row_of(entry: ManifestEntry) -> dict[str, object]:
    file = entry.file
    return {
        "kind": int(entry.kind),
        "partition": entry.partition,
        "bucket": entry.bucket,
        "total_buckets": entry.total_buckets,
        "file_name": file.file_name,
        "size_bytes": file.file_size_bytes,
        "row_count": file.row_count,
        "min_key": file.min_key,
        "max_key": file.max_key,
        "min_sequence": file.min_sequence_number,
        "max_sequence": file.max_sequence_number,
        "schema_id": file.schema_id,
        "level": file.level,
        "extra_files": list(file.extra_files),
        "deleted_rows": file.delete_row_count,
        "embedded_index": file.embedded_file_index,
        "source": None if file.file_source is None else int(file.file_source),
        "stats_columns": None if file.value_stats_cols is None else list(file.value_stats_cols),
        "external_path": file.external_path,
        "first_row_id": file.first_row_id,
        "write_columns": None if file.write_cols is None else list(file.write_cols),
        "min_values": file.value_stats.min_values,
        "max_values": file.value_stats.max_values,
        "null_counts": None if file.value_stats.null_counts is None else list(file.value_stats.null_counts),
        "created_millis": file.creation_time_millis,
    }
