"""Tables and their columns as a query names them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from lakelog.common.errors import NotFoundError, UnsupportedError
from lakelog.common.quoting import shown

_LONG = 3
# What a query may call in place of a table: nothing that reads files.
_TABLE_FUNCTIONS = ("UNNEST", "EXPLODE", "INLINE")
_CHANGED = "changed"


def shorten_names(query: exp.Expr) -> None:
    """Give the columns of a query names that DuckDB knows, and leave out hints of Spark, which say how, not what."""
    for select in query.find_all(exp.Select):
        select.set("hint", None)
    for column in list(query.find_all(exp.Column)):
        _shorten(column)


def _shorten(column: exp.Column) -> None:
    """`database.table.column` by the name of the table alone; `column.field.field` as a field of a field."""
    parts = [part.copy() for part in column.parts]
    if len(parts) < _LONG:
        return
    names = [part.name.lower() for part in parts]
    tables = _tables_seen(column)
    for depth in (2, 1, 0):
        table = tables.get(names[depth])
        if table is None or depth + 1 >= len(parts):
            continue
        if names[:depth] == [part.name.lower() for part in table.parts][-depth - 1 : -1] or depth == 0:
            made: exp.Expr = exp.Column(this=parts[depth + 1], table=parts[depth])
            fields = parts[depth + 2 :]
            break
    else:
        made, fields = exp.Column(this=parts[1], table=parts[0]), parts[2:]
    column.replace(exp.Dot.build([made, *fields]) if fields else made)


def _tables_seen(column: exp.Column) -> dict[str, exp.Table]:
    """The tables that a column may name, by their names there: those of its query, and of the queries around it."""
    found: dict[str, exp.Table] = {}
    query = column.parent_select
    while query is not None:
        for table in query.find_all(exp.Table):
            if table.parent_select is query:
                found.setdefault(table.alias_or_name.lower(), table)
        query = query.parent_select
    return found


def as_changed(table: exp.Table) -> exp.Table:
    """A copy of the table that a statement changes, which a query reads with what says which stored row a row is.

    These are the places of rows in the files of a table without key, and the stored strings of CHAR columns.
    """
    made = table.copy()
    made.meta[_CHANGED] = True
    return made


def is_changed(table: exp.Table) -> bool:
    """Whether a table is read so."""
    return bool(table.meta.get(_CHANGED))


def is_of_query(table: exp.Table) -> bool:
    """Whether a name is that of a common table expression which the table sees.

    A common table expression sees those before it, and itself only if it is recursive.
    """
    if table.db or is_changed(table):
        return False
    below: exp.Expr = table
    above = table.parent
    while above is not None:
        seen: list[exp.Expr] = []
        if isinstance(above, exp.With):
            before = [one is below for one in above.expressions].index(True)
            seen = above.expressions[: before + bool(above.args.get("recursive"))]
        elif isinstance(with_ := above.args.get("with_"), exp.With) and with_ is not below:
            seen = with_.expressions
        if any(one.alias.lower() == table.name.lower() for one in seen):
            return True
        below, above = above, above.parent
    return False


def check_cases(names: Sequence[str], table: str) -> None:
    """Raise UnsupportedError for columns that DuckDB cannot tell apart."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise UnsupportedError(
                f"{table} has the columns {other!r} and {name!r}, whose names differ in case alone: SQL without Spark "
                "does not read it; read it with Table.to_arrow, or rename one with ALTER TABLE ... RENAME COLUMN"
            )


def around(table: exp.Table) -> dict[str, Any]:
    """What stands around the name of a table, such as its joins."""
    kept = ("joins", "laterals", "pivots", "sample")
    return {key: value for key in kept if (value := table.args.get(key))}


def replace_function(table: exp.Table) -> None:
    """A table function; `range` has a column `id`, as in Spark. Raises NotFoundError for one that reads files."""
    function = table.this
    name = function.name if isinstance(function, exp.Anonymous) else type(function).__name__
    if name.lower() == "range":
        rows = exp.select(exp.alias_(exp.column("range", quoted=True), "id")).from_(exp.Table(this=function.copy()))
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier("range"))
        table.replace(exp.Subquery(this=rows, alias=alias.copy(), **around(table)))
    elif isinstance(function, exp.Func) and name.upper() not in _TABLE_FUNCTIONS:
        raise NotFoundError(f"there is no table function {shown(name)}; a query reads tables")
