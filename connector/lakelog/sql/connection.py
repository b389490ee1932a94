"""Statements of SQL without Spark: one connection with its catalogs, its current database and its views.

What a statement needs is imported when one of its kind is run: a query from the shell must not wait for all others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias  # Any: Spark is an extra

import pyarrow as pa
from sqlglot import exp

from lakelog.catalog.names.peer_words import other_format
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import shown
from lakelog.sql.language.bounds import deep_stack, too_deep
from lakelog.sql.language.frames import frames_of_caller
from lakelog.sql.language.names import SqlNames
from lakelog.sql.language.parsing import bound, parsed_one

if TYPE_CHECKING:
    from lakelog.catalog import Catalog

DEFAULT_NAME = "lake"
_READ_AS_TEXT = re.compile(
    r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*+(?P<word>SET|RESET|DESC|DESCRIBE)\b", re.IGNORECASE | re.DOTALL
)
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

    def __init__(self, catalogs: Mapping[str, Catalog], current: str, *, fresh: bool = False) -> None:
        self._names = SqlNames(catalogs=catalogs, catalog=current, is_fresh=fresh)

    def sql(
        self,
        text: str,
        parameters: Sequence[object] | Mapping[str, object] | None = None,
        *,
        engine: Any = None,  # a SparkSession
        frames: Mapping[str, object] | None = None,
    ) -> pa.Table:
        """Run a statement; returns its rows, without columns for a statement that has none.

        `parameters` are the values of `?` in their order, or of `:name` or `$name`: strings, numbers, booleans, dates,
        times, bytes or None. `frames` are those of pandas, polars and Arrow that the statement may name beside tables:
        by default the variables of the caller, as in DuckDB. With a SparkSession as `engine` the statement runs in
        Spark, in Spark's own SQL: see `lakelog.spark.attach`.

        Raises InvalidRequestError for a statement that is wrong, UnsupportedError for one that does not exist here, and
        as the verb of `Table` or `Catalog` that does it.
        """
        if engine is not None:
            return self._in_spark(engine, text, parameters)
        self._names.frames = frames_of_caller(2) if frames is None else dict(frames)
        try:
            read = _READ_AS_TEXT.match(text)
            if read is not None:
                found = _of_text(read["word"])(self._names, text[read.start("word") :])
                return _EMPTY if found is None else found
            with self._names.interrupts.statement(), deep_stack():
                with self._names.interrupts.planning():
                    statement = bound(parsed_one(text), parameters)
                return self._run(statement, text)
        except RecursionError as error:
            raise too_deep(text) from error
        except (InvalidRequestError, UnsupportedError) as error:
            other = other_format(text)
            if other is None:
                raise
            raise other from error
        finally:
            self._names.frames = {}

    def __repr__(self) -> str:
        """The warehouses, and where names without a catalog or a database are looked up."""
        attached = ", ".join(f"{name}={catalog.warehouse!r}" for name, catalog in self._names.catalogs.items())
        return f"SqlConnection({attached}; USE {self._names.catalog}.{self._names.database or '?'})"

    def interrupt(self) -> None:
        """End the statement that is planned or runs, from another thread; `sql` raises InvalidRequestError then."""
        self._names.interrupts.ask()

    def known_words(self, typed: str = "") -> list[str]:
        """The words and names that may be typed: words of statements, databases, tables, columns of typed tables."""
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
            from lakelog.spark.attaching import run_in_session  # needs the extra
        except ImportError as error:
            raise InvalidRequestError("engine=spark needs pyspark: pip install 'lakelog[spark]'") from error
        names = self._names
        return run_in_session(spark, names.catalogs, text, parameters, catalog=names.catalog, database=names.database)

    def _run(self, statement: exp.Expr, text: str) -> pa.Table:
        run = _function_of_temporary(self._names, statement) or _function_for(statement)
        if run is None:
            raise UnsupportedError(f"{shown(text)}: there is no such statement here")
        found = run(self._names, statement)
        return _EMPTY if found is None else found


def connect(
    catalog: Catalog,
    *,
    name: str = DEFAULT_NAME,
    attach: Mapping[str, Catalog] | None = None,
    fresh: bool = False,
) -> SqlConnection:
    """A connection whose statements see a catalog, under `name`, and those in `attach`.

    With `fresh`, queries have what is committed in the log of each table behind its newest snapshot, see `Table.at`;
    `WITH (fresh = true)` behind the name of a table says so for one read of it.

    >>> connection = lakelog.sql.connect(Catalog("/data/lake"), attach={"other": Catalog("/data/other")})
    """
    others = dict(attach or {})
    if name in others:
        raise InvalidRequestError(f"two catalogs are named {name!r}: give one of them another name")
    return SqlConnection({name: catalog, **others}, name, fresh=fresh)


_Run: TypeAlias = Callable[[SqlNames, exp.Expr], "pa.Table | None"]


def _function_of_temporary(names: SqlNames, statement: exp.Expr) -> _Run | None:
    """The function that runs a statement of a temporary table; None for another one."""
    properties = statement.args.get("properties")
    words = [] if properties is None else [type(one) for one in properties.expressions]
    if isinstance(statement, exp.Create) and statement.args["kind"] == "TABLE" and exp.TemporaryProperty in words:
        from lakelog.sql.statements.in_duckdb import create_temporary

        return create_temporary
    if names.temporary and isinstance(statement, exp.DML | exp.Drop | exp.Alter | exp.TruncateTable):
        from lakelog.sql.statements.in_duckdb import is_temporary, run_temporary

        return run_temporary if is_temporary(names, statement) else None
    return None


def _function_for(statement: exp.Expr) -> _Run | None:
    """The function that runs statements of this kind; None if there is none."""
    match statement:
        case exp.Query() | exp.Values() | exp.Summarize() | exp.Pivot():
            from lakelog.sql.queries.reading import run_query

            return run_query
        case exp.Insert():
            from lakelog.sql.statements.inserting import insert

            return insert
        case exp.Delete() | exp.Update() | exp.Merge() | exp.TruncateTable():
            return _of_rows(statement)
        case exp.Create() | exp.Drop() | exp.Alter() | exp.Comment() | exp.Use():
            return _of_definitions(statement)
        case exp.Refresh():
            return lambda _, __: None  # nothing is held between statements
        case exp.Copy():
            from lakelog.sql.statements.in_duckdb import copy

            return copy
        case exp.Command():
            from lakelog.sql.statements.calls import run_command

            return run_command
    return None


def _of_text(word: str) -> Callable[[SqlNames, str], pa.Table | None]:
    if word.upper() in ("SET", "RESET"):
        from lakelog.sql.statements.settings import run_setting

        return run_setting
    from lakelog.sql.statements.describing import describe

    return describe


def _of_rows(statement: exp.Expr) -> _Run:
    from lakelog.sql.statements.row_statements import change_rows, delete, truncate

    match statement:
        case exp.Delete():
            return delete
        case exp.TruncateTable():
            return truncate
    return change_rows


def _of_definitions(statement: exp.Expr) -> _Run:
    from lakelog.sql.statements import definitions

    match statement:
        case exp.Create():
            return definitions.create
        case exp.Drop():
            return definitions.drop
        case exp.Alter():
            return definitions.alter
        case exp.Comment():
            return definitions.comment
    return definitions.use
