"""How the statements of `lakelog.sql` are written: what was read from a text as it is there, the rest by sqlglot."""

from __future__ import annotations

from typing import Any, ClassVar  # Any: sqlglot's arguments of expressions

from sqlglot import exp
from sqlglot.generator import Generator
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.generators.spark import SparkGenerator

from lakelog.sql.language.spans import written
from lakelog.sql.language.tolerance import Unread

LISTED = "list"  # the list of values that a parameter stands for, see `lakelog.sql.language.bounds`


class TableClauses(exp.Expression):
    """What a statement says behind the name of a table."""

    arg_types: ClassVar[dict[str, bool]] = {"version": False, "changes": False, "options": False}


class ChangesClause(exp.Expression):
    """A range of changes. `this` is VERSION or TIMESTAMP; `expression` is the first end, `to` the last one."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expression": True,
        "excludes_first": False,
        "to": False,
        "excludes_last": False,
    }


class WatermarkClause(exp.Expression):
    """WATERMARK FOR column AS expression."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


def _clauses_sql(self: DuckDBGenerator, given: TableClauses) -> str:
    version, changes, options = (given.args.get(name) for name in ("version", "changes", "options"))
    found = []
    if version is not None:
        found.append(f"{version.name} AS OF {self.sql(version, 'expression')}")
    if changes is not None:
        found.append(self.sql(changes))
    if options:
        found.append(f"WITH ({self.expressions(given, key='options', flat=True)})")
    return " ".join(found)


def _changes_sql(self: DuckDBGenerator, given: ChangesClause) -> str:
    text = f"CHANGES FROM {given.name} {self.sql(given, 'expression')}"
    if given.args["excludes_first"]:
        text += " EXCLUSIVE"
    if given.args.get("to") is not None:
        text += f" TO {given.name} {self.sql(given, 'to')}"
        if given.args["excludes_last"]:
            text += " EXCLUSIVE"
    return text


def _parameter_sql(self: DuckDBGenerator, given: exp.Placeholder) -> str:
    listed = given.meta.get(LISTED)
    return self.placeholder_sql(given) if listed is None else str(listed)


_WRITERS = {
    Unread: lambda _, given: given.name,
    exp.Placeholder: _parameter_sql,
    TableClauses: _clauses_sql,
    ChangesClause: _changes_sql,
    WatermarkClause: lambda self, given: f"WATERMARK FOR {self.sql(given, 'this')} AS {self.sql(given, 'expression')}",
}


class _AsRead(Generator):
    """Writes what was read from a text as it is there."""

    def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> str:
        given = expression.args.get(key) if key is not None and isinstance(expression, exp.Expr) else expression
        found = written(given) if isinstance(given, exp.Expr) else None
        return super().sql(expression, key, comment) if found is None else found


class QueryGenerator(_AsRead, DuckDBGenerator):
    TRANSFORMS: ClassVar[dict[Any, Any]] = {**DuckDBGenerator.TRANSFORMS, **_WRITERS}


class WholeGenerator(_AsRead, SparkGenerator):
    TRANSFORMS: ClassVar[dict[Any, Any]] = {**SparkGenerator.TRANSFORMS, **_WRITERS}
