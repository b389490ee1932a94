"""Filters as polars expressions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any  # Any: polars' operators have no common type

import polars as pl

from lakelog.common.arrow import time_unit
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.binary_row import StoredValue
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
    TypeRoot.FLOAT: pl.Float64,
    TypeRoot.DOUBLE: pl.Float64,
}


def expression_of(bound: Bound) -> pl.Expr:
    """The polars expression of a bound filter; null where the filter is unknown."""
    if isinstance(bound, BoundAnd):
        return functools.reduce(operator.and_, (expression_of(part) for part in bound.parts))
    if isinstance(bound, BoundOr):
        return functools.reduce(operator.or_, (expression_of(part) for part in bound.parts))
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


def _in(bound: BoundIn, column: pl.Expr) -> pl.Expr:
    """Membership; a miss is unknown where NULL was listed."""
    found = functools.reduce(
        operator.or_,
        (column == _literal(bound.field, value) for value in bound.values),
        pl.when(column.is_not_null()).then(pl.lit(False)),
    )
    if bound.has_null:
        found = pl.when(found).then(pl.lit(True))
    return ~found if bound.is_negated else found


def _column(field: DataField) -> pl.Expr:
    """The column; FLOAT as double, which is how SQL compares it with a number."""
    column = pl.col(field.name)
    return column.cast(pl.Float64) if field.type.root is TypeRoot.FLOAT else column


def _literal(field: DataField, value: StoredValue) -> pl.Expr:
    kind = field.type
    if kind.root in _PLAIN:
        return pl.lit(value, dtype=_PLAIN[kind.root])
    if kind.root is TypeRoot.DECIMAL:
        return pl.lit(value, dtype=pl.Decimal(kind.precision, kind.scale or 0))
    assert isinstance(value, int)
    if kind.root is TypeRoot.DATE:
        return pl.lit(value, dtype=pl.Int32).cast(pl.Date)
    unit = time_unit(kind.precision or 0)
    if kind.root is TypeRoot.TIME:
        nanos = {"s": 1_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}[unit]
        return pl.lit(value * nanos, dtype=pl.Int64).cast(pl.Time)
    zone = "UTC" if kind.root is TypeRoot.TIMESTAMP_LTZ else None
    if unit == "s":  # polars has no seconds: Arrow's become milliseconds
        return pl.lit(value * 1_000, dtype=pl.Int64).cast(pl.Datetime("ms", zone))
    return pl.lit(value, dtype=pl.Int64).cast(
        pl.Datetime("ms" if unit == "ms" else "us" if unit == "us" else "ns", zone)
    )
