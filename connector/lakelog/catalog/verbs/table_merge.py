"""A merge of rows into a table, clause by clause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakelog.catalog.logs.statements import run_statement
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import shown

if TYPE_CHECKING:
    import polars as pl

    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.predicate import Predicate
    from lakelog.filestore.write import MergeClauses, RowInput
    from lakelog.lineage.columns.plans.plan_fields import PlanFields
    from lakelog.warehouse.handle import TableHandle


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMerge:
    """A merge of rows into a table: clauses say what happens, `execute` runs it, in one snapshot.

    Each call returns a merge with one more clause. Of several clauses for a row, the first whose condition holds
    applies; null counts as false. In conditions and values the row of the source is `source`, that of the table
    `target`. A condition is SQL, `"source.price < target.price"`, or a polars expression; a value is plain, or a polars
    expression such as `pl.sql_expr("source.price * 2")`. Both may name columns that the table lacks. See `Table.merge`.

        counted = pl.DataFrame({"id": [1, 2], "pieces": [5, 0]})
        merge = stock.merge(counted).when_matched_delete("source.pieces = 0")
        merge.when_matched_update_all().when_not_matched_insert_all("source.pieces > 0").execute()

    Source: Delta, `DeltaTable.merge`; Spark SQL, `MERGE INTO`.
    """

    _table: TableHandle
    _source: RowInput = field(repr=False)
    _on: Sequence[str]
    _clauses: MergeClauses
    _fields: PlanFields | None = None  # what the columns of the source are made from, if a plan shows it
    _zone: str = "UTC"  # of times without one in conditions on rows of the table

    def when_matched_update(self, set: Mapping[str, object], where: str | pl.Expr | None = None) -> TableMerge:
        """Set columns of a table row that a source row matches: {column: value}."""
        return self._with("matched", "update", _condition(where), set)

    def when_matched_update_all(self, where: str | pl.Expr | None = None) -> TableMerge:
        """Give a table row the values of the source row that matches it, in the columns that the source has."""
        return self._with("matched", "update", _condition(where))

    def when_matched_delete(self, where: str | pl.Expr | None = None) -> TableMerge:
        """Delete a table row that a source row matches."""
        return self._with("matched", "delete", _condition(where))

    def when_not_matched_insert(self, set: Mapping[str, object], where: str | pl.Expr | None = None) -> TableMerge:
        """For a source row that matches no table row, insert a row with these values; other columns are null."""
        return self._with("not matched", "insert", _condition(where), set)

    def when_not_matched_insert_all(self, where: str | pl.Expr | None = None) -> TableMerge:
        """Insert a source row that matches no table row; columns that the source lacks are null."""
        return self._with("not matched", "insert", _condition(where))

    def when_not_matched_by_source_update(
        self, set: Mapping[str, object], where: str | Predicate | None = None
    ) -> TableMerge:
        """Set columns of a table row that no source row matches, as in `Table.update`."""
        return self._with("not matched by source", "update", self._filter(where), set)

    def when_not_matched_by_source_delete(self, where: str | Predicate | None = None) -> TableMerge:
        """Delete a table row that no source row matches; the condition is like that of `Table.delete`."""
        return self._with("not matched by source", "delete", self._filter(where))

    def execute(self) -> Snapshot | None:
        """Run the merge; None when it changes nothing.

        Raises InvalidRequestError for rows, conditions and values that do not fit, and for several source rows that
        change one row of the table.
        """
        from lakelog.filestore.write import merge_plan

        table = self._recorded()
        return run_statement(table, "MERGE", merge_plan(table.store, self._source, self._on, self._clauses))

    def _recorded(self) -> TableHandle:
        """A handle of the table whose commit records the lineage of the merge, if the handle records any."""
        if self._table.store.lineage is None:
            return self._table
        from lakelog.catalog.tables.merge_fields import recording_merge

        return recording_merge(self._table, self._fields, self._source.columns.names, self._on, self._clauses)

    def _following(self, fields: PlanFields) -> TableMerge:
        """A merge that records from which columns its rows were made."""
        return replace(self, _fields=fields)

    def _filter(self, where: str | Predicate | None) -> Predicate | None:
        from lakelog.filestore.predicate import predicate_of

        return predicate_of(where, zone=self._zone)

    def _with(
        self,
        of: str,
        action: str,
        condition: pl.Expr | Predicate | None,
        values: Mapping[str, object] | None = None,
    ) -> TableMerge:
        from lakelog.filestore.write import MergeAction, MergeClause, MergedRows

        clause = MergeClause(of=MergedRows(of), action=MergeAction(action), values=values, condition=condition)
        return replace(self, _clauses=self._clauses + clause)


def _condition(where: str | pl.Expr | None) -> pl.Expr | None:
    import polars as pl

    if where is None or isinstance(where, pl.Expr):
        return where
    if not isinstance(where, str):
        raise InvalidRequestError(
            f"where={shown(where)} is not a condition of a merge: expected SQL such as 'source.v > target.v', or a "
            "polars expression"
        )
    try:
        return pl.sql_expr(where)
    except pl.exceptions.PolarsError as error:
        raise InvalidRequestError(f"polars cannot parse the condition {shown(where)} of a merge: {error}") from error
