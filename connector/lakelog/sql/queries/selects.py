"""Queries that statements put together."""

from __future__ import annotations

from typing import TypeVar

from sqlglot import exp

from lakelog.sql.language.spans import rebuilt

QueryT = TypeVar("QueryT", bound=exp.Expr)


def query_with(statement: exp.Expr, query: QueryT) -> QueryT:
    """The query, which has the WITH of a statement."""
    if statement.args.get("with_") is not None:
        rebuilt(query).set("with_", statement.args["with_"].copy())
    return query


def joins_with(statement: exp.Expr) -> list[exp.Join]:
    """The joins with what an UPDATE ... FROM or a DELETE ... USING reads beside the table that it changes."""
    begun = statement.args.get("from_")
    others = [*(statement.args.get("using") or ()), *([] if begun is None else [begun.this])]
    return [exp.Join(this=one.copy()) for one in others]


def no_rows(query: exp.Expr) -> exp.Select:
    """A query for the columns of a query."""
    made = query.copy()
    alias = exp.TableAlias(this=exp.to_identifier("given"))
    if isinstance(made, exp.Values):
        made.set("alias", alias)
        return exp.select(exp.Star()).from_(made).limit(0)
    return exp.select(exp.Star()).from_(exp.Subquery(this=made, alias=alias)).limit(0)


def named(value: exp.Expr, name: str) -> exp.Alias:
    """A value as a column of a query; a query as a value keeps its own words."""
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))
