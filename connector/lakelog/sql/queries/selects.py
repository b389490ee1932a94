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


def named(value: exp.Expr, name: str) -> exp.Alias:
    """A value as a column of a query; a query as a value keeps its own words."""
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))
