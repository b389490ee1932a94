"""What means another thing in DuckDB than in Spark, in a query whose tables are registered.

sqlglot translates functions; what depends on the types of columns is looked up here by their names.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

_FLOAT_DIGITS = 18  # of a decimal that DuckDB takes for one, whatever stands beside it
_FUNCTIONS = {"raise_error": "error"}


def as_duckdb(query: exp.Expr, types: Mapping[str, set[pa.DataType]], *, catalog: str, database: str | None) -> None:
    """Change a query in place; `types` has the types of columns by their names in lower case."""
    for name, value in (("CurrentCatalog", catalog), ("CurrentDatabase", database)):
        for function in list(query.find_all(getattr(exp, name))):
            function.replace(exp.Null() if value is None else exp.Literal.string(value))
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


def _is_map(given: exp.Expr, types: Mapping[str, set[pa.DataType]]) -> bool:
    found = types.get(given.name.lower(), set()) if isinstance(given, exp.Column) else set()
    return bool(found) and all(pa.types.is_map(kind) for kind in found)


def _has_zone(given: exp.Expr, types: Mapping[str, set[pa.DataType]]) -> bool:
    found = types.get(given.name.lower(), set()) if isinstance(given, exp.Column) else set()
    return bool(found) and all(pa.types.is_timestamp(kind) and kind.tz is not None for kind in found)
