"""Foreign Debezium records as rows of a table. Good records are decoded in columns; a bad record has a reason.

A batch is cut by the schemas beside its records, and each part is read by Arrow's parser. A part that it cannot read is
halved, and small parts are read one by one. So a bad record slows down the records beside it, not the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: numpy arrays of any element type

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import misplaced_null, to_arrow_type
from lakelog.common.quoting import cause, cut, printable
from lakelog.common.types import DataField, DataType, RowKind
from lakelog.logstore.codec.foreign_arrow import read_columns
from lakelog.logstore.codec.foreign_fit import misfit_of_length, zero_of
from lakelog.logstore.codec.foreign_forms import AssumedTimes
from lakelog.logstore.codec.foreign_members import MemberPath
from lakelog.logstore.codec.foreign_parts import Part, parts_of
from lakelog.logstore.codec.foreign_records import BadRecordError, Marker
from lakelog.logstore.codec.foreign_rules import Columns, ForeignRules, NewColumns, Piece
from lakelog.logstore.codec.foreign_single import SingleRecords
from lakelog.logstore.codec.json_columns import NotColumnarError

REASON_MAX = 500
UNEXPECTED = "not readable"
FOREIGN_ERRORS = (
    pa.ArrowException,
    pl.exceptions.PolarsError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
_SMALL = 64


@dataclass(slots=True, kw_only=True)
class ForeignRows:
    """The result of decoding a batch of records. `records` has for each row the number of its record, in order.

    `bad` has the reasons of bad records; `silent` has the numbers of good ones without rows: tombstones, messages of
    the database's log, and `truncations`, which delete all rows before them. Each record is in one of the three.
    `unavailable` has for a row the columns whose old value stays. `new_columns` are columns that the table lacks, and
    `new_members` are members that its nested columns lack. `left_out` counts the unknown members that each row has
    lost. `seen` has the columns whose times were numbers of an assumed unit.
    """

    rows: pa.Table
    kinds: np.ndarray[Any, np.dtype[np.int8]]
    records: np.ndarray[Any, np.dtype[np.int64]]
    bad: dict[int, str] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    truncations: list[int] = field(default_factory=list)
    unavailable: dict[int, tuple[str, ...]] = field(default_factory=dict)
    new_columns: dict[str, DataType] = field(default_factory=dict)
    new_members: dict[MemberPath, DataType] = field(default_factory=dict)
    left_out: np.ndarray[Any, np.dtype[np.int64]] = field(default_factory=lambda: np.zeros(0, np.int64))
    seen: AssumedTimes = field(default_factory=AssumedTimes)

    def refuse(self, bad: Mapping[int, str]) -> None:
        """Mark records as bad after all, and drop their rows."""
        if not bad:
            return
        kept = ~np.isin(self.records, list(bad))
        places = np.cumsum(kept) - 1
        self.rows, self.kinds, self.records = self.rows.filter(pa.array(kept)), self.kinds[kept], self.records[kept]
        self.unavailable = {int(places[row]): names for row, names in self.unavailable.items() if kept[row]}
        self.truncations = [number for number in self.truncations if number not in bad]
        self.left_out = self.left_out[kept]
        self.silent -= bad.keys()
        self.bad |= {number: reason_of(text) for number, text in bad.items()}


def reason_of(text: str) -> str:
    """Why a record is bad, as its dead letter says it: bounded, and harmless when it is printed."""
    return printable(cut(text, REASON_MAX))


def decode_foreign(values: Sequence[bytes | None], keys: Sequence[bytes | None], rules: ForeignRules) -> ForeignRows:
    """The rows of records, in their order. A value of None is a tombstone and gives nothing. Never raises for input."""
    batch = _Batch(keys=keys, rules=rules)
    batch.silent |= {number for number, value in enumerate(values) if value is None}
    parts = parts_of(values, rules)
    batch.bad |= parts.bad
    for part in parts.parts:
        batch.read(part)
    odd = parts.odd
    for start in range(0, len(odd.numbers), _SMALL):
        end = start + _SMALL
        batch.read_one_by_one(odd.numbers[start:end], odd.payloads[start:end], None)
    return batch.finish()


@dataclass(slots=True, kw_only=True)
class _Batch:
    keys: Sequence[bytes | None]
    rules: ForeignRules
    pieces: list[Piece] = field(default_factory=list)
    bad: dict[int, str] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    truncations: list[int] = field(default_factory=list)
    new_columns: NewColumns = field(default_factory=NewColumns)
    seen: AssumedTimes = field(default_factory=AssumedTimes)

    def read(self, part: Part) -> None:
        """Read records of one schema: in columns, or in halves, or one by one."""
        left = [(part.numbers, part.payloads)]
        while left:
            numbers, payloads = left.pop()
            try:
                piece = read_columns(
                    numbers, payloads, part.columns, self.rules, self.new_columns, keys=self.keys, seen=self.seen
                )
                self._keep(piece)
            except MemoryError:
                raise
            except (NotColumnarError, *FOREIGN_ERRORS):  # reading one by one finds the reason
                if len(numbers) <= _SMALL:
                    self.read_one_by_one(numbers, payloads, part.columns)
                else:
                    middle = len(numbers) // 2
                    left += [(numbers[middle:], payloads[middle:]), (numbers[:middle], payloads[:middle])]

    def read_one_by_one(self, numbers: Sequence[int], payloads: Sequence[bytes], columns: Columns) -> None:
        """Read each record by itself."""
        reader = SingleRecords(self.rules, self.new_columns, self.seen)
        for number, payload in zip(numbers, payloads, strict=True):
            try:
                marker = reader.add(number, payload, self.keys[number], columns)
            except BadRecordError as error:
                self.bad[number] = str(error)
            except MemoryError:
                raise
            except FOREIGN_ERRORS as error:
                is_kind = isinstance(error, TypeError | AttributeError | LookupError)
                found = "a member has a value of another kind than Debezium writes there" if is_kind else cause(error)
                self.bad[number] = f"{UNEXPECTED}: {found}"
            else:
                if marker is not None:
                    self.silent.add(number)
                if marker is Marker.TRUNCATION:
                    self.truncations.append(number)
        self._keep(reader.rows())

    def _keep(self, piece: Piece) -> None:
        bad = _misfits(piece, self.rules)
        self.bad |= bad
        self.pieces.append(_without(piece, bad) if bad else piece)

    def finish(self) -> ForeignRows:
        """All rows in the order of their records."""
        schema = pa.schema([(column.name, to_arrow_type(column.type)) for column in self.rules.fields])
        pieces = [piece for piece in self.pieces if len(piece.records)] or [_no_rows(schema)]
        records = np.concatenate([piece.records for piece in pieces])
        kinds = np.concatenate([piece.kinds for piece in pieces])
        left_out = np.concatenate([piece.left_out for piece in pieces])
        starts = np.cumsum([0, *(len(piece.records) for piece in pieces)])
        unavailable = {
            int(start) + row: names
            for start, piece in zip(starts, pieces, strict=False)
            for row, names in piece.unavailable.items()
        }
        rows = pa.table([pa.chunked_array([p.arrays[name] for p in pieces]) for name in schema.names], schema=schema)
        if (np.diff(records) < 0).any():
            order = np.argsort(records, kind="stable")
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            rows, kinds, records = rows.take(pa.array(order)), kinds[order], records[order]
            left_out = left_out[order]
            unavailable = {int(place[row]): names for row, names in unavailable.items()}
        return ForeignRows(
            rows=rows,
            kinds=kinds,
            records=records,
            bad={number: reason_of(text) for number, text in self.bad.items()},
            silent=self.silent,
            truncations=sorted(self.truncations),
            unavailable=unavailable,
            new_columns=self.new_columns.columns,
            new_members=self.new_columns.members,
            left_out=left_out,
            seen=self.seen,
        )


def _no_rows(schema: pa.Schema) -> Piece:
    return Piece(
        records=np.zeros(0, np.int64),
        kinds=np.zeros(0, np.int8),
        arrays={one.name: pa.nulls(0, one.type) for one in schema},
        left_out=np.zeros(0, np.int64),
    )


def _misfits(piece: Piece, rules: ForeignRules) -> dict[int, str]:
    """Record -> why it does not fit; nulls of deleted rows get a stand-in in a NOT NULL column."""
    bad: dict[int, str] = {}
    is_delete = piece.kinds == RowKind.DELETE
    for column in rules.fields:
        is_key = column.name in rules.key_fields
        kind = column.type
        if rules.key_fields and not kind.nullable and not is_key:
            piece.arrays[column.name] = _with_stand_in(piece.arrays[column.name], is_delete, column)
        values = piece.arrays[column.name]
        if (is_key or not kind.nullable) and values.null_count:
            what = "a primary key column" if is_key else "NOT NULL"
            places = [at for at in _true(~np.asarray(values.is_valid())) if not _is_unavailable(piece, at, column)]
            _mark(bad, piece, places, f"missing: column {column.name!r} is {what}, and the record has no value")
        too_long = misfit_of_length(values, kind)
        if too_long is not None:
            places = _true(np.asarray(too_long))
            _mark(bad, piece, places, f"wrong type: column {column.name!r}: a value is longer than {kind}")
        if kind.is_nested and misplaced_null(values, kind.with_nullable(True)) is not None:
            places = [at for at in range(len(values)) if _has_null_inside(values.slice(at, 1), column)]
            _mark(bad, piece, places, f"missing: column {column.name!r} has a null inside, where {kind} takes none")
    return bad


def _without(piece: Piece, bad: Mapping[int, str]) -> Piece:
    """The rows of the records that are not bad."""
    kept = ~np.isin(piece.records, list(bad))
    places = np.cumsum(kept) - 1
    mask = pa.array(kept)
    return Piece(
        records=piece.records[kept],
        kinds=piece.kinds[kept],
        arrays={name: array.filter(mask) for name, array in piece.arrays.items()},
        left_out=piece.left_out[kept],
        unavailable={int(places[row]): names for row, names in piece.unavailable.items() if kept[row]},
    )


def _with_stand_in(values: pa.Array, is_delete: np.ndarray[Any, np.dtype[np.bool_]], column: DataField) -> pa.Array:
    """Databases log only the key of a deleted row; Debezium itself writes an empty string for other columns."""
    lacks = is_delete & ~np.asarray(values.is_valid())
    zero = zero_of(column.type)
    if zero is None or not lacks.any():
        return values
    return pc.if_else(pa.array(lacks), pa.scalar(zero, values.type), values)


def _is_unavailable(piece: Piece, place: int, column: DataField) -> bool:
    """Whether the value is to be taken from the old row."""
    return column.name in piece.unavailable.get(place, ())


def _has_null_inside(value: pa.Array, column: DataField) -> bool:
    return misplaced_null(value, column.type.with_nullable(True)) is not None


def _true(mask: np.ndarray[Any, np.dtype[np.bool_]]) -> list[int]:
    found: list[int] = np.flatnonzero(mask).tolist()
    return found


def _mark(bad: dict[int, str], piece: Piece, places: list[int], reason: str) -> None:
    for place in places:
        bad.setdefault(int(piece.records[place]), reason)
