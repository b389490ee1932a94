"""Queries that statements put together."""

from __future__ import annotations

from sqlglot import exp


def query_with(statement: exp.Expr, query: exp.Select) -> exp.Select:
    """The query, which was put together, with the WITH of its statement."""
    if statement.args.get("with_") is not None:
        query.set("with_", statement.args["with_"].copy())
    return query


def joins_with(statement: exp.Expr) -> list[exp.Join]:
    """The joins with what an UPDATE ... FROM or a DELETE ... USING reads beside the table that it changes."""
    begun = statement.args.get("from_")
    others = [*(statement.args.get("using") or ()), *([] if begun is None else [begun.this])]
    return [exp.Join(this=one.copy()) for one in others]


def rows_of(query: exp.Expr) -> exp.Select:
    """A query around a query, which keeps its own words."""
    made = query.copy()
    alias = exp.TableAlias(this=exp.to_identifier("given"))
    if isinstance(made, exp.Values):
        made.set("alias", alias)
        return exp.select(exp.Star()).from_(made)
    return exp.select(exp.Star()).from_(exp.Subquery(this=made, alias=alias))


def named(value: exp.Expr, name: str) -> exp.Alias:
    """A value as a column of a query; a query as a value keeps its own words."""
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))
