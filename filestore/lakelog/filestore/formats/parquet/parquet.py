"""Reading Parquet data files, with their checksums verified. For the types see `parquet_layout`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.common.arrow import to_arrow_field, to_arrow_type
from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.formats.blocks.checked import CheckedInput
from lakelog.filestore.formats.blocks.reader_errors import errors_named
from lakelog.filestore.formats.blocks.stored_file import StoredFile
from lakelog.filestore.formats.parquet.parquet_check import FOOT_BYTES, MAGIC, read_footer
from lakelog.filestore.formats.parquet.parquet_fetching import Fetch, fetches_of, ranges_of
from lakelog.filestore.formats.parquet.parquet_footer import (
    GroupBounds,
    ParquetFooter,
    cache_footer,
    cached_footer,
)
from lakelog.filestore.formats.parquet.parquet_layout import type_has_nanos

FETCH_BYTES = 32 << 20
# Fetched at once, however small the budget is: parts would take as much memory, for a buffer per column and a block.
FETCH_BYTES_MIN = 2 << 20
_INT96_WRAP_SECONDS = (1 << 64) // 1_000_000_000
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


@dataclass(frozen=True, slots=True)
class _Part:
    """Columns that are read together, from one handle of the file."""

    file: pq.ParquetFile
    names: Sequence[str]


class ParquetFile:
    """One open data file, read by columns. A context manager.

    Every read verifies the checksums of blocks in the manifest, or without them the file's page checksums. A footer
    that was verified by the manifest's checksums is cached, by the file's name and its checksums.
    """

    def __init__(self, file: StoredFile) -> None:
        self._path, checksums = file.path, file.checksums
        opened = file.open_input()
        self._checked = opened if isinstance(opened, CheckedInput) else None
        self._source = opened if self._checked is None else pa.PythonFile(opened, mode="r")
        self._checks_pages = checksums is None
        try:
            with errors_named(file.path, "Parquet"):
                known = cached_footer(file.path, checksums)
                metadata = None if known is None else known.metadata
                self._file = pq.ParquetFile(
                    self._source,
                    metadata=read_footer(self._source, file.path) if checksums is None else metadata,
                    page_checksum_verification=self._checks_pages,
                    pre_buffer=False,  # see `parquet_fetching`
                )
                self.footer = ParquetFooter(self._file.metadata) if known is None else known
        except BaseException:
            self._source.close()
            raise
        if checksums is not None and known is None:
            cache_footer(file.path, checksums, self.footer)

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
        """The names of the columns in the file."""
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
        """For each row group the smallest and the largest value of a column; None if the file has no bounds.

        Bounds of floats are not used: files disagree on NaN and -0.0.
        """
        kind = to_arrow_type(field.type)
        at = self.footer.leaves.get(field.name)
        if field.name not in self.names or at is None or pa.types.is_floating(kind):
            return [None] * len(self.row_groups)
        with errors_named(self._path, "Parquet"):
            return [self._bounds_in(group, at, kind) for group in range(len(self.row_groups))]

    def _bounds_in(self, group: int, leaf: int, kind: pa.DataType) -> pa.Array | None:
        chunk = self.footer.metadata.row_group(group).column(leaf)
        statistics = chunk.statistics if chunk.is_stats_set else None
        if statistics is None or not statistics.has_min_max or statistics.null_count:
            return None
        return pa.array([statistics.min, statistics.max], kind)

    def stored_bounds_of(self, name: str, kind: DataType) -> GroupBounds | None:
        """The bounds of a column of the type `kind` in all row groups.

        None if there is no such column that is not nested.

        Raises CorruptDataError.
        """
        leaf = self.footer.leaves.get(name)
        if leaf is None:
            return None
        with errors_named(self._path, "Parquet"):
            return self.footer.bounds(kind, leaf)

    def verified(self, fields: Sequence[DataField], row_groups: Sequence[int]) -> bytes | BinaryIO | None:
        """A file that has the footer and, at the same positions, the columns `fields` of neighbouring row groups.

        Their bytes are verified. For a local file it is the file itself, to be read at once and closed; for others it
        is a copy with zeros in place of what was not requested. None for a file without checksums of its blocks. Raises
        CorruptDataError.
        """
        if self._checked is None:
            return None
        footer, size = self.footer.metadata, self._checked.size()
        columns = ranges_of(footer, [field.name for field in fields], row_groups)
        ranges = [(0, len(MAGIC)), *columns, (size - footer.serialized_size - FOOT_BYTES, size)]
        with errors_named(self._path, "Parquet"):
            own = self._checked.own_file()
            if own is None:
                return self._checked.image(ranges)
            try:
                self._checked.verify(ranges)
            except BaseException:
                own.close()
                raise
            return own

    @property
    def is_own_file(self) -> bool:
        """Whether `verified` returns the file itself, and not a copy of it in memory."""
        return self._checked is not None and self._checked.is_local

    def read(self, fields: Sequence[DataField], *, row_groups: Sequence[int] | None = None) -> pa.Table:
        """The columns `fields`, found by name, as their Arrow types. Raises CorruptDataError."""
        groups = list(range(len(self.row_groups)) if row_groups is None else row_groups)
        if len(groups) == 1:
            for fetch in fetches_of(self.footer.metadata, [field.name for field in fields], groups, FETCH_BYTES):
                self._hold(fetch)
        with errors_named(self._path, "Parquet"):
            parts = [part.file.read_row_groups(groups, columns=part.names) for part in self._parts(fields)]
        return self._joined(parts, fields)

    def read_groups(self, fields: Sequence[DataField], row_groups: Sequence[int]) -> Iterator[pa.Table]:
        """The columns `fields` of each of some row groups; neighbouring groups are fetched together.

        Otherwise as `read`.
        """
        for fetch in fetches_of(self.footer.metadata, [field.name for field in fields], row_groups, FETCH_BYTES):
            self._hold(fetch)
            for group in fetch.groups:
                yield self.read(fields, row_groups=[group])

    def iter_batches(
        self,
        fields: Sequence[DataField],
        *,
        batch_rows: int = 65_536,
        row_groups: Sequence[int] | None = None,
        fetch_bytes: int = FETCH_BYTES,
    ) -> Iterator[pa.RecordBatch]:
        """The columns `fields` in batches of at most `batch_rows`. Raises CorruptDataError.

        About `fetch_bytes` of the file are held in addition to a batch: row groups are fetched together up to this
        size, and a larger one is fetched part by part.
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
            batches = []  # they refer to the fetched bytes of the file

    def _hold(self, fetch: Fetch) -> None:
        if self._checked is not None and fetch.span is not None:
            with errors_named(self._path, "Parquet"):
                self._checked.hold(*fetch.span)

    def _parts(self, fields: Sequence[DataField], *, buffer_bytes: int = 0) -> list[_Part]:
        """The columns to read together, with the unit of their timestamps.

        INT96 holds timestamps of every precision. Arrow reads it in nanoseconds, which cover 1677 to 2262: columns of
        fewer digits are read in microseconds, and the others once more in seconds, to find values that do not fit.
        """
        for column in fields:
            if column.name not in self.names:
                raise CorruptDataError(
                    f"Parquet file {self._path} lacks the column {column.name!r}; it has {listed(self.names)}"
                )
        int96 = [column for column in fields if column.name in self.footer.int96_columns]
        micros = [column.name for column in int96 if not type_has_nanos(column.type)]
        nanos = [column.name for column in int96 if column.type.root in _TIMESTAMPS and column.name not in micros]
        rest = [column.name for column in fields if column.name not in micros]
        wanted: tuple[tuple[str | None, list[str]], ...] = ((None, rest), ("us", micros), ("s", nanos))
        return [_Part(self._handle(unit, buffer_bytes), names) for unit, names in wanted if names]

    def _handle(self, unit: str | None, buffer_bytes: int) -> pq.ParquetFile:
        """A handle that reads INT96 in a unit, with buffers; the first handle if it fits."""
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
        """Raise UnsupportedError if INT96 values did not fit into nanoseconds.

        Paimon writes times before 1970 as negative nanoseconds of the day, which Arrow reads in seconds 2**64 ns too
        late.
        """
        floored = np.floor_divide(nanos.cast(pa.int64()).drop_null().to_numpy(), 1_000_000_000)
        late = seconds.cast(pa.int64()).drop_null().to_numpy() - floored
        if not np.isin(late, (0, _INT96_WRAP_SECONDS, _INT96_WRAP_SECONDS + 1)).all():
            raise UnsupportedError(
                f"column {name!r} of Parquet file {self._path} holds timestamps before 1677 or after 2262, which Arrow "
                "cannot hold in nanoseconds; leave the column out, or make it TIMESTAMP(6)"
            )
