"""What means another thing in DuckDB than in Spark, in a query whose tables are registered.

sqlglot translates functions; what depends on the types of columns is looked up here by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from sqlglot import exp

_FLOAT_DIGITS = 18  # of a decimal that DuckDB takes for one, whatever stands beside it
_FUNCTIONS = {"raise_error": "error"}


def as_duckdb(query: exp.Expr, types: Mapping[str, set[pa.DataType]], *, catalog: str, database: str | None) -> None:
    """Change a query in place; `types` has the types of columns by their names in lower case."""
    for name, value in (("CurrentCatalog", catalog), ("CurrentDatabase", database)):
        for function in list(query.find_all(getattr(exp, name))):
            function.replace(exp.Null() if value is None else exp.Literal.string(value))
    for beside in list(query.find_all(exp.Binary, exp.In)):
        _widen_floats(beside, types)
    for division in list(query.find_all(exp.Div, exp.Mod)):
        name = "lakelog_divide" if isinstance(division, exp.Div) else "lakelog_remainder"
        division.replace(exp.Anonymous(this=name, expressions=[division.this.copy(), division.expression.copy()]))
    for function in list(query.find_all(exp.Anonymous)):
        function.set("this", _FUNCTIONS.get(function.name.lower(), function.this))
    for like in list(query.find_all(exp.Like, exp.ILike)):
        if not isinstance(like.parent, exp.Escape):
            like.replace(exp.Escape(this=like.copy(), expression=exp.Literal.string("\\")))
    for literal in list(query.find_all(exp.Literal)):
        _keep_digits(literal)
    for bracket in query.find_all(exp.Bracket):
        if _is_map(bracket.this, types):
            bracket.set("offset", 1)  # a key, and not a place
    for cast in query.find_all(exp.Cast):
        if cast.to.is_type(exp.DType.TEXT, exp.DType.VARCHAR) and _has_zone(cast.this, types):
            cast.set("this", exp.AtTimeZone(this=cast.this.copy(), zone=exp.Literal.string("UTC")))


def _keep_digits(literal: exp.Literal) -> None:
    """A decimal of many digits as itself: DuckDB makes a DOUBLE of it."""
    whole, point, behind = literal.name.partition(".")
    if literal.is_string or not point or not (whole + behind).isdigit():
        return
    digits = len(whole.lstrip("0")) + len(behind)
    if digits > _FLOAT_DIGITS:
        kind = exp.DataType.build(f"DECIMAL({digits}, {len(behind)})")
        literal.replace(exp.Cast(this=exp.Literal.string(literal.name), to=kind))


def _widen_floats(given: exp.Expr, types: Mapping[str, set[pa.DataType]]) -> None:
    """Make DOUBLE of a FLOAT beside a decimal, as in Spark: DuckDB makes FLOAT of both."""
    sides = [given.this, *given.expressions] if isinstance(given, exp.In) else [given.this, given.expression]
    if not any(isinstance(one, exp.Expr) and _is_decimal(one, types) for one in sides):
        return
    for one in sides:
        if isinstance(one, exp.Expr) and _is_float(one, types):
            one.replace(exp.cast(one.copy(), exp.DType.DOUBLE))


def _is_decimal(given: exp.Expr, types: Mapping[str, set[pa.DataType]]) -> bool:
    """Whether an expression is a decimal column, or a number with a point."""
    given = given.unnest()
    if isinstance(given, exp.Neg):
        return _is_decimal(given.this, types)
    if isinstance(given, exp.Literal):
        return not given.is_string and given.name.replace(".", "", 1).isdigit() and "." in given.name
    if isinstance(given, exp.Cast):
        return bool(given.to.is_type(exp.DType.DECIMAL))
    return _has_type(given, types, pa.types.is_decimal)


def _is_float(given: exp.Expr, types: Mapping[str, set[pa.DataType]]) -> bool:
    given = given.unnest()
    if isinstance(given, exp.Neg):
        return _is_float(given.this, types)
    if isinstance(given, exp.Cast):
        return bool(given.to.is_type(exp.DType.FLOAT))
    return _has_type(given, types, pa.types.is_float32)


def _has_type(given: exp.Expr, types: Mapping[str, set[pa.DataType]], is_of: Callable[[pa.DataType], bool]) -> bool:
    """Whether an expression is a column, and all columns of its name have such a type."""
    found = types.get(given.name.lower(), set()) if isinstance(given, exp.Column) else set()
    return bool(found) and all(map(is_of, found))


def _is_map(given: exp.Expr, types: Mapping[str, set[pa.DataType]]) -> bool:
    return _has_type(given, types, pa.types.is_map)


def _has_zone(given: exp.Expr, types: Mapping[str, set[pa.DataType]]) -> bool:
    return _has_type(given, types, lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None)
