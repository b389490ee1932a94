"""Queries that statements put together."""

from __future__ import annotations

from sqlglot import exp

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import shown
from lakelog.sql.language.dialect import LakelogDialect

_SEVERAL = ("unnest", "generate_subscripts")  # functions that sqlglot does not know, and that give several rows


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


def check_single(given: exp.Expr, what: str) -> None:
    """Raise InvalidRequestError for a value or condition of a change that is none of its row alone, as DuckDB does."""
    for one in given.walk(prune=lambda part: isinstance(part, exp.Query)):
        is_several = isinstance(one, exp.Anonymous) and one.name.lower() in _SEVERAL
        if is_several or isinstance(one, exp.Window | exp.AggFunc | exp.Unnest | exp.Explode):
            raise InvalidRequestError(
                f"{what}: {shown(one.sql(dialect=LakelogDialect))} is computed from several rows, or gives several: "
                "compute it in a query, and join its rows with FROM or USING"
            )
