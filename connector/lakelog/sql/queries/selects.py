"""SELECT: run by DuckDB over the tables of a statement."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.names import SqlNames
from lakelog.sql.queries.reading import QueryTables


def run_query(names: SqlNames, query: exp.Expr) -> pa.Table:
    """The rows of a query."""
    return QueryTables(names=names).run(with_names(query))


QueryT = TypeVar("QueryT", bound=exp.Expr)


def query_with(statement: exp.Expr, query: QueryT) -> QueryT:
    """The query, which has the WITH of a statement."""
    if statement.args.get("with_") is not None:
        query.set("with_", statement.args["with_"].copy())
    return query


def with_names(query: exp.Expr) -> exp.Expr:
    """The query, whose columns without a name have that of their text, as in Spark."""
    made = query.copy()
    select = made
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    if isinstance(select, exp.Select):
        select.set("expressions", [_named(one) for one in select.expressions])
    return made


def _named(given: exp.Expr) -> exp.Expr:
    if isinstance(given, exp.Alias | exp.Column | exp.Star | exp.Aliases) or given.is_star:
        return given
    text = given.sql(dialect=LakelogDialect, normalize_functions="lower")
    return exp.alias_(given.copy(), text, quoted=True)
