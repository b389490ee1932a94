"""EXPLAIN: the plan of a query, and what a statement would do with its rows. Nothing is changed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from lakelog.catalog.columns.written_ddl import type_ddl
from lakelog.catalog.tables.row_actions import ACTION, MARK, NEW, OLD, ROW, member
from lakelog.common.arrow import from_arrow_type
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import listed, shown
from lakelog.filestore.schema import PLACE_NAMES
from lakelog.filestore.write import is_by_place
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.names import FoundName, SqlNames
from lakelog.sql.language.parsing import parsed_one
from lakelog.sql.queries.plans import PlannedTables, files_of, plan_lines
from lakelog.sql.queries.selects import rows_of
from lakelog.sql.statements.created_tables import new_table
from lakelog.sql.statements.fitting import fitted
from lakelog.sql.statements.inserting import insert_statement
from lakelog.sql.statements.row_statements import RowStatement, row_statement, takes_all

if TYPE_CHECKING:
    from lakelog.catalog import Table

_KINDS = re.compile(r"(?:EXTENDED|FORMATTED|COST|PLAN\s+FOR)\s+", re.IGNORECASE)
_TITLES = {"UPDATE": "Update", "DELETE": "Delete from", "MERGE": "Merge into"}


def explain(names: SqlNames, text: str) -> pa.Table:
    """EXPLAIN of a query or of a statement that writes rows. Raises UnsupportedError for others."""
    kind = _KINDS.match(text)
    statement = parsed_one(text if kind is None else text[kind.end() :])
    match statement:
        case exp.Query() | exp.Values() | exp.Pivot():
            lines = plan_lines(PlannedTables(names=names), statement)
        case exp.Insert():
            lines = _insert(names, statement)
        case exp.Create() if statement.expression is not None and str(statement.args.get("kind")).upper() == "TABLE":
            lines = _create(names, statement)
        case exp.Delete() if takes_all(statement):
            lines = _truncate(names.found(statement.this))
        case exp.Update() | exp.Merge() | exp.Delete():
            lines = _rows(names, statement)
        case _:
            raise UnsupportedError(f"EXPLAIN {shown(text)}: expected a query, or a statement that writes rows")
    return pa.table({"plan": pa.array(lines, pa.string())})


def _insert(names: SqlNames, statement: exp.Expr) -> Iterator[str]:
    given, tables = insert_statement(names, statement), PlannedTables(names=names)
    rows = tables.run(rows_of(given.query).limit(0))
    fitted(  # raises for columns that do not fit
        given.table.schema,
        rows.to_reader(),
        columns=given.columns,
        constants=given.constants,
        by_name=given.by_name,
        what=given.what,
        noted=tables.noted,
    )
    columns = listed([*given.columns, *(f"{name} = {value}" for name, value in given.constants.items())])
    if given.where is None:
        yield f"Insert into {given.found}: columns {columns}; {_added(given.table)}"
    else:
        which = f"the partitions where {given.where}" if given.where else "all rows"
        yield f"Overwrite {given.found}: columns {columns}; replaces {which}, {_files(given.table, given.where)}"
    yield from plan_lines(tables, given.query, depth=1)


def _create(names: SqlNames, statement: exp.Expr) -> Iterator[str]:
    found, words, replaces = new_table(names, statement)
    exists = found.catalog.table_exists(found.full)
    if exists and statement.args.get("exists"):
        yield f"Create table {found}: nothing, there is such a table"
        return
    if exists and not replaces:
        raise InvalidRequestError(f"table {found} exists already: choose another name, or write IF NOT EXISTS")
    tables = PlannedTables(names=names)
    columns = listed(
        f"{one.name} {type_ddl(from_arrow_type(one.type, name=one.name))}"
        for one in tables.run(rows_of(statement.expression).limit(0)).schema
    )
    keys = "".join(
        f"; {what} {listed(given)}"
        for what, given in (("primary key", words["primary_keys"]), ("partitioned by", words["partition_keys"]))
        if given
    )
    verb = f"Replace the rows of {found}, {_files(found.table, None)}" if exists else f"Create table {found}"
    yield f"{verb}: columns {columns}{keys}"
    yield from plan_lines(tables, statement.expression, depth=1)


def _rows(names: SqlNames, statement: exp.Expr) -> Iterator[str]:
    tables = PlannedTables(names=names)
    made = row_statement(tables, statement)
    snapshot = tables.newest[str(made.found)]
    state = "no snapshot" if snapshot is None else f"snapshot {snapshot.id}"
    sets = ""
    if made.operation == "UPDATE":
        sets = f" sets {listed(one.this.name for one in statement.expressions)};"
    yield f"{_TITLES[made.operation]} {made.found}, {state}:{sets} {_changed(made)}"
    for when in statement.args["whens"].expressions if made.operation == "MERGE" else ():
        yield f"  {when.sql(dialect=LakelogDialect)}"
    columns = [field.name for field in made.found.table.schema.fields]
    internal = dict.fromkeys((ACTION, ROW, f"{MARK}case", f"{MARK}there", *PLACE_NAMES), "")
    internal |= {member(NEW, at): f"new {name}" for at, name in enumerate(columns)}
    internal |= {member(OLD, at): name for at, name in enumerate(columns)}
    yield from plan_lines(tables, made.query, depth=1, internal=internal)


def _truncate(found: FoundName) -> Iterator[str]:
    yield f"Delete all rows of {found}: {_files(found.table, None)}"


def _added(table: Table) -> str:
    """What an INSERT does with a row."""
    keys = table.schema.primary_keys
    return f"a row replaces the one with its primary key, {listed(keys)}" if keys else "rows are added"


def _changed(made: RowStatement) -> str:
    """How changed rows get into the table."""
    table, what = made.found.table, "deletes" if made.operation == "DELETE" else "changed rows"
    if table.log is not None:
        return f"{what} are written to the log, in one batch statement"
    if is_by_place(table.store):
        return "files with such rows, of those that the scan reads, are written again"
    return f"{what} are written to new files"


def _files(table: Table, where: str | None) -> str:
    """The files of the partitions that meet a condition, or all."""
    every = table.store.planned().splits
    return files_of(table.store.planned(where=where).splits if where else every, every)
