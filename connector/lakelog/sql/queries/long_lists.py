"""Long lists of values in queries: rows of their own, which DuckDB joins, where it would plan each value."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from sqlglot import exp

from lakelog.sql.language.bounds import values_of_list
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.spans import replaced
from lakelog.sql.language.writers import LISTED

_VALUE = "value"


def replace_lists(
    query: exp.Expr,
    types: Mapping[str, set[pa.DataType]],
    register: Callable[[pa.Table], exp.Table],
) -> None:
    """Change a query in place; `types` are those of columns by their names in lower case."""
    for among in list(query.find_all(exp.In)):
        place = next((one for one in among.expressions if LISTED in one.meta), None)
        if place is None:
            continue
        given = place.meta[LISTED]
        values, name = values_of_list(given), among.this.name.lower() if isinstance(among.this, exp.Column) else ""
        kind = _cast_to(values.type, types.get(name, set()))
        if kind is None:
            replaced(place, exp.Var(this=given), given)
            continue
        rows = exp.select(exp.cast(exp.column(_VALUE), kind) if kind else exp.column(_VALUE))
        rows = rows.from_(register(pa.table({_VALUE: values})))
        replaced(place, rows, rows.sql(dialect=LakelogDialect))


def _cast_to(given: pa.DataType, columns: set[pa.DataType]) -> str | None:
    """The type in which values are compared with a column, empty for their own; None if that is not known."""
    if len(columns) != 1:
        return None
    (column,) = columns
    types = pa.types
    if types.is_string(given):
        if types.is_date(column):
            return "DATE"
        if types.is_timestamp(column):
            return "TIMESTAMP" if column.tz is None else "TIMESTAMPTZ"
        return "" if types.is_string(column) or types.is_large_string(column) else None
    return "" if types.is_integer(column) or types.is_floating(column) or types.is_decimal(column) else None
