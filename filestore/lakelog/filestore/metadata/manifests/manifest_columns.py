"""The entries of a manifest as columns: those of a few buckets are found without creating objects for the others.

polars decodes Avro into columns several times faster than records are created one by one. It does not support zstd: the
bytes are decompressed here first. Files that it does not decode are decoded record by record. ORC and Parquet files are
columns.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any  # Any: values of columns of any type

import polars as pl
import pyarrow as pa

from lakelog.common.errors import UnsupportedError
from lakelog.common.file_name_columns import check_column
from lakelog.filestore.formats.avro.avro import NOT_AVRO, plain_bytes_max
from lakelog.filestore.formats.avro.avro_blocks import SCHEMA_KEY, AvroBlocks
from lakelog.filestore.formats.records import columnar_records
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.metadata.manifests.data_file import EMPTY_STATS, DataFileMeta, FileSource, SimpleStats
from lakelog.filestore.metadata.manifests.manifest_entries import (
    MANIFEST_VERSION,
    BucketFilter,
    BucketId,
    FileKind,
    ManifestEntry,
)
from lakelog.filestore.metadata.manifests.manifest_schemas import CHECKSUMS_KEY

_ITEMS_MIN = 500_000
_ITEMS_RATIO = 4
_BUCKET_COLUMNS = ["_PARTITION", "_BUCKET"]
_SOURCES: dict[int | None, FileSource | None] = {None: None, **{int(source): source for source in FileSource}}
_KINDS = {int(kind): kind for kind in FileKind}


def decode_columns(data: bytes, *, path: str) -> pl.DataFrame | None:
    """The records of a manifest, with the fields of the file as columns too; None for bytes that polars cannot decode.

    Raises CorruptDataError, naming `path`, for ORC and Parquet files that are not readable.
    """
    table = columnar_records(data, path=path)
    if table is not None:
        return _of_table(table, data, path)
    try:
        frame = pl.read_avro(io.BytesIO(_plain(data))).unnest("_FILE")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnsupportedError, *NOT_AVRO):
        return None
    _check_lists(frame, data, path)
    return frame


def _of_table(table: pa.Table, data: bytes, path: str) -> pl.DataFrame:
    try:
        found = pl.from_arrow(table)
        assert isinstance(found, pl.DataFrame)
        frame = found.unnest("_FILE")
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise damaged(path, f"it holds columns that are not a manifest's: {error}") from error
    _check_lists(frame, data, path)
    return frame


def _plain(data: bytes) -> bytes:
    """The bytes of an Avro object file without compression. Raises what `avro_errors_named` names."""
    file = AvroBlocks(data)
    parts = [file.block_bytes(*block) for block in file.plain(bytes_max=plain_bytes_max(data))]
    return b"".join([file.stream(iter(()), file.meta[SCHEMA_KEY]).read(), *parts])


def _check_lists(frame: pl.DataFrame, data: bytes, path: str) -> None:
    """Raise CorruptDataError for lists that need far more memory as Python objects than the file has bytes."""
    columns, lists = [*frame.get_columns()], list[pl.Series]()
    while columns:
        column = columns.pop()
        if isinstance(column.dtype, pl.Struct):
            columns += column.struct.unnest().get_columns()
        elif isinstance(column.dtype, pl.List):
            lists.append(column.alias(str(len(lists))))
    counts = pl.DataFrame(lists).select(pl.all().list.len().sum())
    items = sum(counts.row(0)) if lists else 0
    if items > _ITEMS_MIN + _ITEMS_RATIO * len(data):
        raise damaged(path, f"it has {items} values in the lists of {frame.height} records")


def of_buckets(frame: pl.DataFrame, keeps: BucketFilter) -> pl.DataFrame:
    """The entries of buckets for which `keeps` is true, by partition and bucket."""
    buckets = frame.select(_BUCKET_COLUMNS).unique()
    kept = [keeps(BucketId(*row)) for row in buckets.iter_rows()]
    if all(kept):
        return frame
    return frame.join(buckets.filter(pl.Series(kept, dtype=pl.Boolean)), on=_BUCKET_COLUMNS, how="semi")


def entries_of(frame: pl.DataFrame) -> Iterator[ManifestEntry]:
    """The entries of columns, in order. Raises KeyError, TypeError or ValueError for other columns."""
    check_columns(frame)
    files = _files(frame)
    heads = zip(*(frame[name].to_list() for name in ("_KIND", *_BUCKET_COLUMNS, "_TOTAL_BUCKETS")), strict=True)
    for (kind, partition, bucket, total_buckets), file in zip(heads, files, strict=True):
        yield ManifestEntry(
            kind=_KINDS[kind], partition=partition, bucket=bucket, total_buckets=total_buckets, file=file
        )


def check_columns(frame: pl.DataFrame) -> None:
    """Raise ValueError for columns whose types are not those of a manifest, or for entries of other format versions."""
    for names, are_right in _TYPES.items():
        for name in names:
            if name in frame.columns and not are_right(frame[name].dtype):
                raise ValueError(f"column {name} holds {frame[name].dtype}")
    if not (frame["_VERSION"] == MANIFEST_VERSION).all():
        raise ValueError(f"versions {frame['_VERSION'].unique().to_list()}, expected {MANIFEST_VERSION}")


def _are_whole(kind: pl.DataType) -> bool:
    return kind.is_integer() or kind == pl.Null


def _are_bytes(kind: pl.DataType) -> bool:
    return kind in (pl.Binary, pl.Null)


def _are_strings(kind: pl.DataType) -> bool:
    return kind in (pl.String, pl.Null, pl.List(pl.String), pl.List(pl.Null))


_TYPES: Mapping[Sequence[str], Callable[[pl.DataType], bool]] = {
    ("_VERSION", "_KIND", "_BUCKET", "_TOTAL_BUCKETS", "_FILE_SIZE", "_ROW_COUNT", "_SCHEMA_ID", "_LEVEL"): _are_whole,
    ("_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_DELETE_ROW_COUNT", "_FILE_SOURCE", "_FIRST_ROW_ID"): _are_whole,
    ("_PARTITION", "_MIN_KEY", "_MAX_KEY", "_EMBEDDED_FILE_INDEX", CHECKSUMS_KEY): _are_bytes,
    ("_FILE_NAME", "_EXTRA_FILES", "_VALUE_STATS_COLS", "_EXTERNAL_PATH", "_WRITE_COLS"): _are_strings,
}


def _files(frame: pl.DataFrame) -> Iterator[DataFileMeta]:
    check_column(frame["_FILE_NAME"])
    check_column(frame["_EXTRA_FILES"].filter(frame["_EXTRA_FILES"].list.len() > 0).explode())
    columns = (
        *(frame[name].to_list() for name in ("_FILE_NAME", "_FILE_SIZE", "_ROW_COUNT", "_MIN_KEY", "_MAX_KEY")),
        _stats(frame["_KEY_STATS"]),
        _stats(frame["_VALUE_STATS"]),
        *(frame[name].to_list() for name in ("_MIN_SEQUENCE_NUMBER", "_MAX_SEQUENCE_NUMBER", "_SCHEMA_ID", "_LEVEL")),
        _names(frame, "_EXTRA_FILES"),
        _millis(frame),
        _values(frame, "_DELETE_ROW_COUNT"),
        _values(frame, "_EMBEDDED_FILE_INDEX"),
        [_SOURCES[source] for source in _values(frame, "_FILE_SOURCE")],
        _names(frame, "_VALUE_STATS_COLS"),
        _values(frame, "_EXTERNAL_PATH"),
        _values(frame, "_FIRST_ROW_ID"),
        _names(frame, "_WRITE_COLS"),
        _values(frame, CHECKSUMS_KEY),
    )
    for (
        name, size, rows, low, high, key_stats, value_stats, first, last, schema_id, level, extra, created, deleted,
        embedded, source, stats_names, external, row_id, write_names, checksums,
    ) in zip(*columns, strict=True):  # fmt: skip
        yield DataFileMeta(
            file_name=name,
            file_size_bytes=size,
            row_count=rows,
            min_key=low,
            max_key=high,
            key_stats=key_stats,
            value_stats=value_stats,
            min_sequence_number=first,
            max_sequence_number=last,
            schema_id=schema_id,
            level=level,
            extra_files=extra,
            creation_time_millis=created,
            delete_row_count=deleted,
            embedded_file_index=embedded,
            file_source=source,
            value_stats_cols=stats_names,
            external_path=external,
            first_row_id=row_id,
            write_cols=write_names,
            checksums=checksums,
        )


def _stats(column: pl.Series) -> Iterator[SimpleStats]:
    parts = column.struct.unnest()
    counts = _names(parts, "_NULL_COUNTS")
    empty = EMPTY_STATS.min_values
    for least, most, nulls in zip(parts["_MIN_VALUES"].to_list(), parts["_MAX_VALUES"].to_list(), counts, strict=True):
        if least == empty and most == empty and nulls == ():
            yield EMPTY_STATS
        else:
            yield SimpleStats(min_values=least, max_values=most, null_counts=nulls)


def _values(frame: pl.DataFrame, name: str) -> Sequence[Any]:
    return frame[name].to_list() if name in frame.columns else [None] * frame.height


def _names(frame: pl.DataFrame, name: str) -> Sequence[Any]:
    return [None if names is None else tuple(names) for names in _values(frame, name)]


def _millis(frame: pl.DataFrame) -> Sequence[Any]:
    if "_CREATION_TIME" not in frame.columns or not isinstance(frame["_CREATION_TIME"].dtype, pl.Datetime):
        return _values(frame, "_CREATION_TIME")
    return frame["_CREATION_TIME"].dt.timestamp("ms").to_list()
