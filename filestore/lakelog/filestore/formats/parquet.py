"""Parquet data files: Arrow to bytes and back, with page checksums written and verified.

| type | Parquet |
|---|---|
| TINYINT, SMALLINT | INT32 with INT(8), INT(16) |
| DATE, TIME | INT32 DATE, INT32 TIME(MILLIS, utc) |
| DECIMAL to 9, to 18, more digits | INT32, INT64, FIXED_LEN_BYTE_ARRAY |
| TIMESTAMP, TIMESTAMP_LTZ to 3, to 6, more digits | INT64 MILLIS, INT64 MICROS, INT96 |

The others are Parquet's own. NOT NULL is `required`. Source: Paimon spec, "Data files"; `ParquetSchemaConverter`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakelog.common.arrow import to_arrow_field, to_arrow_type
from lakelog.common.errors import CorruptDataError, InvalidRequestError, UnavailableError, UnsupportedError
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.fileio import FileIO
from lakelog.filestore.formats.checked import CheckedInput, ChecksummedFile, errors_named, open_input
from lakelog.filestore.formats.field_ids import element_id, key_id
from lakelog.filestore.formats.parquet_fetching import Fetch, fetches_of
from lakelog.filestore.formats.parquet_footer import ParquetFooter, remember_footer, remembered_footer
from lakelog.filestore.formats.storing import stored_rows

ROW_GROUP_BYTES = 64 << 20
FETCH_BYTES = 32 << 20
ROW_GROUP_ROWS = 16_384  # what a lookup must decode at least; fewer make footers long and writes slow
_INT96_WRAP_SECONDS = (1 << 64) // 1_000_000_000
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_SAMPLE_ROWS = 2_048
_COUNT = DataType(root=TypeRoot.INT, nullable=False)
_ID_KEY = b"PARQUET:field_id"
_COMPRESSIONS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "none": "none",
    "uncompressed": "none",
}


def parquet_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema that is written for columns: their types as the file holds them, with field ids."""
    layout = _Layout(in_micros=_has_nanos(fields))
    return pa.schema([layout.field(column.name, column.type, column.id, column.id, 0) for column in fields])


def write_parquet(
    file_io: FileIO,
    path: str,
    table: pa.Table,
    fields: Sequence[DataField],
    *,
    compression: str = "zstd",
    compression_level: int = 1,
    row_group_bytes: int = ROW_GROUP_BYTES,
) -> int:
    """Write a table of the columns `fields` to a new file, make it durable and give its size in bytes.

    The table's columns have the Arrow types of `fields`, in their order. Raises InvalidRequestError for others and for
    nulls in NOT NULL columns.
    """
    writer = ParquetWriter(
        file_io,
        path,
        fields,
        compression=compression,
        compression_level=compression_level,
        row_group_bytes=row_group_bytes,
    )
    with writer:
        writer.write(table)
        return writer.finish()


