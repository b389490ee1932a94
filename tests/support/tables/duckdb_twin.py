"""The same rows in a table of a catalog and in DuckDB itself, whose answers are what `lakelog.sql` must give."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError, Table
from lakelog.sql import SqlConnection
from tests.support.tables.sql_expressions import SCHEMA, row_of

ROWS = 60


@dataclass(frozen=True, kw_only=True)
class Twin:
    """The rows of `SCHEMA` as the table `t`, which merges them from several files, and in DuckDB."""

    table: Table
    connection: SqlConnection
    engine: duckdb.DuckDBPyConnection

    def of_duckdb(self, text: str) -> object:
        """What a query gives in DuckDB: names, types and rows, or the class of an error."""
        try:
            return shown(self.engine.sql(text).to_arrow_table())
        except duckdb.Error as error:
            return type(error)

    def of_lakelog(self, text: str) -> object:
        """What a query gives in `lakelog.sql`; of an error the class of DuckDB's."""
        try:
            return shown(self.connection.sql(text))
        except InvalidRequestError as error:
            return type(error.__cause__)

    def changed_in_duckdb(self, statement: str, query: str) -> object:
        """What a query gives behind a statement, in a copy of the rows; the class of an error of the statement."""
        try:
            self.engine.execute("BEGIN")
            self.engine.execute(statement)
            return shown(self.engine.sql(query).to_arrow_table())
        except duckdb.Error as error:
            return type(error)
        finally:
            self.engine.execute("ROLLBACK")

    def changed_in_lakelog(self, statement: str, query: str) -> object:
        """The same in `lakelog.sql`; the table has its rows again behind it."""
        before = self.table.store.snapshot()
        assert before is not None, "the table has rows"
        try:
            self.connection.sql(statement)
            return shown(self.connection.sql(query))
        except InvalidRequestError as error:
            assert self.table.store.snapshot() == before, "a statement that failed changed the table"
            return type(error.__cause__)
        finally:
            self.connection.sql(f"CALL sys.rollback(table => 'db.t', snapshot_id => {before.id}, force => true)")


def shown(rows: pa.Table) -> tuple[list[tuple[str, str]], list[str]]:
    """The names and types of the columns, and the rows in an order that does not depend on the way."""
    return [(one.name, str(one.type)) for one in rows.schema], sorted(repr([*row.values()]) for row in rows.to_pylist())


def made_twin(folder: Path) -> Twin:
    """Random rows in both."""
    chance = random.Random(11)
    catalog = Catalog(folder)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys="id", options={"bucket": "1"})
    rows = {key: row_of(key, chance) for key in range(ROWS)}
    table.write(pa.Table.from_pylist([*rows.values()], schema=SCHEMA))
    for key in chance.sample(range(ROWS), ROWS // 3):
        rows[key] = row_of(key, chance)
    table.write(pa.Table.from_pylist([*rows.values()], schema=SCHEMA))
    connection = lakelog.sql.connect(catalog)
    connection.sql("USE db")
    engine = duckdb.connect()
    engine.execute("SET TimeZone = 'UTC'")
    engine.register("rows", pa.Table.from_pylist([*rows.values()], schema=SCHEMA))
    engine.execute("CREATE TABLE t AS SELECT * FROM rows")
    return Twin(table=table, connection=connection, engine=engine)
