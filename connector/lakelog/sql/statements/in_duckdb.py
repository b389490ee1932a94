"""Statements that DuckDB runs itself: COPY ... TO a file, and those of temporary tables."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import quoted, shown
from lakelog.sql.language.dialect import LakelogDialect
from lakelog.sql.language.names import SqlNames
from lakelog.sql.queries.engine import TEMPORARY
from lakelog.sql.queries.reading import QueryTables


def copy(names: SqlNames, statement: exp.Expr) -> pa.Table:
    """COPY ... TO. Raises UnsupportedError for COPY ... FROM."""
    if statement.args.get("kind"):
        raise UnsupportedError(
            f"{shown(statement.sql())}: write INSERT INTO table FROM 'file' in place of COPY ... FROM"
        )
    return QueryTables(names=names).run(statement)


def create_temporary(names: SqlNames, statement: exp.Expr) -> None:
    """CREATE TEMPORARY TABLE, with columns in DuckDB's types, or AS SELECT. Raises InvalidRequestError."""
    given = statement.this
    table = given.this if isinstance(given, exp.Schema) else given
    properties = statement.args["properties"].expressions
    if table.db or len(properties) > 1:
        raise InvalidRequestError(f"temporary table {shown(table.sql())}: it has a name alone, and no properties")
    tables = QueryTables(names=names)
    words = ["CREATE OR REPLACE TABLE" if statement.args.get("replace") else "CREATE TABLE"]
    words += ["IF NOT EXISTS"] if statement.args.get("exists") else []
    words.append(f"{TEMPORARY}.{quoted(table.name)}")
    if isinstance(given, exp.Schema):
        words.append(f"({', '.join(one.sql(dialect=LakelogDialect) for one in given.expressions)})")
    if statement.expression is not None:
        words += ["AS", tables.text_of(statement.expression)]
    tables.run_prepared(" ".join(words))
    names.temporary.add(table.name.lower())


def run_temporary(names: SqlNames, statement: exp.Expr) -> None:
    """Another statement of a temporary table, as it was written."""
    QueryTables(names=names).run(statement)
    if isinstance(statement, exp.Drop):
        names.temporary -= {one.name.lower() for one in statement.args["tables"]}


def is_temporary(names: SqlNames, statement: exp.Expr) -> bool:
    """Whether a statement is one of a temporary table."""
    tables = statement.args.get("tables") or (
        statement.expressions if isinstance(statement, exp.TruncateTable) else None
    )
    for given in tables or [statement.this]:
        table = given.this if isinstance(given, exp.Schema) else given
        if isinstance(table, exp.Table) and names.is_temporary(table):
            return True
    return False
