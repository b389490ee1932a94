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

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.common.arrow import to_arrow_field, to_arrow_type
from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.fileio import FileIO

ROW_GROUP_BYTES = 64 << 20
_ELEMENT_ID_START = 536_870_911
_DEPTHS_PER_FIELD = 1_024
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
    return pa.schema([_file_field(column.name, column.type, column.id, column.id, 0) for column in fields])


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
    schema = parquet_schema(fields)
    try:
        stored = table.cast(schema)
        for column, values in zip(schema, stored.columns, strict=True):
            if not column.nullable and values.null_count:
                raise InvalidRequestError(f"column {column.name!r} is NOT NULL and has {values.null_count} nulls")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise InvalidRequestError(f"the rows do not fit the columns of {path}: {error}") from error
    rows_per_group = max(1, table.num_rows * row_group_bytes // max(1, table.nbytes))
    with file_io.open_output(path) as output:
        pq.write_table(
            stored,
            output,
            row_group_size=min(rows_per_group, 1 << 20),
            compression=_compression(compression),
            compression_level=compression_level if compression == "zstd" else None,
            use_deprecated_int96_timestamps=_has_nanos(fields),
            store_decimal_as_integer=True,
            write_page_checksum=True,
            write_time_adjusted_to_utc=True,
            store_schema=False,
        )
        size = int(output.tell())
    file_io.sync(path)
    return size


class ParquetFile:
    """One open data file, read by columns. A context manager. Page checksums are verified on every read."""

    def __init__(self, file_io: FileIO, path: str) -> None:
        self._path = path
        self._source = file_io.open_input(path)
        with _corruption_named(path):
            self._file = pq.ParquetFile(self._source, page_checksum_verification=True)

    def __enter__(self) -> ParquetFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._source.close()

    @property
    def names(self) -> list[str]:
        """Names of the columns that the file holds."""
        return list(self._file.schema_arrow.names)

    @property
    def row_count(self) -> int:
        """Rows in the file."""
        return int(self._file.metadata.num_rows)

    @property
    def row_groups(self) -> list[tuple[int, int]]:
        """Rows and bytes before compression of each row group."""
        groups = (self._file.metadata.row_group(index) for index in range(self._file.metadata.num_row_groups))
        return [(group.num_rows, group.total_byte_size) for group in groups]

    def read(self, fields: Sequence[DataField], *, row_groups: Sequence[int] | None = None) -> pa.Table:
        """The columns `fields`, found by name, as their Arrow types. Raises CorruptDataError."""
        names = [column.name for column in fields]
        with _corruption_named(self._path):
            if row_groups is None:
                table = self._file.read(columns=names)
            else:
                table = self._file.read_row_groups(list(row_groups), columns=names)
            return _as_fields(table, fields)

    def iter_batches(self, fields: Sequence[DataField], *, batch_rows: int = 65_536) -> Iterator[pa.RecordBatch]:
        """The columns `fields` in batches of at most `batch_rows`. Raises CorruptDataError."""
        with _corruption_named(self._path):
            for batch in self._file.iter_batches(batch_size=batch_rows, columns=[column.name for column in fields]):
                yield from _as_fields(pa.Table.from_batches([batch]), fields).to_batches()


def read_parquet(file_io: FileIO, path: str, fields: Sequence[DataField]) -> pa.Table:
    """The columns `fields` of a data file, by name, as their Arrow types. Raises NotFoundError, CorruptDataError."""
    with ParquetFile(file_io, path) as file:
        return file.read(fields)


def _as_fields(table: pa.Table, fields: Sequence[DataField]) -> pa.Table:
    arrays = []
    for column in fields:
        if column.name not in table.column_names:
            raise pa.ArrowInvalid(f"column {column.name!r} is missing; the file has {', '.join(table.column_names)}")
        values, wanted = table.column(column.name), to_arrow_type(column.type)
        arrays.append(values if values.type == wanted else values.cast(wanted))
    return pa.table(arrays, schema=pa.schema([to_arrow_field(column) for column in fields]))


def _file_field(name: str, kind: DataType, own_id: int, field_id: int, depth: int) -> pa.Field:
    """A Parquet field; array elements and map entries get their ids from the enclosing field's and their depth."""
    arrow_type = _file_type(kind, field_id, depth)
    return pa.field(name, arrow_type, kind.nullable, metadata={_ID_KEY: str(own_id).encode()})


def _file_type(kind: DataType, field_id: int, depth: int) -> pa.DataType:
    inner = _ELEMENT_ID_START + field_id * _DEPTHS_PER_FIELD + depth + 1
    key_id = _ELEMENT_ID_START - field_id * _DEPTHS_PER_FIELD - depth - 1
    match kind.root:
        case TypeRoot.ARRAY:
            assert kind.element is not None
            return pa.list_(_file_field("element", kind.element, inner, field_id, depth + 1))
        case TypeRoot.MAP:
            assert kind.key is not None
            assert kind.value is not None
            return pa.map_(
                _file_field("key", kind.key.with_nullable(False), key_id, field_id, depth + 1),
                _file_field("value", kind.value, inner, field_id, depth + 1),
            )
        case TypeRoot.MULTISET:
            assert kind.element is not None
            return pa.map_(
                _file_field("key", kind.element.with_nullable(False), key_id, field_id, depth + 1),
                _file_field("value", DataType(root=TypeRoot.INT, nullable=False), inner, field_id, depth + 1),
            )
        case TypeRoot.ROW:
            return pa.struct([_file_field(member.name, member.type, member.id, member.id, 0) for member in kind.fields])
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ if (kind.precision or 0) == 0:
            return pa.timestamp("ms", tz="UTC" if kind.root is TypeRoot.TIMESTAMP_LTZ else None)
        case TypeRoot.TIME:
            return pa.time32("ms")
        case _:
            return to_arrow_type(kind)


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


@contextmanager
def _corruption_named(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptDataError(f"Parquet file {path} is not readable: {error}") from error
