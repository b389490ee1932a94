"""ORC data files: read by columns."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from lakelog.common.arrow import to_arrow_field, to_arrow_type
from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.formats.blocks.reader_errors import WatchedInput, errors_named
from lakelog.filestore.formats.blocks.stored_file import StoredFile
from lakelog.filestore.formats.orc.orc_timestamps import check_decimals, has_local_times, read_timestamps
from lakelog.filestore.formats.orc.orc_zones import UnknownZoneError
from lakelog.filestore.io.integrity import damaged

_BLOCK_BYTES_MAX = 64 << 20  # before compression; Paimon's have 256 KiB
_STRIPE_ROWS_MAX = 8 << 20
_END_BYTES = 16 << 10  # as much as Arrow reads at first
_STRIPE_RATIO_MAX = 64  # rows a byte of the file
_OUT_OF_RANGE = "out of range for nanosecond resolution"
_NO_ZONE = "Time zone file"
_SETTLED_SECONDS = 3 * 86_400  # no zone is this far from UTC
_UNITS = {"ns": 1_000_000_000, "us": 1_000_000, "ms": 1_000, "s": 1}
_OUT_OF_BOUNDS = "would result in out of bounds timestamp"


class OrcFile:
    """One open ORC file. A context manager."""

    def __init__(self, file: StoredFile) -> None:
        self._path = file.path
        self._source = WatchedInput(file.open())
        try:
            with self._errors_named():
                if file.checksums is None:
                    self._source.hold_end(_END_BYTES)
                    check_decimals(self._read_at, self._source.size())
                self._file = orc.ORCFile(pa.PythonFile(self._source, mode="r"))
                self.names = list(self._file.schema.names)
            self._check_claims()
        except BaseException:
            self._source.close()
            raise

    def __enter__(self) -> OrcFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    def _check_claims(self) -> None:
        """Raise CorruptDataError for sizes that no writer writes: huge blocks, stripes of rows without bytes."""
        rows = self.row_count // max(1, self._file.nstripes)
        if self._file.compression_size > _BLOCK_BYTES_MAX:
            raise damaged(self._path, f"it has blocks of {self._file.compression_size} bytes")
        if rows > _STRIPE_ROWS_MAX and rows > _STRIPE_RATIO_MAX * self._source.size():
            raise damaged(self._path, f"it claims {rows} rows a stripe in {self._source.size()} bytes")

    @property
    def row_count(self) -> int:
        """Rows in the file."""
        return int(self._file.nrows)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row by the file's footer; 0 if the footer does not say."""
        return int(self._file.content_length) // max(1, self.row_count)

    def iter_batches(self, fields: Sequence[DataField], *, batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The columns `fields`, found by name, in batches of at most `batch_rows`. Raises CorruptDataError.

        Raises UnsupportedError for timestamps beyond what Arrow holds.
        """
        names = [field.name for field in fields]
        missing = [name for name in names if name not in self.names]
        if missing:
            raise CorruptDataError(
                f"ORC file {self._path} lacks the column {missing[0]!r}; it has {listed(self.names)}"
            )
        schema = pa.schema([to_arrow_field(field) for field in fields])
        for number in range(self._file.nstripes):
            with self._errors_named():
                arrays = self._stripe(number, fields)
            rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
            for start in range(0, rows.num_rows, batch_rows):
                yield rows.slice(start, batch_rows)

    def _stripe(self, number: int, fields: Sequence[DataField]) -> list[pa.Array]:
        """The columns of a stripe; timestamps that Arrow reads wrongly are read by `orc_timestamps`."""
        names = [field.name for field in fields]
        try:
            stripe = self._file.read_stripe(number, columns=names)
            if not (_may_be_off(stripe) and self._has_local_times(number)):
                return [_as_type(stripe.column(field.name), field.type) for field in fields]
        except (pa.ArrowException, OSError, ValueError) as error:
            if not any(one in str(error) for one in (_OUT_OF_RANGE, _NO_ZONE)):
                raise
        timed = [name for name in names if _holds_timestamps(self._file.schema.field(name).type)]
        plain = self._file.read_stripe(number, columns=[name for name in names if name not in timed])
        try:
            far = read_timestamps(self._read_at, self._source.size(), number, timed)
            found = {**far, **{name: plain.column(name) for name in names if name not in timed}}
            return [_as_type(found[field.name], field.type) for field in fields]
        except UnknownZoneError as error:
            raise UnsupportedError(
                f"ORC file {self._path} holds timestamps of a writer in the time zone {error.zone!r}, which Python "
                "does not know, so they are not read; leave the column out, or rewrite it in a zone such as UTC"
            ) from error
        except KeyError as error:
            raise UnsupportedError(
                f"ORC file {self._path} holds timestamps before 1970 or after 2262, and has the compression {error}, "
                "with which they are not read; leave the column out, or rewrite the file as Parquet"
            ) from error
        except pa.ArrowInvalid as error:
            if _OUT_OF_BOUNDS not in str(error):
                raise
            raise UnsupportedError(
                f"ORC file {self._path} holds timestamps before 1677 or after 2262 in a column of more than 6 digits, "
                f"which Arrow does not hold: {error}; leave the column out"
            ) from error

    def _has_local_times(self, number: int) -> bool:
        try:
            return has_local_times(self._read_at, self._source.size(), number)
        except KeyError:
            return True  # its zone is not readable, and neither is the rest

    def _read_at(self, start: int, size: int) -> bytes:
        if not 0 <= start <= start + size <= self._source.size():
            raise ValueError(f"it names the bytes {start} to {start + size}, and has {self._source.size()}")
        self._source.seek(start)
        return self._source.read(size)

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Raise errors of the file itself unchanged; Arrow would raise only their message."""
        with errors_named(self._path, "ORC"):
            try:
                yield
            except Exception as error:
                held = self._source.error
                if held is None or held is error:
                    raise
                raise held from error


def _holds_timestamps(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return True
    return any(_holds_timestamps(kind.field(at).type) for at in range(kind.num_fields))


def _may_be_off(columns: pa.RecordBatch) -> bool:
    """Whether timestamps are so old that they depend on more than the offset of the writer's zone."""
    return any(_earliest(column) < _SETTLED_SECONDS for column in columns.columns)


def _earliest(values: pa.Array) -> int:
    """The seconds since 1970 of the earliest timestamp without zone at any depth, else a large number."""
    kind = values.type
    if pa.types.is_timestamp(kind):
        least = pc.min(values.view(pa.int64())).as_py() if kind.tz is None else None
        return _SETTLED_SECONDS if least is None else int(least) // _UNITS[kind.unit]
    if not _holds_timestamps(kind):
        return _SETTLED_SECONDS
    if pa.types.is_map(kind):
        return min(_earliest(values.keys), _earliest(values.items))
    members = [values.values] if pa.types.is_list(kind) else [values.field(at) for at in range(kind.num_fields)]
    return min(map(_earliest, members))


def _as_type(values: pa.Array, kind: DataType) -> pa.Array:
    """Values in a column's Arrow type.

    ORC has no type TIME. Arrow gives its timestamps in nanoseconds, or in microseconds beyond their range. CHAR loses
    its padding, as in Paimon's own reader.
    """
    wanted = to_arrow_type(kind)
    if kind.root is TypeRoot.CHAR:
        return pc.utf8_rtrim(values, characters=" ")
    if values.type == wanted:
        return values
    if pa.types.is_time(wanted) and pa.types.is_integer(values.type):
        return values.cast(pa.int32()).view(pa.time32("ms")).cast(wanted)
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp(values.type.unit, tz=wanted.tz)).cast(wanted, safe=wanted.unit == "ns")
    return values.cast(wanted)
