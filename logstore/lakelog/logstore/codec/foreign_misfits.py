"""Values of decoded rows that a table's columns refuse: nulls in a NOT NULL column, strings that are too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # Any: numpy arrays of any element type

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.arrow import misplaced_null
from lakelog.common.types import DataField, RowKind
from lakelog.logstore.codec.foreign_fit import misfit_of_length, zero_of
from lakelog.logstore.codec.foreign_rules import ForeignRules, Piece


def misfits(piece: Piece, rules: ForeignRules) -> dict[int, str]:
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


def without(piece: Piece, bad: Mapping[int, str]) -> Piece:
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
