"""Row filters: parsed from SQL, turned into polars expressions, used to skip files and buckets.

Every function takes the filter as it was written and the table's columns, and raises InvalidRequestError for unknown
columns and for literals that do not fit their column.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataField
from lakelog.filestore.predicate.binding import Bound, bind, columns_of
from lakelog.filestore.predicate.polars_filter import expression_of
from lakelog.filestore.predicate.pruning import (
    Bounds,
    ColumnBounds,
    bounds_of_row,
    bounds_of_stats,
    equal_rows,
    may_hold,
    may_match,
)
from lakelog.filestore.predicate.sql import parse
from lakelog.filestore.predicate.tokens import Token, TokenKind, tokens_of
from lakelog.filestore.predicate.tree import (
    And,
    Compare,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    LiteralKind,
    Or,
    Predicate,
    columns,
    negated,
    sql_of,
)

__all__ = [
    "And",
    "Bound",
    "Bounds",
    "ColumnBounds",
    "Compare",
    "Comparison",
    "Constant",
    "In",
    "IsNull",
    "Like",
    "Literal",
    "LiteralKind",
    "Or",
    "Predicate",
    "RowTest",
    "Token",
    "TokenKind",
    "bind",
    "bounds_of_row",
    "bounds_of_stats",
    "check_filter",
    "columns",
    "equal_rows",
    "may_hold",
    "may_match",
    "negated",
    "parse_where",
    "predicate_of",
    "required_predicate",
    "resolved_columns",
    "sql_of",
    "to_polars",
    "tokens_of",
]


_CACHED_MAX = 10_000  # characters of a filter


def parse_where(sql: str, *, zone: str = "UTC") -> Predicate:
    """The filter of a condition. Raises InvalidRequestError, quoting the part that cannot be parsed.

    `zone` is the time zone of TIMESTAMP literals that are compared with TIMESTAMP_LTZ columns.
    """
    return _parsed(sql, zone) if len(sql) <= _CACHED_MAX else parse(sql, zone=zone)


def predicate_of(where: object, *, zone: str = "UTC", fields: Sequence[DataField] | None = None) -> Predicate | None:
    """The filter in a user's argument `where`, if there is one. Raises as `required_predicate`."""
    return None if where is None else required_predicate(where, zone=zone, fields=fields)


def required_predicate(where: object, *, zone: str = "UTC", fields: Sequence[DataField] | None = None) -> Predicate:
    """The filter in a user's argument `where`: SQL, with `zone` as in `parse_where`, or one that was parsed before.

    Raises InvalidRequestError as `parse_where`, for an argument of another type, and for a filter that does not fit
    `fields`.
    """
    if fields is not None:
        found = required_predicate(where, zone=zone)
        check_filter(found, fields)
        return found
    if isinstance(where, Predicate):
        return where
    if not isinstance(where, str):
        kind = type(where)
        raise InvalidRequestError(
            f'where takes a condition in SQL, such as "id > 5", found {kind.__module__}.{kind.__qualname__}'
        )
    return parse_where(where, zone=zone)


@functools.lru_cache(maxsize=1_024)
def _parsed(sql: str, zone: str) -> Predicate:
    return parse(sql, zone=zone)


def check_filter(predicate: Predicate, fields: Sequence[DataField]) -> None:
    """Raise InvalidRequestError if the filter does not fit the columns."""
    bind(predicate, fields)


def resolved_columns(predicate: Predicate, fields: Sequence[DataField]) -> list[DataField]:
    """The columns that the filter names, in the order of `fields`."""
    check_filter(predicate, fields)
    written = {name.lower() for name in columns(predicate)}
    return [field for field in fields if field.name.lower() in written]


def to_polars(predicate: Predicate, fields: Sequence[DataField]) -> pl.Expr:
    """The filter over polars frames made from Arrow; null where the result is unknown, which `filter` drops."""
    return expression_of(bind(predicate, fields))


class RowTest:
    """Tests whether rows pass a filter, for many pieces of rows: the filter is bound once."""

    def __init__(self, predicate: Predicate, fields: Sequence[DataField]) -> None:
        """The test of a filter, for rows with at least the columns that the filter reads."""
        self.bound = bind(predicate, fields)
        self.columns = columns_of(self.bound, fields)
        self._names = [field.name for field in self.columns]
        self._expression = expression_of(self.bound).fill_null(False)

    @classmethod
    def stored(cls, where: str, fields: Sequence[DataField]) -> RowTest:
        """The test of a filter that a table stores, also one of a release that took more.

        Raises InvalidRequestError.
        """
        return cls(parse(where, zone="UTC", is_stored=True), fields)

    def passing(self, rows: pa.Table) -> pa.Array:
        """For each row whether it passes; False where the filter is unknown."""
        frame = pl.from_arrow(rows.select(self._names or rows.column_names[:1]))
        assert isinstance(frame, pl.DataFrame)
        return frame.with_columns(passes=self._expression)["passes"].to_arrow()
