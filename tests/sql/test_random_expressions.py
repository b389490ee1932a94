"""Random expressions give in `lakelog.sql` what DuckDB gives over the same rows: values, types and errors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pytest

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError, Table
from lakelog.sql import SqlConnection
from tests.support.tables.sql_expressions import SCHEMA, Expressions, row_of

ROWS = 60
SEEDS_EACH = 20


@dataclass(frozen=True, kw_only=True)
class Both:
    """The same rows in a table, which merges them from several files, and in DuckDB as Arrow data."""

    table: Table
    connection: SqlConnection
    engine: duckdb.DuckDBPyConnection

    def difference(self, text: str) -> tuple[object, object] | None:
        """What a query gives in DuckDB and here; None if that is the same. An error is its class."""
        expected, found = of_duckdb(self.engine, text), of_lakelog(self.connection, text)
        return None if expected == found else (expected, found)


def of_duckdb(engine: duckdb.DuckDBPyConnection, text: str) -> object:
    try:
        return shown(engine.sql(text).to_arrow_table())
    except duckdb.Error as error:
        return type(error)


def of_lakelog(connection: SqlConnection, text: str) -> object:
    try:
        return shown(connection.sql(text))
    except InvalidRequestError as error:
        return type(error.__cause__)


def shown(rows: pa.Table) -> tuple[list[tuple[str, str]], list[str]]:
    """The names and types of the columns, and the rows."""
    return [(one.name, str(one.type)) for one in rows.schema], sorted(repr([*row.values()]) for row in rows.to_pylist())


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    chance = random.Random(11)
    catalog = Catalog(tmp_path_factory.mktemp("expressions"))
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
    engine.register("t", pa.Table.from_pylist([*rows.values()], schema=SCHEMA))
    yield Both(table=table, connection=connection, engine=engine)
    engine.close()


def check_selects(both: Both, number: int) -> None:
    texts = [f"SELECT id, {Expressions(seed).any()} AS x FROM t" for seed in seeds_of(number)]
    differ = {text: found for text in texts if (found := both.difference(text)) is not None}
    assert not differ
    with_rows = [text for text in texts if isinstance(of_duckdb(both.engine, text), tuple)]
    assert len(with_rows) > SEEDS_EACH // 2  # most of them are no errors


def check_deletes(both: Both, number: int) -> None:
    for seed in seeds_of(number):
        condition = Expressions(seed).of("bool")
        expected: object
        both.engine.execute("CREATE OR REPLACE TEMP TABLE deleted AS SELECT * FROM t")
        try:
            both.engine.execute(f"DELETE FROM deleted AS t WHERE {condition}")
            expected = shown(both.engine.sql("SELECT id FROM deleted").to_arrow_table())
        except duckdb.Error as error:
            expected = type(error)
        before = both.table.store.snapshot()
        assert before is not None
        try:
            both.connection.sql(f"DELETE FROM t WHERE {condition}")
            found: object = shown(both.connection.sql("SELECT id FROM t"))
        except InvalidRequestError as error:
            found = type(error.__cause__)
        finally:
            both.connection.sql(f"CALL sys.rollback(table => 'db.t', snapshot_id => {before.id}, force => true)")
        assert found == expected, (seed, condition)


def seeds_of(number: int) -> range:
    return range(number * SEEDS_EACH, (number + 1) * SEEDS_EACH)


@pytest.mark.parametrize("number", range(5))
def test_random_expressions_give_what_they_give_in_duckdb(both: Both, number: int) -> None:
    check_selects(both, number)


@pytest.mark.parametrize("number", range(3))
def test_random_conditions_delete_the_rows_that_they_delete_in_duckdb(both: Both, number: int) -> None:
    check_deletes(both, number)


@pytest.mark.full
@pytest.mark.parametrize("number", range(5, 25))
def test_many_random_expressions_give_what_they_give_in_duckdb(both: Both, number: int) -> None:
    check_selects(both, number)


@pytest.mark.full
@pytest.mark.parametrize("number", range(3, 25))
def test_many_random_conditions_delete_the_rows_that_they_delete_in_duckdb(both: Both, number: int) -> None:
    check_deletes(both, number)
