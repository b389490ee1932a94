"""MERGE: rows of a source are matched with those of a table; what happens to each is chosen by clauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.common.types import ROW_KIND_COLUMN, DataField, RowKind
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.predicate import Predicate, RowTest, check_filter
from lakelog.filestore.write.changing import (
    Changes,
    Plan,
    check_replaceable,
    deleting,
    joined,
    kinds_of,
    replacing,
    rows_of,
)
from lakelog.filestore.write.columns import names_of
from lakelog.filestore.write.row_source import RowInput
from lakelog.filestore.write.validate import converted, validate_rows

_TARGET, _SOURCE = "target", "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClauses:
    """What a merge does: with rows of the table that a source row matches, with source rows without a match, and with
    rows of the table without one. At most one of the first two.
    """

    updates_matched: bool = False
    deletes_matched: bool = False
    inserts_not_matched: bool = False
    deletes_not_matched_by_source: bool = False
    by_source_where: Predicate | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing would happen."""
        return not (
            self.updates_matched
            or self.deletes_matched
            or self.inserts_not_matched
            or self.deletes_not_matched_by_source
        )


def merge_plan(table: TableStore, source: RowInput, on: Sequence[str], clauses: MergeClauses) -> Plan:
    """A merge of a source, which is held in memory, as are the table's rows.

    Rows match where their columns `on` are equal; a null equals nothing. Raises InvalidRequestError for columns that do
    not fit, for a row of the table that several source rows match, and UnsupportedError for tables whose rows nothing
    replaces.
    """
    check_replaceable(table, "a merge")
    if clauses.is_empty:
        raise InvalidRequestError(f"the merge into table {table.name} does nothing: name at least one when_... clause")
    if clauses.by_source_where is not None:
        check_filter(clauses.by_source_where, table.schema.fields)
    fields = _match_fields(table, on)
    given = _given(table, source, fields)

    def plan(base: Snapshot | None) -> Changes:
        target = rows_of(table, base)
        return _changes(table, target, given, fields, clauses)

    return plan


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


def _given(table: TableStore, source: RowInput, fields: Sequence[DataField]) -> pa.Table:
    """The source's rows: those columns of the table that it has, in its types. Raises InvalidRequestError."""
    rows = source.table if source.table is not None else pa.Table.from_batches(list(source.batches()), source.schema)
    column_of = names_of(table.schema)
    named = {name: column_of(name) for name in rows.column_names}
    unknown = [name for name, column in named.items() if column is None]
    if ROW_KIND_COLUMN in unknown:
        raise InvalidRequestError(
            f"the rows of a merge have a column {ROW_KIND_COLUMN!r}: clauses say what happens to rows"
        )
    if unknown or len(set(named.values())) < len(named):
        raise InvalidRequestError(
            f"the rows of a merge have column(s) {listed(unknown or named)}, expected columns of table {table.name}, "
            "each "
            f"once: {listed(table.schema.field_names)}"
        )
    missing = [field.name for field in fields if field.name not in named.values()]
    if missing:
        raise InvalidRequestError(f"the rows of a merge lack column(s) {listed(missing)}, by which rows are matched")
    taken = {str(column): rows.column(name) for name, column in named.items()}
    names = [field for field in table.schema.fields if field.name in taken]
    return pa.table({field.name: converted(taken[field.name], field, table.name) for field in names})


def _changes(
    table: TableStore, target: pa.Table, given: pa.Table, fields: Sequence[DataField], clauses: MergeClauses
) -> Changes:
    of_target = key_frame(target, fields).with_row_index(_TARGET)
    of_given = key_frame(given, fields).with_row_index(_SOURCE)
    names = of_given.columns[1:]
    found = of_target.join(of_given, on=names, how="inner").sort(_TARGET)
    matched, by = found[_TARGET].to_arrow(), found[_SOURCE].to_arrow()
    parts: list[Changes] = []
    if clauses.updates_matched or clauses.deletes_matched:
        _check_once(table, given, found, fields)
        old = target.take(matched)
        if clauses.deletes_matched:
            parts.append(deleting(table, old))
        else:
            parts.append(replacing(table, old, _updated(table, old, given.take(by))))
    if clauses.deletes_not_matched_by_source:
        left = target.filter(_absent(target.num_rows, matched))
        if clauses.by_source_where is not None:
            left = left.filter(RowTest(clauses.by_source_where, table.schema.fields).passing(left))
        parts.append(deleting(table, left))
    if clauses.inserts_not_matched:
        new = validate_rows(table.schema, given.filter(_absent(given.num_rows, by)), table_name=table.name)
        parts.append(Changes(rows=new, kinds=kinds_of(new, RowKind.INSERT), removed=new.slice(0, 0)))
    return joined(parts)


def _updated(table: TableStore, old: pa.Table, given: pa.Table) -> pa.Table:
    """The old rows with the values of the given ones in the columns that these have, but for the primary key."""
    new = old
    for name in given.column_names:
        if name not in table.schema.primary_keys:
            new = new.set_column(new.column_names.index(name), name, given.column(name))
    return validate_rows(table.schema, new, table_name=table.name)


def _absent(count: int, places: pa.Array) -> pa.Array:
    """For each of so many places whether it is not among these."""
    return (
        ~pl.int_range(count, dtype=pl.UInt32, eager=True).is_in(pl.Series(places).cast(pl.UInt32).implode())
    ).to_arrow()


def _check_once(table: TableStore, given: pa.Table, found: pl.DataFrame, fields: Sequence[DataField]) -> None:
    """Raise InvalidRequestError when several source rows match one row of the table: which counts is not known."""
    is_repeated = found[_TARGET].is_duplicated()
    if is_repeated.any():
        first = int(found.filter(is_repeated)[_SOURCE][0])
        values = {field.name: given.column(field.name)[first].as_py() for field in fields}
        shown = listed(f"{name}={value!r}" for name, value in values.items())
        raise InvalidRequestError(
            f"several rows of the merge match one row of table {table.name}, the first with {shown}: leave one of them"
        )
