"""Writing Parquet data files, with checksums of their pages. For the types see `parquet_layout`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataField
from lakelog.filestore.formats.blocks.checked import ChecksummedFile
from lakelog.filestore.formats.blocks.storing import stored_rows, timestamps_in
from lakelog.filestore.formats.parquet.parquet_layout import has_nanos, parquet_schema
from lakelog.filestore.io.fileio import FileIO

ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 65_536
LOOKED_UP_GROUP_ROWS = 16_384  # the least that a lookup must decode; fewer make footers long and writes slow
_SAMPLE_ROWS = 2_048
_SAMPLE_SLICES = 4
_JUDGED_ROWS = 16_384  # fewer rows are compressed as they are: a sample of them would take longer
_WORTHWHILE_SHARE = 0.9
# The second day that INT96 counts, 23 November of the year -4713, in microseconds: Arrow reads earlier days as numbers
# without a sign, and shifts the first day.
_FIRST_INT96_MICROS = (1 - 2_440_588) * 86_400 * 1_000_000
_INTEGER_DIGITS = 18  # decimals of more digits are not integers in Parquet
_COMPRESSIONS = {
    "zstd": "zstd",
    "snappy": "snappy",
    "gzip": "gzip",
    "lz4": "lz4",
    "none": "none",
    "uncompressed": "none",
}


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
    """Write a table of the columns `fields` to a new file, make it durable and return its size in bytes.

    The table's columns have the Arrow types of `fields`, in their order. Raises InvalidRequestError for other columns,
    for nulls in NOT NULL columns, and for timestamps before -4712 in a column of more than 6 digits of a second.
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
    """One new data file, written piece by piece. A context manager: an unfinished file is deleted at its end."""

    def __init__(
        self,
        file_io: FileIO,
        path: str,
        fields: Sequence[DataField],
        *,
        compression: str = "zstd",
        compression_level: int = 1,
        row_group_bytes: int = ROW_GROUP_BYTES,
        row_group_rows: int = ROW_GROUP_ROWS,
        without_bounds: Collection[str] = (),
    ) -> None:
        """Create the file. The columns `without_bounds` get no statistics, and then nested columns none either."""
        self._path = path
        self._schema = parquet_schema(fields)
        self._row_group_bytes = row_group_bytes
        self._row_group_rows = row_group_rows
        self._codec = _compression(compression)
        self._level = compression_level if self._codec == "zstd" else None
        self._in_int96 = has_nanos(fields)
        self._without_bounds = frozenset(without_bounds)
        self._output = ChecksummedFile(file_io, path)
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []

    def __enter__(self) -> ParquetWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._output.give_up(None if self._writer is None else self._writer.close)

    @property
    def size_bytes(self) -> int:
        """Bytes written so far, without the buffered ones."""
        return self._output.size_bytes

    @property
    def checksums(self) -> bytes:
        """Checksums of the blocks of a finished file."""
        return self._output.checksums

    def write(self, table: pa.Table) -> None:
        """Append rows as row groups of their own. Raises InvalidRequestError as `write_parquet` does."""
        stored = stored_rows(table, self._schema, self._path)
        if self._in_int96:
            _check_days(stored)
        rows_per_group = max(1, table.num_rows * self._row_group_bytes // max(1, table.nbytes))
        self._opened(stored).write_table(stored, row_group_size=min(rows_per_group, self._row_group_rows))

    def finish(self) -> int:
        """Write the footer, make the file durable and return its size in bytes."""
        writer = self._opened(self._schema.empty_table()) if self._writer is None else self._writer
        writer.close()
        return self._output.finish()

    @property
    def footer(self) -> pq.FileMetaData:
        """The footer of the finished file."""
        return self._footers[0]

    def _opened(self, first: pa.Table) -> pq.ParquetWriter:
        """Arrow's writer, created with the first rows: they show what is worth a dictionary and a compression."""
        if self._writer is None:
            others = [
                column.name
                for column in self._schema
                if not _is_delta_packed(column.type, in_int96=self._in_int96) and not _is_fixed_decimal(column.type)
            ]
            repetitive = _repetitive(first.select(others))
            compression = self._codec if first.num_rows < _JUDGED_ROWS else self._by_column(first, repetitive)
            self._writer = self._create(self._output.sink, repetitive, compression, self._footers)
        return self._writer

    def _by_column(self, first: pa.Table, repetitive: list[str]) -> dict[str, str]:
        """The compression of each leaf column: none where a sample of the rows, as they are stored, hardly shrinks.

        Random numbers and packed integers do not: to decompress them would take longer than to decode them.
        """
        step = first.num_rows // _SAMPLE_SLICES
        slices = [first.slice(step * number, _SAMPLE_ROWS // _SAMPLE_SLICES) for number in range(_SAMPLE_SLICES)]
        footers: list[pq.FileMetaData] = []
        with self._create(pa.BufferOutputStream(), repetitive, self._codec, footers) as writer:
            writer.write_table(pa.concat_tables(slices).combine_chunks())
        group = footers[0].row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        return {
            column.path_in_schema: self._codec
            if column.total_compressed_size < column.total_uncompressed_size * _WORTHWHILE_SHARE
            else "none"
            for column in columns
        }

    def _create(
        self,
        sink: pa.NativeFile,
        repetitive: list[str],
        compression: str | dict[str, str],
        footers: list[pq.FileMetaData],
    ) -> pq.ParquetWriter:
        packed = [column.name for column in self._schema if _is_delta_packed(column.type, in_int96=self._in_int96)]
        level: int | dict[str, int] | None = self._level
        if self._level is not None and isinstance(compression, dict):
            level = {path: self._level for path, codec in compression.items() if codec == self._codec}
        return pq.ParquetWriter(
            sink,
            self._schema,
            compression=compression,
            compression_level=level,
            use_dictionary=repetitive,
            column_encoding=dict.fromkeys(packed, "DELTA_BINARY_PACKED"),
            write_statistics=self._with_statistics(),
            use_deprecated_int96_timestamps=self._in_int96,
            store_decimal_as_integer=True,
            write_page_checksum=True,
            write_time_adjusted_to_utc=True,
            store_schema=False,
            metadata_collector=footers,
        )

    def _with_statistics(self) -> bool | list[str]:
        """The columns with statistics; True for all of them."""
        names = [
            column.name
            for column in self._schema
            if column.name not in self._without_bounds and not pa.types.is_nested(column.type)
        ]
        return names if self._without_bounds.intersection(self._schema.names) else True


def _check_days(table: pa.Table) -> None:
    """Raise InvalidRequestError for timestamps before the days of INT96. Nanoseconds do not reach them."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        for values in (values for chunk in column.chunks for values in timestamps_in(chunk)):
            first = pc.min(values.cast(pa.int64())).as_py() if values.type.unit == "us" else None
            if first is not None and first < _FIRST_INT96_MICROS:
                raise InvalidRequestError(
                    f"column {name!r} holds the timestamp {np.datetime64(first, 'us')}; beside columns of more than 6 "
                    "digits Parquet files hold timestamps from the year -4712 on: give those columns 6 digits at most"
                )


def _is_delta_packed(kind: pa.DataType, *, in_int96: bool) -> bool:
    """Whether a column is stored as differences of neighbours, which are smaller and faster for integers."""
    if pa.types.is_timestamp(kind):
        return not in_int96
    return any(is_integer(kind) for is_integer in (pa.types.is_int32, pa.types.is_int64, pa.types.is_date32))


def _is_fixed_decimal(kind: pa.DataType) -> bool:
    """Whether a column is a decimal that is stored as bytes of fixed length.

    Paimon's writers give such columns no dictionary, and its Java readers do not find a filter's value in a dictionary:
    they would skip the rows that have the value.
    """
    return bool(pa.types.is_decimal(kind) and kind.precision > _INTEGER_DIGITS)


def _repetitive(table: pa.Table) -> list[str]:
    """The columns worth a dictionary: those with few different values in a sample."""
    count = min(table.num_rows, _SAMPLE_ROWS)
    sample = table
    if count < table.num_rows:
        sample = table.take(np.linspace(0, table.num_rows - 1, count, dtype=np.int64))
    return [
        name
        for name, values in zip(sample.column_names, sample.columns, strict=True)
        if not pa.types.is_nested(values.type) and pc.count_distinct(values).as_py() <= count // 2
    ]


def _compression(name: str) -> str:
    try:
        return _COMPRESSIONS[name.lower()]
    except KeyError as error:
        known = ", ".join(sorted(_COMPRESSIONS))
        raise InvalidRequestError(f"file.compression {name!r} is not known for Parquet; known are {known}") from error
