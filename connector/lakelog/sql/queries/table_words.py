"""Tables and their columns as a query names them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lakelog.common.errors import UnsupportedError
from lakelog.sql.language.spans import Edit, name_span, note_edits, source_of, span_of

_LONG = 3
_CHANGED = "changed"
_BARE, _BARE_MAX = re.compile(r"\b(?:TABLE|SUMMARIZE|COPY)\s+\Z", re.IGNORECASE), 99  # these words take no alias
SCHEMA = ("main", "temp")  # of relations: a name without it may be that of a common table expression
_RELATION = re.compile(r'"temp"\.main\."((?:[^"]|"")+)"(?: AS ("(?:[^"]|"")+"|\w+))?')  # as DuckDB names columns


def shorten_names(query: exp.Expr) -> None:
    """Give the columns of a query or statement names that DuckDB knows: of `database.table.column` the last two."""
    for column in list(query.find_all(exp.Column)):
        if len(column.parts) >= _LONG:
            _shorten(column)


def _shorten(column: exp.Column) -> None:
    parts = column.parts
    names = [part.name.lower() for part in parts]
    tables = _tables_seen(column)
    for depth in (2, 1):
        table = tables.get(names[depth])
        if table is None or depth + 1 >= len(parts):
            continue
        if names[:depth] == [part.name.lower() for part in table.parts][-depth - 1 : -1]:
            made = exp.Column(this=parts[depth + 1].copy(), table=parts[depth].copy())
            place = name_span(column)
            if place is not None:
                note_edits(made, Edit(source_of(column), place[0], parts[depth].meta["start"], ""))
            fields = [part.copy() for part in parts[depth + 2 :]]
            column.replace(exp.Dot.build([made, *fields]) if fields else made)
            return


def _tables_seen(column: exp.Column) -> dict[str, exp.Table]:
    """The tables that a column may name, by their names there: of its query, of the queries and statement around it."""
    found: dict[str, exp.Table] = {}
    query = column.parent_select
    while True:
        for table in (query or column.root()).find_all(exp.Table):
            if table.parent_select is query:
                found.setdefault(table.alias_or_name.lower(), table)
        if query is None:
            return found
        query = query.parent_select


def as_changed(table: exp.Table) -> exp.Table:
    """A copy of the table that a statement changes, with the places of rows where it has no key."""
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


def as_typed(column: str, tables: Mapping[str, str]) -> str:
    """The name that DuckDB makes of an expression, with `tables`, as they were typed, in place of their relations."""

    def typed(found: re.Match[str]) -> str:
        table, alias = tables.get(found[1].replace('""', '"'), found[0]), found[2] or ""
        is_own = alias.strip('"') == table.rpartition(".")[2].strip('"`')
        return f"{table} AS {alias}" if alias and not is_own else table

    return _RELATION.sub(typed, column) if SCHEMA[1] in column else column


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
    kept = ("joins", "pivots", "sample")
    return {key: value for key in kept if (value := table.args.get(key))}


def note_names(table: exp.Table, made: exp.Expr, text: str, alias: str) -> None:
    """Note what stands in a text in place of the name of a table, and that its clauses do not."""
    place = name_span(table)
    if place is None:
        return
    clauses = [one for key in ("version", "when") if (one := table.args.get(key)) is not None]
    spans = [span for one in clauses if (span := span_of(one)) is not None]
    source = source_of(table)
    if not table.args.get("alias") and not _BARE.search(source.text, max(0, place[0] - _BARE_MAX), place[0]):
        text += f" AS {alias}"
    note_edits(made, Edit(source, *place, text), *(Edit(one.source, one.start, one.end, "") for one in spans))


@dataclass(frozen=True, slots=True)
class NamedState:
    """A state that a query names behind a table: by its time, or by its number or tag."""

    is_time: bool
    value: exp.Expr


def states_of(table: exp.Table) -> Iterator[NamedState]:
    """The states that clauses of a table name: VERSION AS OF, and AT (VERSION => ...). Raises UnsupportedError."""
    clauses, when = table.args.get("version"), table.args.get("when")
    version = None if clauses is None else clauses.args.get("version")
    if version is not None:
        yield NamedState(version.name == "TIMESTAMP", version.expression)
    if when is not None:
        if when.name != "AT" or when.args["kind"] not in ("VERSION", "TIMESTAMP"):
            raise UnsupportedError(f"{when.sql()}: expected AT (VERSION => ...) or AT (TIMESTAMP => ...)")
        yield NamedState(when.args["kind"] == "TIMESTAMP", when.expression)
