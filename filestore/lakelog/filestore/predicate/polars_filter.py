"""Filters as polars expressions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any  # Any: polars' operators have no common type

import polars as pl
from polars import selectors

from lakelog.common.arrow import time_unit
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.encoding.binary_row import StoredValue
from lakelog.filestore.predicate.binding import (
    Bound,
    BoundAnd,
    BoundIn,
    BoundIsNull,
    BoundLike,
    BoundOr,
    WhenPresent,
)
from lakelog.filestore.predicate.tree import Comparison, Constant

_OPERATORS: dict[Comparison, Callable[[Any, Any], Any]] = {
    Comparison.EQ: operator.eq,
    Comparison.NE: operator.ne,
    Comparison.LT: operator.lt,
    Comparison.LE: operator.le,
    Comparison.GT: operator.gt,
    Comparison.GE: operator.ge,
}
_PLAIN: dict[TypeRoot, type[pl.DataType]] = {
    TypeRoot.BOOLEAN: pl.Boolean,
    TypeRoot.TINYINT: pl.Int8,
    TypeRoot.SMALLINT: pl.Int16,
    TypeRoot.INT: pl.Int32,
    TypeRoot.BIGINT: pl.Int64,
    TypeRoot.CHAR: pl.String,
    TypeRoot.VARCHAR: pl.String,
    TypeRoot.BINARY: pl.Binary,
    TypeRoot.VARBINARY: pl.Binary,
    TypeRoot.BLOB: pl.Binary,
    TypeRoot.FLOAT: pl.Float64,
    TypeRoot.DOUBLE: pl.Float64,
}

PolarsType = pl.DataType | type[pl.DataType]


def expression_of(bound: Bound) -> pl.Expr:
    """The polars expression of a bound filter; null where the result is unknown."""
    if isinstance(bound, BoundAnd):
        return _joined(operator.and_, [expression_of(part) for part in bound.parts])
    if isinstance(bound, BoundOr):
        return _joined(operator.or_, [expression_of(part) for part in bound.parts])
    if isinstance(bound, Constant):
        return pl.lit(bound.value, dtype=pl.Boolean)
    column = _column(bound.field)
    if isinstance(bound, BoundIsNull):
        return column.is_not_null() if bound.is_negated else column.is_null()
    if isinstance(bound, WhenPresent):
        return pl.when(column.is_not_null()).then(pl.lit(bound.value))
    if isinstance(bound, BoundLike):
        matches = column.str.contains(bound.regex)
        return ~matches if bound.is_negated else matches
    if isinstance(bound, BoundIn):
        return _in(bound, column)
    compared: pl.Expr = _OPERATORS[bound.operator](column, _literal(bound.field, bound.value))
    return compared


def _joined(operation: Callable[[Any, Any], Any], parts: list[pl.Expr]) -> pl.Expr:
    """The parts as a balanced tree: polars is slow for deep ones."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    joined: pl.Expr = operation(_joined(operation, parts[:middle]), _joined(operation, parts[middle:]))
    return joined


def _in(bound: BoundIn, column: pl.Expr) -> pl.Expr:
    """Membership; if NULL is in the list, the result is unknown for a row that matches no value."""
    found = column.is_in(_series(bound.field, bound.values).implode())
    if bound.has_null:
        found = pl.when(found).then(pl.lit(True))
    return ~found if bound.is_negated else found


def _column(field: DataField) -> pl.Expr:
    """The column; FLOAT as double, as SQL compares it with a number."""
    column = selectors.by_name(field.name).as_expr()  # `pl.col` takes * and ^...$ for patterns
    return column.cast(pl.Float64) if field.type.root is TypeRoot.FLOAT else column


def _literal(field: DataField, value: StoredValue) -> pl.Expr:
    """One value, in the type of the column."""
    stored, factor, shown = _types_of(field)
    literal = pl.lit(value if factor == 1 else _integer(value) * factor, dtype=stored)
    return literal if shown == stored else literal.cast(shown)


def _series(field: DataField, values: Sequence[StoredValue]) -> pl.Series:
    """Values in the type of the column."""
    stored, factor, shown = _types_of(field)
    series = pl.Series(values, dtype=stored)
    return (series if factor == 1 else series * factor).cast(shown)


def _types_of(field: DataField) -> tuple[PolarsType, int, PolarsType]:
    """The type of stored values, their multiplier, and the type of the column; FLOAT is double."""
    kind = field.type
    if kind.root in _PLAIN:
        return _PLAIN[kind.root], 1, _PLAIN[kind.root]
    if kind.root is TypeRoot.DECIMAL:
        decimal = pl.Decimal(kind.precision, kind.scale or 0)
        return decimal, 1, decimal
    if kind.root is TypeRoot.DATE:
        return pl.Int32, 1, pl.Date
    unit = time_unit(kind.precision or 0)
    if kind.root is TypeRoot.TIME:
        return pl.Int64, {"s": 1_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}[unit], pl.Time
    zone = "UTC" if kind.root is TypeRoot.TIMESTAMP_LTZ else None
    if unit == "s":  # polars has no seconds: those of Arrow become milliseconds
        return pl.Int64, 1_000, pl.Datetime("ms", zone)
    return pl.Int64, 1, pl.Datetime("ms" if unit == "ms" else "us" if unit == "us" else "ns", zone)


def _integer(value: StoredValue) -> int:
    assert isinstance(value, int)
    return value
