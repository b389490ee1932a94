"""MERGE: rows of a source are matched with those of a table, and the clauses say what happens to each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.common.types import ROW_KIND_COLUMN, DataField
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.row_places import without_places
from lakelog.filestore.write.changing import (
    ChangePlan,
    StatementChanges,
    check_replaceable,
    rows_of,
)
from lakelog.filestore.write.columns import names_of
from lakelog.filestore.write.merge_clauses import MergeAction, MergeClause, MergeClauses, MergedRows, row_frame
from lakelog.filestore.write.row_expressions import evaluated, with_values
from lakelog.filestore.write.row_input import RowInput
from lakelog.filestore.write.validate import converted, validate_rows

_TARGET_ROW, _SOURCE_ROW = "target row", "source row"
_NO_CLAUSE = -1


def merge_plan(
    table: TableStore,
    source: RowInput,
    on: Sequence[str],
    clauses: MergeClauses,
    *,
    buckets: Set[int] | None = None,
) -> ChangePlan:
    """A merge of a source. The source and the table's rows, those of `buckets` or all, are held in memory.

    Rows match where their columns `on` are equal; a null equals nothing. Raises InvalidRequestError for columns,
    conditions and values that do not fit, for a row of the table that several source rows change, and UnsupportedError
    for tables in which rows cannot be replaced.
    """
    check_replaceable(table, "a merge")
    if not clauses.clauses:
        raise InvalidRequestError(f"the merge into table {table.name} does nothing: name at least one when_... clause")
    for clause in clauses.clauses:
        clause.check(table)
    rows = source.table if source.table is not None else pa.Table.from_batches(list(source.batches()), source.schema)
    run = _Merge(table=table, given=_given(table, rows, on, clauses), match=_match_fields(table, on), clauses=clauses)
    return lambda base: run.changes(rows_of(table, base, buckets=buckets))


@dataclass(frozen=True, kw_only=True)
class _Given:
    """The rows of a source: unchanged for expressions, and the columns that the table has, in its types."""

    all: pa.Table
    own: pa.Table

    def take(self, places: pa.Array | pa.ChunkedArray) -> _Given:
        """The rows at these places."""
        return _Given(all=self.all.take(places), own=self.own.take(places))


@dataclass(frozen=True, kw_only=True)
class _Merge:
    """A merge of given rows, computed on the rows of a table."""

    table: TableStore
    given: _Given
    match: Sequence[DataField]
    clauses: MergeClauses

    def changes(self, target: pa.Table) -> StatementChanges:
        """The changes that the clauses make for the rows of the table and the source."""
        of_target = key_frame(target, self.match).with_row_index(_TARGET_ROW)
        of_given = key_frame(self.given.own, self.match).with_row_index(_SOURCE_ROW)
        pairs = of_target.join(of_given, on=of_given.columns[1:], how="inner").sort(_TARGET_ROW, _SOURCE_ROW)
        by_source = target.take(_places(_absent(target.num_rows, pairs[_TARGET_ROW])))
        not_matched = self.given.take(_places(_absent(self.given.own.num_rows, pairs[_SOURCE_ROW])))
        empty = target.slice(0, 0)
        nothing = StatementChanges.deletion(self.table, empty)
        return StatementChanges.joined(
            [nothing, *self._matched(target, pairs), *self._by_source(by_source), *self._new(not_matched)]
        )

    def _matched(self, target: pa.Table, pairs: pl.DataFrame) -> Iterator[StatementChanges]:
        clauses = self.clauses.of(MergedRows.MATCHED)
        if not clauses:
            return
        old, given = target.take(pairs[_TARGET_ROW].to_arrow()), self.given.take(pairs[_SOURCE_ROW].to_arrow())
        chosen = _chosen(self.table, clauses, old, given.all)
        self._check_once(pairs, clauses, chosen)
        for number, clause in enumerate(clauses):
            is_first = pairs[_TARGET_ROW].is_first_distinct()  # several source rows that delete one row have one effect
            places = _places((chosen == number) & (is_first | (clause.action is not MergeAction.DELETE)))
            yield self._changed(clause, old.take(places), given.take(places))

    def _by_source(self, old: pa.Table) -> Iterator[StatementChanges]:
        clauses = self.clauses.of(MergedRows.NOT_MATCHED_BY_SOURCE)
        chosen = _chosen(self.table, clauses, old, None)
        for number, clause in enumerate(clauses):
            yield self._changed(clause, old.take(_places(chosen == number)), None)

    def _new(self, given: _Given) -> Iterator[StatementChanges]:
        clauses = self.clauses.of(MergedRows.NOT_MATCHED)
        chosen = _chosen(self.table, clauses, None, given.all)
        schema = self.table.schema
        for number, clause in enumerate(clauses):
            taken = given.take(_places(chosen == number))
            new = taken.own
            if clause.values is not None:
                nulls = {field.name: pa.nulls(new.num_rows, field.type) for field in schema.arrow_schema}
                new = self._with_values(clause, pa.table(nulls), row_frame(None, taken.all))
            rows = validate_rows(schema, new, table_name=self.table.name)
            yield StatementChanges.insertion(rows)

    def _changed(self, clause: MergeClause, old: pa.Table, given: _Given | None) -> StatementChanges:
        """Rows of the table that a clause deletes or updates."""
        if clause.action is MergeAction.DELETE:
            return StatementChanges.deletion(self.table, old)
        if clause.values is not None:
            frame = row_frame(old, None if given is None else given.all)
            return StatementChanges.replacement(self.table, old, self._with_values(clause, old, frame))
        assert given is not None, "a clause without values is for rows that a source row matches"
        new = without_places(old)
        for name in given.own.column_names:
            if name not in self.table.schema.primary_keys:
                new = new.set_column(new.column_names.index(name), name, given.own.column(name))
        return StatementChanges.replacement(
            self.table, old, validate_rows(self.table.schema, new, table_name=self.table.name)
        )

    def _with_values(self, clause: MergeClause, rows: pa.Table, frame: pl.DataFrame) -> pa.Table:
        what = f"the clause {clause} of a merge"
        return with_values(self.table, rows, clause.named(self.table), frame=frame, what=what)

    def _check_once(self, pairs: pl.DataFrame, clauses: Sequence[MergeClause], chosen: pl.Series) -> None:
        """Raise InvalidRequestError if several source rows change one row: it is not known which counts."""
        deleting_ones = [number for number, clause in enumerate(clauses) if clause.action is MergeAction.DELETE]
        changing = pairs.with_columns(deletes=chosen.is_in(deleting_ones)).filter(chosen != _NO_CLAUSE)
        is_repeated = changing[_TARGET_ROW].is_duplicated()
        wrong = changing.filter(is_repeated).filter(~pl.col("deletes").all().over(_TARGET_ROW))
        if wrong.is_empty():
            return
        first = int(wrong[_SOURCE_ROW][0])
        values = {field.name: self.given.own.column(field.name)[first].as_py() for field in self.match}
        shown = listed(f"{name}={value!r}" for name, value in values.items())
        raise InvalidRequestError(
            f"several rows of the merge match one row of table {self.table.name}, the first with {shown}: leave one of "
            "them"
        )


def _chosen(
    table: TableStore, clauses: Sequence[MergeClause], old: pa.Table | None, source: pa.Table | None
) -> pl.Series:
    """For each row the number of the first clause whose condition holds."""
    rows = old if old is not None else source
    assert rows is not None
    found = pl.repeat(_NO_CLAUSE, rows.num_rows, dtype=pl.Int32, eager=True)
    for number, clause in enumerate(clauses):
        holds = clause.holds(table, old, source)
        is_free = found == _NO_CLAUSE
        found = found.set(is_free if holds is None else is_free & holds, number)
    return found


def _match_fields(table: TableStore, on: Sequence[str]) -> list[DataField]:
    column_of = names_of(table.schema)
    columns = [(name, column_of(name)) for name in on]
    unknown = [name for name, column in columns if column is None]
    if unknown or not columns:
        raise InvalidRequestError(
            f"a merge into table {table.name} matches rows by the column(s) {listed(unknown) or 'none'}; it has "
            f"{listed(table.schema.field_names)}"
        )
    return [table.schema.field(str(column)) for _, column in columns]


def _given(table: TableStore, rows: pa.Table, on: Sequence[str], clauses: MergeClauses) -> _Given:
    """The rows of a source, which may have more columns than the table, for expressions that name them.

    Raises InvalidRequestError.
    """
    column_of = names_of(table.schema)
    if ROW_KIND_COLUMN in rows.column_names:
        raise InvalidRequestError(
            f"the rows of a merge have a column {ROW_KIND_COLUMN!r}: clauses say what happens to rows"
        )
    named = {name: column for name in rows.column_names if (column := column_of(name)) is not None}
    unknown = [name for name in rows.column_names if name not in named and not _is_used(table, rows, name, clauses)]
    if unknown or len(set(named.values())) < len(named):
        raise InvalidRequestError(
            f"the rows of a merge have column(s) {listed(unknown or named)}, expected columns of table {table.name}, "
            f"each once: {listed(table.schema.field_names)}; others only where a condition or a value names them"
        )
    missing = [field.name for field in _match_fields(table, on) if field.name not in named.values()]
    if missing:
        raise InvalidRequestError(f"the rows of a merge lack column(s) {listed(missing)}, by which rows are matched")
    taken = {column: rows.column(name) for name, column in named.items()}
    fields = [field for field in table.schema.fields if field.name in taken]
    own = {field.name: converted(taken[field.name], field, table.name) for field in fields}
    others = {name: rows.column(name) for name in rows.column_names if name not in named}
    return _Given(all=pa.table({**own, **others}), own=pa.table(own))


def _is_used(table: TableStore, rows: pa.Table, column: str, clauses: MergeClauses) -> bool:
    """Whether an expression needs a column of the source: it fails without the column, but not with all columns."""
    target, source = table.schema.arrow_schema.empty_table(), rows.slice(0, 0)
    for clause in clauses.clauses:
        old = None if clause.of is MergedRows.NOT_MATCHED else target
        if clause.of is MergedRows.NOT_MATCHED_BY_SOURCE:
            continue
        for expression in clause.expressions:
            evaluated(row_frame(old, source), expression, f"the clause {clause} of a merge into table {table.name}")
            try:
                evaluated(row_frame(old, source.drop_columns([column])), expression, "")
            except InvalidRequestError:
                return True
    return False


def _absent(count: int, places: pl.Series) -> pl.Series:
    """For each of `count` places whether it is not among these."""
    return ~pl.int_range(count, dtype=pl.UInt32, eager=True).is_in(places.cast(pl.UInt32).implode())


def _places(is_chosen: pl.Series) -> pa.Array:
    return is_chosen.arg_true().to_arrow()
