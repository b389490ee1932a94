"""INSERT, DELETE, UPDATE, MERGE and TRUNCATE: DuckDB computes the rows, the verbs of a table commit them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from lakelog.catalog.columns.written_ddl import quoted_name, written_text
from lakelog.catalog.logs.statements import run_statement
from lakelog.catalog.tables.row_actions import (
    ACTION,
    DELETE,
    NEW,
    OLD,
    UPDATE,
    changes_of_actions,
    member,
    named_values,
)
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.filestore.schema import PLACE_NAMES
from lakelog.filestore.write import check_replaceable, is_by_place
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.names import FoundName, SqlNames, check_arguments
from lakelog.sql.language.parsing import parsed
from lakelog.sql.queries.reading import QueryTables, check_still
from lakelog.sql.queries.selects import query_with
from lakelog.sql.queries.table_words import with_places
from lakelog.sql.statements.default_values import fill_defaults, with_defaults
from lakelog.sql.statements.fitting import fitted, fitted_column
from lakelog.sql.statements.merging import merge_query

if TYPE_CHECKING:
    from lakelog.catalog import Table
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.write import StatementChanges


_OF_INSERT = ("this", "expression", "overwrite", "by_name", "with_", "where", "source")


def insert(names: SqlNames, statement: exp.Expr) -> None:
    """INSERT INTO and INSERT OVERWRITE. Raises ConflictError for an overwrite behind another commit."""
    check_arguments(statement, _OF_INSERT)
    target, listed = _target(statement.this)
    found = names.found(target, partition=True)
    table, what = found.table, f"INSERT INTO {found}"
    constants = partition_values_of(table, target.args.get("partition"))
    columns = _listed(table, listed, what) if listed else [field.name for field in table.schema.fields]
    columns = [name for name in columns if name not in constants]
    source = statement.args.get("source") or None
    query = statement.expression if source is None else exp.select(exp.Star()).from_(source)
    if query is None:
        raise InvalidRequestError(f"{what} needs rows: a query, or VALUES")
    query = query_with(statement, query.copy())
    fill_defaults(query, [table.schema.field(name) for name in columns])
    base = table.store.snapshot()
    tables = QueryTables(names=names, bases={str(found): base})
    rows = fitted(
        table.schema,
        tables.stream(query),
        columns=columns,
        constants=constants,
        by_name=bool(statement.args.get("by_name")),
        what=what,
        noted=tables.noted,
    )
    table = tables.recording(table)
    replaced = statement.args.get("where")
    if not statement.args.get("overwrite") and replaced is None:
        with tables.own_errors():
            table.write(rows)
        return
    check_still(table, base, what)
    where = _condition_of(constants)
    if replaced is not None:
        where = replaced.sql(dialect=LakelogDialect)
    with tables.own_errors():
        table.write(rows, mode="overwrite", where=where or None)


def delete(names: SqlNames, statement: exp.Expr) -> None:
    """DELETE FROM."""
    check_arguments(statement, ("this", "where", "with_"))
    found = names.found(statement.this)
    where = statement.args.get("where")
    if where is None:
        found.table.truncate()
        return
    _change_rows(names, found, statement, {}, f"DELETE FROM {found}")


def update(names: SqlNames, statement: exp.Expr) -> None:
    """UPDATE SET. Raises InvalidRequestError for a column of the primary key."""
    check_arguments(statement, ("this", "expressions", "where", "with_"))
    found = names.found(statement.this)
    what = f"UPDATE {found}"
    check_replaceable(found.table.store, "an update")
    values = assigned(found.table, statement.expressions, what, keys=found.table.schema.primary_keys)
    _change_rows(names, found, statement, values, what)


def merge(names: SqlNames, statement: exp.Expr) -> None:
    """MERGE INTO."""
    check_arguments(statement, ("this", "using", "on", "whens", "with_"))
    found = names.found(statement.this)
    table, what = found.table, f"MERGE INTO {found}"
    check_replaceable(table.store, "a merge")
    first = QueryTables(names=names)
    merge_query(table, first, statement, what)
    _run_on_rows(first, found, "MERGE", what, lambda tables: merge_query(table, tables, statement, what))


def truncate(names: SqlNames, statement: exp.Expr) -> None:
    """TRUNCATE TABLE."""
    check_arguments(statement, ("expressions", "partition"))
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
        found[name] = one.expression
    fields = table.schema.fields
    return with_defaults(fields, named_values(fields, found, keys=keys, what=what))


def partition_where(table: Table, partition: exp.Expr) -> str:
    """The condition of PARTITION (column = value, ...). Raises InvalidRequestError for other columns."""
    return _condition_of(partition_values_of(table, partition))


def where_of(table: Table, text: str) -> str:
    """The condition of the text PARTITION (column = value, ...). Raises InvalidRequestError."""
    return partition_where(table, parsed(f"TRUNCATE TABLE t {text}")[0].args["partition"])


def _condition_of(values: Mapping[str, object]) -> str:
    return " AND ".join(
        f"{quoted_name(name)} IS NULL" if value is None else f"{quoted_name(name)} = {_literal(value)}"
        for name, value in values.items()
    )


def _literal(value: object) -> str:
    """A value in our conditions."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else written_text(str(value))


