"""DELETE, UPDATE, MERGE and TRUNCATE: DuckDB computes the rows, statements of a table commit them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from lakelog.catalog.logs.statements import run_statement
from lakelog.catalog.tables.row_actions import (
    ACTION,
    DELETE,
    NEW,
    OLD,
    ROW,
    UPDATE,
    changes_of_actions,
    member,
    named_values,
)
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.schema import PLACE_NAMES
from lakelog.filestore.write import check_replaceable, is_by_place
from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.sql.language.names import FoundName, SqlNames
from lakelog.sql.queries.reading import QueryTables
from lakelog.sql.queries.recording import recording
from lakelog.sql.queries.selects import check_single, joins_with, named, query_with
from lakelog.sql.queries.table_words import as_changed, shorten_names
from lakelog.sql.statements.default_values import with_defaults
from lakelog.sql.statements.fitting import fitted_column
from lakelog.sql.statements.merging import merge_query, numbered_rows
from lakelog.sql.statements.partitions import partition_where
from lakelog.sql.statements.written_fields import fields_of_changes

if TYPE_CHECKING:
    from lakelog.catalog import Table
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.write import StatementChanges

WHAT = "what"  # of a MERGE that stands for another statement: that one in errors


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStatement:
    """An UPDATE, DELETE or MERGE: a query for the rows that change, see `row_actions`. `what` is its name in errors.

    `tables` has opened the tables of the query. Others than the changed one are read at these snapshots, which the
    commit records, however often the statement is computed.
    """

    found: FoundName
    operation: str
    query: exp.Expr
    tables: QueryTables
    fields: PlanFields
    what: str

    def run(self) -> None:
        """Compute the changes and commit them."""
        table = recording(self.tables, self.found.table, self.fields, without=self.found)

        def compute(base: Snapshot | None) -> StatementChanges:
            tables = QueryTables(names=self.tables.names, bases={**self.tables.newest, str(self.found): base})
            return changes_of_actions(
                table.store, _fitted_new(table, tables.run(self.query), self.what), what=self.what
            )

        run_statement(table, self.operation, compute)


def delete(names: SqlNames, statement: exp.Expr) -> None:
    """DELETE FROM."""
    if takes_all(statement):
        names.found(statement.this).table.truncate()
        return
    row_statement(QueryTables(names=names), statement).run()


def takes_all(statement: exp.Expr) -> bool:
    """Whether a DELETE deletes each row: one with USING deletes none where its source has no rows."""
    return statement.args.get("where") is None and not statement.args.get("using")


def change_rows(names: SqlNames, statement: exp.Expr) -> None:
    """UPDATE SET, and MERGE INTO. Raises InvalidRequestError for a column of the primary key."""
    row_statement(QueryTables(names=names), statement).run()


def row_statement(tables: QueryTables, statement: exp.Expr) -> RowStatement:
    """The parts of an UPDATE, DELETE or MERGE, whose tables are opened in `tables`. Raises InvalidRequestError."""
    found = tables.names.found(statement.this)
    shorten_names(statement)
    match statement:
        case exp.Merge():
            made = _merge(tables, found, statement)
        case exp.Update():
            made = _update(tables, found, statement)
        case _:
            made = _of_rows(tables, found, statement, {}, "DELETE")
    tables.prepared(made.query)
    return made


def _update(tables: QueryTables, found: FoundName, statement: exp.Expr) -> RowStatement:
    check_replaceable(found.table.store, "an update")
    keys = found.table.schema.primary_keys
    values = assigned(found.table, statement.expressions, f"UPDATE {found}", keys=keys)
    return _of_rows(tables, found, statement, values, "UPDATE")


def _merge(tables: QueryTables, found: FoundName, statement: exp.Expr) -> RowStatement:
    _equate_columns(statement)
    check_replaceable(found.table.store, "a merge")
    what = statement.meta.get(WHAT, f"MERGE INTO {found}")
    if statement.args.get("on") is None:
        raise InvalidRequestError(f"{what} has no condition: expected ON, or USING (column, ...), behind the source")
    query = merge_query(found.table, tables, statement, what)
    fields = fields_of_changes(tables.names, statement, _columns_given(tables))
    return RowStatement(found=found, operation="MERGE", query=query, tables=tables, fields=fields, what=what)


def _equate_columns(statement: exp.Expr) -> None:
    """MERGE ... USING source USING (column, ...): ON with equal columns of this name."""
    own, other = (exp.to_identifier(statement.args[side].alias_or_name, quoted=True) for side in ("this", "using"))
    names = statement.args.get("using_cond") or ()
    if names:
        pairs = [
            exp.EQ(
                this=exp.Column(this=name.copy(), table=own.copy()),
                expression=exp.Column(this=name.copy(), table=other.copy()),
            )
            for name in names
        ]
        statement.set("on", exp.and_(*pairs))


def truncate(names: SqlNames, statement: exp.Expr) -> None:
    """TRUNCATE TABLE."""
    partition = statement.args.get("partition")
    for table in statement.expressions:
        found = names.found(table).table
        if partition is None:
            found.truncate()
        else:
            found.upkeep.drop_partitions(partition_where(found, partition))


def assigned(table: Table, assignments: list[exp.Expr], what: str, *, keys: tuple[str, ...]) -> dict[str, exp.Expr]:
    """{column: value} of SET. Raises InvalidRequestError."""
    found: dict[str, exp.Expr] = {}
    for one in assignments:
        name = one.this.name
        if name.lower() in {given.lower() for given in found}:
            raise InvalidRequestError(f"{what} gives column {name!r} two values")
        above = one.this.args.get("table")
        if above is not None and above.name.lower() in {field.name.lower() for field in table.schema.fields}:
            raise UnsupportedError(f"{what} sets {above.name}.{name}: set the whole column {above.name!r}")
        check_single(one.expression, what)
        found[name] = one.expression
    fields = table.schema.fields
    return with_defaults(fields, named_values(fields, found, keys=keys, what=what))


def _query_of_rows(table: Table, statement: exp.Expr, values: dict[str, exp.Expr]) -> exp.Select:
    """The query for the rows that an UPDATE or DELETE changes, with their old values, or places, and new values."""
    target, where = statement.this, statement.args.get("where")
    is_placed = is_by_place(table.store)
    alias = target.args.get("alias")
    shown = exp.to_identifier(alias.name if alias is not None else target.name, quoted=True)
    chosen: list[exp.Expr] = [exp.alias_(exp.Literal.string(UPDATE if values else DELETE), ACTION)]
    for at, field in enumerate(table.schema.fields):
        column = exp.Column(this=exp.to_identifier(field.name, quoted=True), table=shown.copy())
        if not is_placed:
            chosen.append(exp.alias_(column, member(OLD, at)))
        if values:
            chosen.append(named(values.get(field.name, column).copy(), member(NEW, at)))
    if is_placed:
        chosen += [exp.Column(this=exp.to_identifier(name), table=shown.copy()) for name in PLACE_NAMES]
    joins = joins_with(statement)
    if not joins:
        query = exp.Select(expressions=chosen).from_(as_changed(target))
    else:
        query = exp.Select(expressions=[*chosen, exp.Column(this=exp.to_identifier(ROW), table=shown.copy())])
        query = query.from_(numbered_rows(target).subquery(shown.copy()))
        query.set("joins", joins)
    if where is not None:
        query.set("where", where.copy())
    return query_with(statement, query)


def _of_rows(
    tables: QueryTables, found: FoundName, statement: exp.Expr, values: dict[str, exp.Expr], operation: str
) -> RowStatement:
    return RowStatement(
        found=found,
        operation=operation,
        query=_query_of_rows(found.table, statement, values),
        tables=tables,
        fields=fields_of_changes(tables.names, statement, _columns_given(tables)),
        what=f"UPDATE {found}" if operation == "UPDATE" else f"DELETE FROM {found}",
    )


def _columns_given(tables: QueryTables) -> dict[str, list[str]]:
    return {name: rows.column_names for name, rows in tables.given.items()}


def _fitted_new(table: Table, rows: pa.Table, what: str) -> pa.Table:
    """The rows, whose new values have the types of the table."""
    for at, field in enumerate(table.schema.arrow_schema):
        for side in (OLD, NEW):
            name = member(side, at)
            if name in rows.column_names:
                place = rows.column_names.index(name)
                rows = rows.set_column(place, name, fitted_column(rows[name], field, what))
    return rows