class ParquetWriter:
    """One new data file, written piece by piece. A context manager: what is not finished at its end is given up."""

    def __init__(
        self,
        file_io: FileIO,
        path: str,
        fields: Sequence[DataField],
        *,
        compression: str = "zstd",
        compression_level: int = 1,
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        self._path = path
        self._schema = parquet_schema(fields)
        self._row_group_bytes = row_group_bytes
        self._codec = _compression(compression)
        self._level = compression_level if self._codec == "zstd" else None
        self._in_int96 = _has_nanos(fields)
        self._output = ChecksummedFile(file_io, path)
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []

    def __enter__(self) -> ParquetWriter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._output.is_finished:
            return
        if self._writer is not None:
            # Arrow puts a footer behind what is given up. That it cannot is no news: an error brought us here.
            with contextlib.suppress(OSError, RuntimeError, ValueError, UnavailableError):
                self._writer.close()
        self._output.abort()

    @property
    def size_bytes(self) -> int:
        """Bytes written so far, without what is still buffered."""
        return self._output.size_bytes

    @property
    def checksums(self) -> bytes:
        """Checksums of the blocks of a finished file."""
        return self._output.checksums

    def write(self, table: pa.Table) -> None:
        """Append rows as row groups of their own. Raises InvalidRequestError as `write_parquet` does."""
        stored = stored_rows(table, self._schema, self._path)
        rows_per_group = max(1, table.num_rows * self._row_group_bytes // max(1, table.nbytes))
        self._opened(stored).write_table(stored, row_group_size=min(rows_per_group, ROW_GROUP_ROWS))

    def finish(self) -> int:
        """Write the footer, make the file durable and give its size in bytes."""
        self._opened(self._schema.empty_table()).close()
        return self._output.finish()

    @property
    def footer(self) -> pq.FileMetaData:
        """The footer of the finished file."""
        return self._footers[0]

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        """Arrow's writer, made when the first rows are there to see which columns are worth a dictionary."""
        if self._writer is None:
            packed = [column.name for column in self._schema if _is_delta_packed(column.type, in_int96=self._in_int96)]
            others = [column.name for column in self._schema if column.name not in packed]
            self._writer = pq.ParquetWriter(
                self._output.sink,
                self._schema,
                compression=self._codec,
                compression_level=self._level,
                use_dictionary=_repetitive(first.select(others)),
                column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
                use_deprecated_int96_timestamps=self._in_int96,
                store_decimal_as_integer=True,
                write_page_checksum=True,
                write_time_adjusted_to_utc=True,
                store_schema=False,
                metadata_collector=self._footers,
            )
        return self._writer


@dataclass(frozen=True, slots=True)
class _Part:
    """Columns that are read together, from one handle of the file."""

    file: pq.ParquetFile
    names: Sequence[str]


class ParquetFile:
    """One open data file, read by columns. A context manager.

    Every read verifies the checksums of blocks that the manifest tells, or without them the file's page checksums. A
    footer that such checksums vouch for is kept for the next time: for the same name and the same checksums.
    """

    def __init__(
        self, file_io: FileIO, path: str, *, size_bytes: int | None = None, checksums: bytes | None = None
    ) -> None:
        self._path = path
        opened = open_input(file_io, path, size_bytes=size_bytes, checksums=checksums)
        self._checked = opened if isinstance(opened, CheckedInput) else None
        self._source = opened if self._checked is None else pa.PythonFile(opened, mode="r")
        self._checks_pages = checksums is None
        try:
            with errors_named(path, "Parquet"):
                known = remembered_footer(path, checksums)
                self._file = pq.ParquetFile(
                    self._source,
                    metadata=None if known is None else known.metadata,
                    page_checksum_verification=self._checks_pages,
                    pre_buffer=False,  # see `parquet_fetching`
                )
                self.footer = ParquetFooter(self._file.metadata) if known is None else known
        except BaseException:
            self._source.close()
            raise
        if checksums is not None and known is None:
            remember_footer(path, checksums, self.footer)

    def __enter__(self) -> ParquetFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def arrow_type(self, name: str) -> pa.DataType | None:
        """The type that a column has in the file; None without such a column."""
        index = self.footer.schema.get_field_index(name)
        return None if index < 0 else self.footer.schema.field(index).type

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._source.close()

    @property
    def names(self) -> list[str]:
        """Names of the columns that the file holds."""
        return self.footer.names

    @property
    def row_count(self) -> int:
        """Rows in the file."""
        return int(self.footer.metadata.num_rows)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row before compression."""
        return self.footer.row_bytes

    @property
    def row_groups(self) -> list[tuple[int, int]]:
        """Rows and bytes before compression of each row group."""
        return self.footer.row_groups

    def bounds_of(self, field: DataField) -> list[pa.Array | None]:
        """For each row group the smallest and the largest value of a column; None where the file does not tell.

        Floats are never told: files disagree on NaN and -0.0.
        """
        kind = to_arrow_type(field.type)
        at = self.footer.leaves.get(field.name)
        if field.name not in self.names or at is None or pa.types.is_floating(kind):
            return [None] * len(self.row_groups)
        found: list[pa.Array | None] = []
        for group in range(len(self.row_groups)):
            chunk = self.footer.metadata.row_group(group).column(at)
            statistics = chunk.statistics if chunk.is_stats_set else None
            if statistics is None or not statistics.has_min_max or statistics.null_count:
                found.append(None)
            else:
                found.append(pa.array([statistics.min, statistics.max], kind))
        return found

    def read(self, fields: Sequence[DataField], *, row_groups: Sequence[int] | None = None) -> pa.Table:
        """The columns `fields`, found by name, as their Arrow types; none gives no rows. Raises CorruptDataError."""
        groups = list(range(len(self.row_groups)) if row_groups is None else row_groups)
        if len(groups) == 1:
            for fetch in fetches_of(self.footer.metadata, [field.name for field in fields], groups, FETCH_BYTES):
                self._hold(fetch)
        with errors_named(self._path, "Parquet"):
            parts = [part.file.read_row_groups(groups, columns=part.names) for part in self._parts(fields)]
        return self._joined(parts, fields)

    def iter_batches(
        self,
        fields: Sequence[DataField],
        *,
        batch_rows: int = 65_536,
        row_groups: Sequence[int] | None = None,
        fetch_bytes: int = FETCH_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """The columns `fields` in batches of at most `batch_rows`. Raises CorruptDataError.

        About `fetch_bytes` of the file are held beside a batch: row groups are fetched together up to that many, and a
        larger one a part at a time.
        """
        groups = list(range(len(self.row_groups)) if row_groups is None else row_groups)
        for fetch in fetches_of(self.footer.metadata, [field.name for field in fields], groups, fetch_bytes):
            self._hold(fetch)
            batches = [
                part.file.iter_batches(batch_size=batch_rows, row_groups=fetch.groups, columns=part.names)
                for part in self._parts(fields, buffer_bytes=fetch.buffer_bytes)
            ]
            while True:
                with errors_named(self._path, "Parquet"):
                    tables = [
                        pa.Table.from_batches([found]) for batch in batches if (found := next(batch, None)) is not None
                    ]
                if not tables:
                    break
                yield from self._joined(tables, fields).to_batches()
            batches = []  # they refer to what is held of the file

    def _hold(self, fetch: Fetch) -> None:
        if self._checked is not None and fetch.span is not None:
            with errors_named(self._path, "Parquet"):
                self._checked.hold(*fetch.span)

    def _parts(self, fields: Sequence[DataField], *, buffer_bytes: int = 0) -> list[_Part]:
        """Which columns are read in which unit.

        INT96 holds timestamps of every precision. Arrow reads it in nanoseconds, which go from 1677 to 2262: columns of
        fewer digits are read in microseconds, and the others once more in seconds, to see what did not fit.
        """
        for column in fields:
            if column.name not in self.names:
                raise CorruptDataError(
                    f"Parquet file {self._path} lacks the column {column.name!r}; it has {', '.join(self.names)}"
                )
        int96 = [column for column in fields if column.name in self.footer.int96_columns]
        micros = [column.name for column in int96 if not _type_has_nanos(column.type)]
        nanos = [column.name for column in int96 if column.type.root in _TIMESTAMPS and column.name not in micros]
        rest = [column.name for column in fields if column.name not in micros]
        wanted: tuple[tuple[str | None, list[str]], ...] = ((None, rest), ("us", micros), ("s", nanos))
        return [_Part(self._handle(unit, buffer_bytes), names) for unit, names in wanted if names]

    def _handle(self, unit: str | None, buffer_bytes: int) -> pq.ParquetFile:
        """A handle that reads INT96 in a unit, with buffers; the first one where it does."""
        if unit is None and not buffer_bytes:
            return self._file
        with errors_named(self._path, "Parquet"):
            return pq.ParquetFile(
                self._source,
                metadata=self.footer.metadata,
                page_checksum_verification=self._checks_pages,
                coerce_int96_timestamp_unit=unit,
                buffer_size=buffer_bytes,
                pre_buffer=False,
            )

    def _joined(self, parts: Sequence[pa.Table], fields: Sequence[DataField]) -> pa.Table:
        """The columns of tables with the same rows, as the Arrow types of `fields`."""
        read: dict[str, pa.ChunkedArray] = {}
        for name, values in ((name, part.column(name)) for part in parts for name in part.column_names):
            if name in read:
                self._check_nanos(name, read[name], values)
            read.setdefault(name, values)
        arrays = []
        for column in fields:
            values, wanted = read[column.name], to_arrow_type(column.type)
            try:
                arrays.append(values if values.type == wanted else values.cast(wanted))
            except pa.ArrowException as error:
                raise CorruptDataError(
                    f"column {column.name!r} of Parquet file {self._path} has the type {values.type}, "
                    f"expected {wanted} for {column.type}: {error}"
                ) from error
        return pa.table(arrays, schema=pa.schema([to_arrow_field(column) for column in fields]))

    def _check_nanos(self, name: str, nanos: pa.ChunkedArray, seconds: pa.ChunkedArray) -> None:
        """Raise UnsupportedError where INT96 values did not fit into nanoseconds.

        Paimon writes moments before 1970 with negative nanoseconds of the day, which come out 2**64 ns late in seconds.
        """
        floored = np.floor_divide(nanos.cast(pa.int64()).drop_null().to_numpy(), 1_000_000_000)
        late = seconds.cast(pa.int64()).drop_null().to_numpy() - floored
        if not np.isin(late, (0, _INT96_WRAP_SECONDS, _INT96_WRAP_SECONDS + 1)).all():
            raise UnsupportedError(
                f"column {name!r} of Parquet file {self._path} holds timestamps before 1677 or after 2262, which Arrow "
                "cannot hold in nanoseconds; leave the column out, or make it TIMESTAMP(6)"
            )


def stored_type(kind: DataType) -> pa.DataType:
    """The type of a column in a file without INT96."""
    return _Layout(in_micros=False).type(kind, 0, 0)


def read_parquet(file_io: FileIO, path: str, fields: Sequence[DataField]) -> pa.Table:
    """The columns `fields` of a data file, by name, as their Arrow types. Raises NotFoundError, CorruptDataError."""
    with ParquetFile(file_io, path) as file:
        return file.read(fields)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Arrow types as Arrow writes them to Parquet.

    `in_micros`: the file's timestamps are INT96, Arrow can only choose for all of them. Those of fewer digits pass
    through microseconds then, which keep to INT96's range of days.
    """

    in_micros: bool

    def field(self, name: str, kind: DataType, own_id: int, column_id: int, depth: int) -> pa.Field:
        """A field; array elements and map entries have ids made of their column's and their depth."""
        arrow_type = self.type(kind, column_id, depth)
        return pa.field(name, arrow_type, kind.nullable, metadata={_ID_KEY: str(own_id).encode()})

    def type(self, kind: DataType, column_id: int, depth: int) -> pa.DataType:
        """The type; `column_id` is that of the innermost column or ROW member around it."""
        inner, keys = element_id(column_id, depth), key_id(column_id, depth)
        match kind.root:
            case TypeRoot.ARRAY:
                assert kind.element is not None
                return pa.list_(self.field("element", kind.element, inner, column_id, depth + 1))
            case TypeRoot.MAP:
                assert kind.key is not None
                assert kind.value is not None
                return pa.map_(
                    self.field("key", kind.key.with_nullable(False), keys, column_id, depth + 1),
                    self.field("value", kind.value, inner, column_id, depth + 1),
                )
            case TypeRoot.MULTISET:
                assert kind.element is not None
                return pa.map_(
                    self.field("key", kind.element.with_nullable(False), keys, column_id, depth + 1),
                    self.field("value", _COUNT, inner, column_id, depth + 1),
                )
            case TypeRoot.ROW:
                return pa.struct([self.field(part.name, part.type, part.id, part.id, 0) for part in kind.fields])
            case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
                wanted = to_arrow_type(kind)
                unit = "us" if self.in_micros and wanted.unit != "ns" else "ms" if wanted.unit == "s" else wanted.unit
                return pa.timestamp(unit, tz=wanted.tz)
            case TypeRoot.TIME:
                return pa.time32("ms")
            case _:
                return to_arrow_type(kind)


def _is_delta_packed(kind: pa.DataType, *, in_int96: bool) -> bool:
    """Whether a column is stored as differences of neighbours: integers get smaller by that, and both ways faster."""
    if pa.types.is_timestamp(kind):
        return not in_int96
    return any(is_integer(kind) for is_integer in (pa.types.is_int32, pa.types.is_int64, pa.types.is_date32))


def _repetitive(table: pa.Table) -> list[str]:
    """The columns worth a dictionary: those with few different values in a sample. Others it slows by half."""
    count = min(table.num_rows, _SAMPLE_ROWS)
    sample = table.take(np.linspace(0, max(table.num_rows - 1, 0), count, dtype=np.int64))
    return [
        name
        for name, values in zip(sample.column_names, sample.columns, strict=True)
        if not pa.types.is_nested(values.type) and pc.count_distinct(values).as_py() <= count // 2
    ]


def _has_nanos(fields: Sequence[DataField]) -> bool:
    return any(_type_has_nanos(column.type) for column in fields)


def _type_has_nanos(kind: DataType) -> bool:
    if kind.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return (kind.precision or 0) > 6
    inner = [part for part in (kind.element, kind.key, kind.value) if part is not None]
    return any(_type_has_nanos(part) for part in inner) or _has_nanos(kind.fields)


def _compression(name: str) -> str:
    try:
        return _COMPRESSIONS[name.lower()]
    except KeyError as error:
        known = ", ".join(sorted(_COMPRESSIONS))
        raise InvalidRequestError(f"file.compression {name!r} is not known for Parquet; known are {known}") from error
