"""Statements of SQL without Spark: one connection with its catalogs, its current database and its views."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any  # Any: Spark is an extra

import pyarrow as pa
from sqlglot import exp

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.sql.language.names import SqlNames
from lakelog.sql.language.parsing import bound, parsed
from lakelog.sql.queries.selects import run_query
from lakelog.sql.statements import calls, definitions, describing, inserting, row_statements
from lakelog.sql.statements.texts import run_text

if TYPE_CHECKING:
    from lakelog.catalog import Catalog

DEFAULT_NAME = "lake"
_EMPTY = pa.table({})
_WORDS = """
ALTER AND AS BETWEEN BY CALL CREATE DATABASE DELETE DESCRIBE DISTINCT DROP FROM GROUP HAVING IN INSERT INTO IS JOIN LEFT
LIKE LIMIT MATCHED MERGE NOT NULL ON OR ORDER OVERWRITE PARTITIONED PRIMARY KEY SELECT SET SHOW TABLE TABLES
TBLPROPERTIES THEN TRUNCATE UNION UPDATE USE USING VALUES VERSION WHEN WHERE WITH
"""


class SqlConnection:
    """Runs statements, one after the other. It is not for several threads at once.

    >>> connection = lakelog.sql.connect(catalog)
    >>> connection.sql("SELECT count(*) FROM db.orders WHERE amount > :least", {"least": 10})
    """

    def __init__(self, catalogs: Mapping[str, Catalog], current: str) -> None:
        self._names = SqlNames(catalogs=catalogs, catalog=current)

    def sql(
        self,
        text: str,
        parameters: Sequence[object] | Mapping[str, object] | None = None,
        *,
        engine: Any = None,  # a SparkSession
    ) -> pa.Table:
        """Run a statement; returns its rows, without columns for a statement that has none.

        `parameters` are the values of `?` in their order, or of `:name`: strings, numbers, booleans, dates, times,
        bytes or None. With a SparkSession as `engine` the statement runs in Spark, in Spark's own SQL: see
        `lakelog.spark.attach`.

        Raises InvalidRequestError for a statement that is wrong, UnsupportedError for one that does not exist here, and
        as the verb of `Table` or `Catalog` that does it.
        """
        if engine is not None:
            return self._in_spark(engine, text, parameters)
        found = run_text(self._names, text)
        if found is not None:
            return found
        statements = parsed(text)
        if len(statements) != 1:
            raise InvalidRequestError(f"{shown(text)} has {len(statements)} statements: give one")
        return self._run(bound(statements[0], parameters), text)

    def interrupt(self) -> None:
        """End the query that runs, called from another thread; `sql` raises InvalidRequestError then."""
        for engine in list(self._names.running):
            engine.interrupt()

    def known_words(self, typed: str = "") -> list[str]:
        """The words and names that may be typed: words of statements, databases, tables of the current database, and
        the columns of those that `typed` names."""
        catalog = self._names.catalog_named(None)
        tables = [] if self._names.database is None else catalog.list_tables(self._names.database)
        named = {word.lower() for word in re.findall(r"\w+", typed)}
        columns = [
            field.name
            for table in tables
            if table.lower() in named
            for field in catalog.load_table(f"{self._names.database}.{table}").schema.fields
        ]
        names = {*self._names.catalogs, *catalog.list_databases(), *tables, *self._names.views, *columns}
        return sorted({*_WORDS.split(), *names})

    def _in_spark(self, spark: Any, text: str, parameters: Sequence[object] | Mapping[str, object] | None) -> pa.Table:
        try:
            from lakelog.spark.attaching import run_in_session  # noqa: PLC0415  # needs the extra
        except ImportError as error:
            raise InvalidRequestError("engine=spark needs pyspark: pip install 'lakelog[spark]'") from error
        names = self._names
        return run_in_session(spark, names.catalogs, text, parameters, catalog=names.catalog, database=names.database)

    def _run(self, statement: exp.Expr, text: str) -> pa.Table:
        for kind, run in _KINDS.items():
            if isinstance(statement, kind):
                found = run(self._names, statement)
                return _EMPTY if found is None else found
        raise UnsupportedError(f"{shown(text)}: there is no such statement here")


def connect(
    catalog: Catalog, *, name: str = DEFAULT_NAME, attach: Mapping[str, Catalog] | None = None
) -> SqlConnection:
    """A connection whose statements see a catalog, under `name`, and those in `attach`.

    >>> connection = lakelog.sql.connect(Catalog("/data/lake"), attach={"other": Catalog("/data/other")})
    """
    others = dict(attach or {})
    if name in others:
        raise InvalidRequestError(f"two catalogs are named {name!r}: give one of them another name")
    return SqlConnection({name: catalog, **others}, name)


_KINDS: Mapping[type[exp.Expr], Callable[[SqlNames, exp.Expr], pa.Table | None]] = {
    exp.Query: run_query,
    exp.Values: run_query,
    exp.Insert: inserting.insert,
    exp.Delete: row_statements.delete,
    exp.Update: row_statements.change_rows,
    exp.Merge: row_statements.change_rows,
    exp.TruncateTable: row_statements.truncate,
    exp.Create: definitions.create,
    exp.Drop: definitions.drop,
    exp.Alter: definitions.alter,
    exp.Comment: definitions.comment,
    exp.Use: definitions.use,
    exp.Describe: describing.describe,
    exp.Refresh: lambda _, __: None,  # nothing is held between statements
    exp.Command: calls.run_command,
}