def _run_on_rows(
    first: QueryTables, found: FoundName, operation: str, what: str, query_of: Callable[[QueryTables], str]
) -> None:
    """Run a statement; `query_of` gives DuckDB's text of the query for its rows, over the tables that it is given.

    `first` has opened the tables of the query. Others than the changed one are read at these snapshots, which the
    commit records, however often the statement is computed.
    """
    table = first.recording(found.table, without=found)

    def compute(base: Snapshot | None) -> StatementChanges:
        tables = QueryTables(names=first.names, bases={**first.newest, str(found): base})
        rows = tables.run_prepared(query_of(tables))
        return changes_of_actions(table.store, _fitted_new(table, rows, what), what=what)

    run_statement(table, operation, compute)


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
            chosen.append(exp.alias_(values.get(field.name, column).copy(), member(NEW, at)))
    if is_placed:
        chosen += [exp.Column(this=exp.to_identifier(name), table=shown.copy()) for name in PLACE_NAMES]
    query = exp.Select(expressions=chosen).from_(with_places(target) if is_placed else target.copy())
    if where is not None:
        query.set("where", where.copy())
    return query_with(statement, query)


def _change_rows(
    names: SqlNames, found: FoundName, statement: exp.Expr, values: dict[str, exp.Expr], what: str
) -> None:
    query, where = _query_of_rows(found.table, statement, values), statement.args.get("where")

    first = QueryTables(names=names)
    if where is not None:
        _check_condition(first, query, where.this, what)

    def query_of(tables: QueryTables) -> str:
        return tables.prepared(query).sql(dialect="duckdb")

    query_of(first)
    _run_on_rows(first, found, "UPDATE" if values else "DELETE", what, query_of)


def _check_condition(tables: QueryTables, query: exp.Select, condition: exp.Expr, what: str) -> None:
    """Raise InvalidRequestError for a condition that is not a boolean: DuckDB takes numbers for one."""
    asked = query.copy()
    asked.set("expressions", [exp.alias_(condition.copy(), ACTION)])
    kind = tables.run(asked.limit(0)).schema.field(ACTION).type
    if not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise InvalidRequestError(
            f"{what} WHERE {condition.sql(dialect=LakelogDialect)}: this is {kind}, not a boolean"
        )


def _fitted_new(table: Table, rows: pa.Table, what: str) -> pa.Table:
    """The rows, whose new values have the types of the table."""
    for at, field in enumerate(table.schema.arrow_schema):
        for side in (OLD, NEW):
            name = member(side, at)
            if name in rows.column_names:
                place = rows.column_names.index(name)
                rows = rows.set_column(place, name, fitted_column(rows[name], field, what))
    return rows


def _target(given: exp.Expr) -> tuple[exp.Table, list[str]]:
    if isinstance(given, exp.Schema):
        return given.this, [one.name for one in given.expressions]
    assert isinstance(given, exp.Table), "sqlglot has a table or a table with columns here"
    return given, []


def _listed(table: Table, names: list[str], what: str) -> list[str]:
    by_name = {field.name.lower(): field.name for field in table.schema.fields}
    for name in names:
        if name.lower() not in by_name:
            raise InvalidRequestError(f"{what}: the table has no column {name!r}; it has {', '.join(by_name.values())}")
    found = [by_name[name.lower()] for name in names]
    if len(set(found)) != len(found):
        raise InvalidRequestError(f"{what} names a column twice: {', '.join(names)}")
    return found


def partition_values_of(table: Table, partition: exp.Expr | None) -> dict[str, Any]:
    """The values of PARTITION (column = value, ...); a column without a value is filled by the query."""
    found: dict[str, Any] = {}
    for one in () if partition is None else partition.expressions:
        column = one.this if isinstance(one, exp.EQ) else one
        name = column.name
        own = {key.lower(): key for key in table.schema.partition_keys}.get(name.lower())
        if own is None:
            raise InvalidRequestError(f"PARTITION ({name}): {name!r} is not a partition column of {table.name}")
        if isinstance(one, exp.EQ):
            found[own] = _plain_value(one.expression)
    return found


def _plain_value(given: exp.Expr) -> Any:
    """The value of a literal, `DATE '2026-01-01'` as its text. Raises UnsupportedError for an expression."""
    match given:
        case exp.Cast(this=exp.Literal()):
            return given.this.name
        case exp.Literal() | exp.Boolean() | exp.Null() | exp.Neg():
            return given.to_py()
    raise UnsupportedError(f"PARTITION (... = {given.sql(dialect=LakelogDialect)}): expected a value")
