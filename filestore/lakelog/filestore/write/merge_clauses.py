"""The clauses of a MERGE: what happens to the rows of a table and of a source, which match or not.

For each row the first clause counts whose condition holds, as in Spark SQL and Delta.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl
import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.predicate import Predicate, RowTest, check_filter
from lakelog.filestore.schema.row_places import without_places
from lakelog.filestore.write.row_expressions import evaluated, named_columns

TARGET, SOURCE = "target", "source"  # in expressions: the row of the table, and that of the source


class MergedRows(StrEnum):
    """The rows to which a clause applies: of both that match, or of one side without a match."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class MergeAction(StrEnum):
    """What happens to these rows: rows of the table are updated or deleted, rows of the source are inserted."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """One clause. `values` are {column: value}, as in an update; None takes all columns of the source.

    `condition` is a polars expression over `source` and `target`, or a filter of the table's rows; None always holds.
    """

    of: MergedRows
    action: MergeAction
    values: Mapping[str, object] | None = None
    condition: pl.Expr | Predicate | None = None

    def check(self, table: TableStore) -> None:
        """Raise InvalidRequestError for columns that the table lacks, and for an update of its primary key."""
        if isinstance(self.condition, Predicate):
            check_filter(self.condition, table.schema.fields)
        if self.values is not None:
            self.named(table)

    def named(self, table: TableStore) -> dict[str, object]:
        """The values by the table's names of columns. Raises InvalidRequestError."""
        assert self.values is not None
        is_new = self.action is MergeAction.INSERT
        return named_columns(table, self.values, f"the clause {self}", takes_keys=is_new)

    @property
    def expressions(self) -> Iterator[pl.Expr]:
        """The expressions of the clause."""
        values = () if self.values is None else self.values.values()
        yield from (one for one in (self.condition, *values) if isinstance(one, pl.Expr))

    def holds(self, table: TableStore, old: pa.Table | None, source: pa.Table | None) -> pl.Series | None:
        """For each row whether the condition holds, False if it is null; None always holds."""
        if isinstance(self.condition, Predicate):
            assert old is not None, "a filter is of rows of the table"
            return pl.Series(RowTest(self.condition, table.schema.fields).passing(old), dtype=pl.Boolean)
        if self.condition is None:
            return None
        what = f"the clause {self} of a merge into table {table.name}"
        found = evaluated(row_frame(old, source), self.condition, what)
        if found.dtype != pl.Boolean:
            raise InvalidRequestError(f"the condition of {what} is of type {found.dtype}, expected a Boolean")
        return found.fill_null(value=False)

    def __str__(self) -> str:
        return f"'when {self.of.value} {self.action.value}'"


@dataclass(frozen=True, slots=True)
class MergeClauses:
    """What a merge does, clause by clause in order."""

    clauses: Sequence[MergeClause] = ()

    def __add__(self, clause: MergeClause) -> MergeClauses:
        """With one more clause. Raises InvalidRequestError for a clause that no row can reach."""
        last = next((one for one in reversed(self.clauses) if one.of is clause.of), None)
        if last is not None and last.condition is None:
            raise InvalidRequestError(
                f"the clause {clause} comes after {last} without a condition, which applies to all such rows: give "
                "the earlier one a condition with where=, or leave one of the two"
            )
        return MergeClauses((*self.clauses, clause))

    def of(self, which: MergedRows) -> list[MergeClause]:
        """The clauses for some rows, in order."""
        return [one for one in self.clauses if one.of is which]


def row_frame(old: pa.Table | None, source: pa.Table | None) -> pl.DataFrame:
    """Rows for expressions: each has the struct `target`, the row of the table, and the struct `source`.

    Rows of the table without a source row also have its columns themselves, as in an update.
    """
    old = None if old is None else without_places(old)
    found = [pl.DataFrame(rows).to_struct(name) for rows, name in ((old, TARGET), (source, SOURCE)) if rows is not None]
    frame = pl.DataFrame(found)
    if source is not None or old is None:
        return frame
    return frame.hstack([one for one in pl.DataFrame(old).get_columns() if one.name != TARGET])
