"""INSERT INTO and INSERT OVERWRITE: DuckDB computes the rows, `Table.write` commits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from lakelog.common.errors import ConflictError, InvalidRequestError, UnsupportedError
from lakelog.logstore.options import CHANGE_TRACKING
from lakelog.sql.language.dialect import BY_NAME, LakelogDialect
from lakelog.sql.language.names import FoundName, SqlNames
from lakelog.sql.queries.read_options import options_of
from lakelog.sql.queries.reading import QueryTables
from lakelog.sql.queries.recording import recording
from lakelog.sql.queries.selects import query_with, rows_of
from lakelog.sql.statements.default_values import default_expression, fill_defaults
from lakelog.sql.statements.fitting import check_same_fields, column_named, fitted
from lakelog.sql.statements.kept_values import keep_values
from lakelog.sql.statements.partitions import condition_of, partition_values_of
from lakelog.sql.statements.row_statements import WHAT, row_statement
from lakelog.sql.statements.written_fields import fields_of_query

if TYPE_CHECKING:
    from lakelog.catalog import Table
    from lakelog.filestore.metadata.snapshots import Snapshot

_GIVEN = "given"  # the rows of an INSERT OR REPLACE


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertStatement:
    """An INSERT: a query for rows, the columns that it fills in their order, and constants in others.

    `where` is the condition on the partitions that are replaced, empty for all rows; None adds rows.
    `replaces` says that rows take the place of those with their keys. `change_tracking` is what the options behind the
    table say of the log, if they say anything.
    """

    found: FoundName
    table: Table
    query: exp.Expr
    columns: Sequence[str]
    constants: Mapping[str, Any]
    by_name: bool
    where: str | None
    replaces: bool = False
    change_tracking: bool | None = None

    @property
    def what(self) -> str:
        """The statement in errors."""
        return f"INSERT INTO {self.found}"


def insert_statement(names: SqlNames, statement: exp.Expr) -> InsertStatement:
    """The parts of an INSERT. Raises InvalidRequestError."""
    target, listed = _target(statement.this)
    clauses = target.args.get("version")
    target.set("version", None)
    found = names.found(target)
    table, what = found.table, f"INSERT INTO {found}"
    constants = partition_values_of(table, target.args.get("partition"))
    columns = _listed(table, listed, what) if listed else [field.name for field in table.schema.fields]
    columns = [name for name in columns if name not in constants]
    query = statement.expression
    filled = [table.schema.field(name) for name in columns]
    if statement.args.get("default"):
        query = exp.Select(expressions=[default_expression(field) for field in filled])
    if query is None:
        raise InvalidRequestError(f"{what} needs rows: a query, or VALUES")
    check_same_fields(query, what)
    query = query.copy()
    fill_defaults(query, filled)
    keep_values(query, filled)
    if statement.args.get("with_") is not None:
        query = query_with(statement, rows_of(query))
    replaced, where = statement.args.get("where"), None
    if replaced is not None:
        where = replaced.sql(dialect=LakelogDialect)
    elif statement.args.get("overwrite"):
        where = condition_of(constants)
    return InsertStatement(
        found=found,
        table=table,
        query=query,
        columns=columns,
        constants=constants,
        by_name=bool(statement.args.get("by_name")),
        where=where,
        replaces=statement.args.get("alternative") is not None,
        change_tracking=None if clauses is None else _tracking(options_of(clauses.args.get("options")), what),
    )


def insert(names: SqlNames, statement: exp.Expr) -> None:
    """INSERT INTO and INSERT OVERWRITE. Raises ConflictError for an overwrite behind another commit."""
    with names.interrupts.planning():
        given = insert_statement(names, statement)
    if given.replaces:
        row_statement(QueryTables(names=names), _upsert_of(given, statement.this)).run()
        return
    base = given.table.store.snapshot()
    tables = QueryTables(names=names, bases={str(given.found): base})
    rows = fitted(
        given.table.schema,
        tables.stream(given.query),
        columns=given.columns,
        constants=given.constants,
        by_name=given.by_name,
        what=given.what,
        noted=tables.noted,
    )
    with names.interrupts.planning():
        fields = fields_of_query(names, given.query, columns=given.columns, by_name=given.by_name)
    table = recording(tables, given.table, fields)
    if given.where is None:
        with tables.own_errors():
            table.write(rows, change_tracking=given.change_tracking)
        return
    check_still(table, base, given.what)
    with tables.own_errors():
        table.write(rows, mode="overwrite", where=given.where or None, change_tracking=given.change_tracking)


def _upsert_of(given: InsertStatement, target: exp.Expr) -> exp.Merge:
    """INSERT OR REPLACE as the MERGE that does the same. Raises UnsupportedError for a table without primary key."""
    keys, what = given.table.schema.primary_keys, f"INSERT OR REPLACE INTO {given.found}"
    if not keys:
        raise UnsupportedError(f"{what}: the table has no primary key; leave OR REPLACE out")
    if given.where is not None or given.constants or given.change_tracking is not None:
        raise UnsupportedError(f"{what} takes rows alone: leave OVERWRITE, PARTITION and options out")
    names = [] if given.by_name else [exp.to_identifier(name, quoted=True) for name in given.columns]
    alias = exp.TableAlias(this=exp.to_identifier(_GIVEN), columns=names)
    taken = exp.Star()
    taken.meta[BY_NAME] = True
    actions = {True: exp.Update(expressions=[taken]), False: exp.Insert(this=taken.copy())}
    table: exp.Expr = target.this if isinstance(target, exp.Schema) else target
    merge = exp.Merge(
        this=table.copy(),
        using=exp.Subquery(this=given.query, alias=alias),
        using_cond=[exp.to_identifier(key, quoted=True) for key in keys],
        whens=exp.Whens(expressions=[exp.When(matched=is_there, then=then) for is_there, then in actions.items()]),
    )
    merge.meta[WHAT] = what
    return merge


def _tracking(options: Mapping[str, str], what: str) -> bool | None:
    """Whether the changes are logged, by the options behind the table. Raises InvalidRequestError, UnsupportedError."""
    unknown = sorted(set(options) - {CHANGE_TRACKING.key})
    if unknown:
        raise UnsupportedError(f"WITH ({unknown[0]} = ...) in {what}: expected {CHANGE_TRACKING.key}")
    return CHANGE_TRACKING.of(options) if options else None


def _target(given: exp.Expr) -> tuple[exp.Table, list[str]]:
    if isinstance(given, exp.Schema):
        return given.this, [one.name for one in given.expressions]
    if not isinstance(given, exp.Table):
        raise InvalidRequestError("INSERT needs the name of a table: INSERT INTO table SELECT ...")
    return given, []


def _listed(table: Table, names: list[str], what: str) -> list[str]:
    known = table.schema.field_names
    found = [column_named(name, known, what) for name in names]
    if len(set(found)) != len(found):
        raise InvalidRequestError(f"{what} names a column twice: {', '.join(names)}")
    return found


def check_still(table: Table, base: Snapshot | None, what: str) -> None:
    """Raise ConflictError if another commit came after the snapshot that a query has read."""
    if table.store.snapshot() != base:
        raise ConflictError(f"{what}: another commit came first; nothing was written: write again")
