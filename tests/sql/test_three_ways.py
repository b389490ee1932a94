"""Random SELECTs give the rows of each engine over plain rows: of Spark after `attach`, of DuckDB without Spark.

Three tables with nulls, upserted and with deleted rows, whose last state is computed in plain Python. The queries have
joins, outer joins, sub-queries in several places, windows, aggregates, set operations and CTEs. Numbers are whole or
decimal, so that no order of additions matters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import lakelog.sql
from lakelog.catalog import Catalog, InvalidRequestError
from lakelog.spark import attach, detach
from lakelog.sql import SqlConnection
from tests.support.examples import rest_in_full

QUERIES_EACH = 10
SCHEMAS = {
    "c": pa.schema([("id", pa.int64()), ("region", pa.string()), ("score", pa.int32()), ("since", pa.date32())]),
    "o": pa.schema(
        [
            ("id", pa.int64()),
            ("cid", pa.int64()),
            ("amount", pa.decimal128(10, 2)),
            ("day", pa.date32()),
            ("status", pa.string()),
        ]
    ),
    "i": pa.schema([("id", pa.int64()), ("oid", pa.int64()), ("qty", pa.int32()), ("sku", pa.string())]),
}
SIZES = {"c": 40, "o": 160, "i": 300}


def value_of(kind: pa.DataType, chance: random.Random) -> object:
    if chance.random() < 0.15:
        return None
    if pa.types.is_decimal(kind):
        return Decimal(chance.randint(-5_000, 5_000)) / 100
    if pa.types.is_date(kind):
        return date(2026, 1, 1) + timedelta(days=chance.randint(0, 60))
    if pa.types.is_string(kind):
        return chance.choice(["a", "b", "B", "", "it's", "zz", "ä"])
    return chance.randint(0, 50)


def row_of(name: str, key: int, chance: random.Random) -> dict[str, object]:
    return {field.name: key if field.name == "id" else value_of(field.type, chance) for field in SCHEMAS[name]}


@dataclass(frozen=True, kw_only=True)
class Ways:
    """The ways to run a query: in Spark with and without a catalog, in `lakelog.sql`, and in DuckDB over Arrow."""

    session: SparkSession
    connection: SqlConnection
    engine: duckdb.DuckDBPyConnection

    def in_spark(self, text: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
        """The rows of plain files, and of tables of the catalog, in an order that does not depend on the way."""
        self.session.sql("USE spark_catalog.default")
        plain = self.session.sql(text).collect()
        self.session.sql("USE lake.db")
        names = {name: f"lake.db.{name}" for name in SCHEMAS}
        return shown(plain), shown(self.session.sql(with_tables(text, names)).collect())

    def in_duckdb(self, text: str) -> tuple[tuple[pa.Schema, list[tuple[str, ...]]], ...]:
        """The types and rows of plain rows, and of tables in `lakelog.sql`."""
        plain, tables = self.engine.sql(text).to_arrow_table(), self.connection.sql(text)
        plain_rows, rows = ([tuple(row.values()) for row in found.to_pylist()] for found in (plain, tables))
        return (plain.schema, shown(plain_rows)), (tables.schema, shown(rows))


def with_tables(text: str, names: dict[str, str]) -> str:
    """The query, which names tables as `FROM c AS ...`, on other tables."""
    for name, full in names.items():
        text = text.replace(f" {name} AS ", f" {full} AS ")
    return text


def shown(rows: Sequence[Sequence[object]]) -> list[tuple[str, ...]]:
    return sorted(tuple(shown_value(value) for value in row) for row in rows)


def shown_value(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return repr(value)
    return str(Decimal(value).normalize() + 0)


@pytest.fixture(scope="module")
def ways(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    folder = tmp_path_factory.mktemp("ways")
    chance = random.Random(7)
    session = spark.newSession()
    catalog = Catalog(folder / "lake")
    engine = duckdb.connect()
    attach(session, "lake", catalog)
    for name, schema in SCHEMAS.items():
        rows = {key: row_of(name, key, chance) for key in range(SIZES[name])}
        table = catalog.create_table(f"db.{name}", schema=schema, primary_keys="id", options={"bucket": "2"})
        table.write(pa.Table.from_pylist([*rows.values()], schema=schema))
        for key in chance.sample(range(SIZES[name]), SIZES[name] // 4):
            rows[key] = row_of(name, key, chance)
        table.write(pa.Table.from_pylist([*rows.values()], schema=schema))
        gone = chance.sample(range(SIZES[name]), SIZES[name] // 8)
        table.delete(f"id IN ({', '.join(map(str, gone))})")
        path = folder / "plain" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        last = pa.Table.from_pylist([row for key, row in rows.items() if key not in gone], schema=schema)
        pq.write_table(last, path)
        engine.register(name, last)
        session.read.parquet(str(path)).createOrReplaceTempView(name)
    connection = lakelog.sql.connect(catalog)
    connection.sql("USE db")
    yield Ways(session=session, connection=connection, engine=engine)
    detach(session, "lake")


def condition(chance: random.Random, alias: str, name: str) -> str:
    """A condition on the columns of a table."""
    field = chance.choice(list(SCHEMAS[name]))
    column = f"{alias}.{field.name}"
    forms = [f"{column} IS NULL", f"{column} IS NOT NULL"]
    if pa.types.is_string(field.type):
        forms += [f"{column} = 'b'", f"{column} LIKE '%z'", f"upper({column}) IN ('A', 'B')", f"length({column}) > 1"]
    elif pa.types.is_date(field.type):
        forms += [
            f"{column} BETWEEN DATE '2026-01-10' AND DATE '2026-02-10'",
            f"date_add({column}, 7) > DATE '2026-02-01'",
            f"month({column}) = 2",
        ]
    else:
        forms += [
            f"{column} > {chance.randint(0, 40)}",
            f"{column} IN (1, 2, 3, 5, 8, 13, 21, 34)",
            f"{column} IS NOT DISTINCT FROM 7",
        ]
    found = chance.choice(forms)
    return f"NOT ({found})" if chance.random() < 0.2 else found


def where(chance: random.Random, *tables: tuple[str, str]) -> str:
    parts = [condition(chance, *chance.choice(tables)) for _ in range(chance.randint(1, 3))]
    return f" {chance.choice(['AND', 'OR'])} ".join(parts)


def single(chance: random.Random) -> str:
    return (
        "SELECT o.id, coalesce(o.status, 'none') AS status, CASE WHEN o.amount > 0 THEN o.amount ELSE 0 END AS gain, "
        f"concat(o.status, '-', o.cid) AS text, year(o.day) AS y FROM o AS o WHERE {where(chance, ('o', 'o'))}"
    )


def joined(chance: random.Random) -> str:
    kind = chance.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    return (
        f"SELECT c.region, o.id, o.amount, i.qty FROM c AS c {kind} o AS o ON c.id = o.cid "
        f"LEFT JOIN i AS i ON i.oid = o.id AND {condition(chance, 'i', 'i')} "
        f"WHERE {where(chance, ('c', 'c'), ('o', 'o'))}"
    )


def grouped(chance: random.Random) -> str:
    key = chance.choice(["o.status", "o.day", "c.region", "o.cid % 5"])
    return (
        f"SELECT {key} AS k, count(*) AS n, count(o.amount) AS m, sum(o.amount) AS total, min(o.day) AS first, "
        f"max(o.status) AS last, count(DISTINCT o.cid) AS cs FROM o AS o JOIN c AS c ON c.id = o.cid "
        f"WHERE {where(chance, ('o', 'o'), ('c', 'c'))} GROUP BY {key} HAVING count(*) > {chance.randint(0, 3)}"
    )


def windowed(chance: random.Random) -> str:
    part = chance.choice(["o.status", "o.cid", "month(o.day)"])
    order = chance.choice(["o.amount DESC NULLS LAST, o.id", "o.day ASC NULLS FIRST, o.id DESC"])
    return (
        f"SELECT o.id, row_number() OVER (PARTITION BY {part} ORDER BY {order}) AS rn, "
        f"sum(o.amount) OVER (PARTITION BY {part} ORDER BY {order} ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s, "
        f"lag(o.id, 1) OVER (PARTITION BY {part} ORDER BY {order}) AS before FROM o AS o "
        f"WHERE {where(chance, ('o', 'o'))}"
    )


def nested(chance: random.Random) -> str:
    form = chance.choice(
        [
            f"o.cid IN (SELECT c.id FROM c AS c WHERE {where(chance, ('c', 'c'))})",
            f"EXISTS (SELECT 1 FROM i AS i WHERE i.oid = o.id AND {condition(chance, 'i', 'i')})",
            f"NOT EXISTS (SELECT 1 FROM i AS i WHERE i.oid = o.id AND {condition(chance, 'i', 'i')})",
            "o.amount > (SELECT max(p.amount) - 60 FROM o AS p WHERE p.status = o.status)",
        ]
    )
    return (
        "SELECT o.id, o.amount, (SELECT count(*) FROM i AS i WHERE i.oid = o.id) AS items FROM o AS o "
        f"WHERE {form} AND {where(chance, ('o', 'o'))}"
    )


def combined(chance: random.Random) -> str:
    word = chance.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
    return (
        f"SELECT o.cid AS id, o.status AS s FROM o AS o WHERE {where(chance, ('o', 'o'))} {word} "
        f"SELECT c.id, c.region FROM c AS c WHERE {where(chance, ('c', 'c'))}"
    )


def named(chance: random.Random) -> str:
    return (
        "WITH best AS (SELECT o.cid, sum(o.amount) AS total FROM o AS o "
        f"WHERE {where(chance, ('o', 'o'))} GROUP BY o.cid), "
        "few AS (SELECT b.cid, b.total FROM best b ORDER BY b.total DESC NULLS LAST, b.cid NULLS LAST LIMIT 7) "
        "SELECT c.id, c.region, f.total FROM few f LEFT JOIN c AS c ON c.id = f.cid"
    )


FORMS: tuple[Callable[[random.Random], str], ...] = (single, joined, grouped, windowed, nested, combined, named)


def check(ways: Ways, seed: int) -> None:
    chance = random.Random(seed)
    filled = 0
    for _ in range(QUERIES_EACH):
        text = chance.choice(FORMS)(chance)
        plain, attached = ways.in_spark(text)
        assert attached == plain, (seed, text)
        of_duckdb, without_spark = ways.in_duckdb(text)
        assert without_spark == of_duckdb, (seed, text)
        filled += bool(plain and of_duckdb[1])
    assert filled > QUERIES_EACH // 3  # the queries find rows


@pytest.mark.parametrize("seed", rest_in_full(range(2), 1))
def test_random_queries_give_the_rows_of_each_engine(ways: Ways, seed: int) -> None:
    check(ways, seed)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2, 20))
def test_many_random_queries_give_the_rows_of_each_engine(ways: Ways, seed: int) -> None:
    check(ways, seed)


def test_a_statement_runs_in_spark(ways: Ways) -> None:
    text = "SELECT count(*) AS n FROM o WHERE id < :most"
    here = ways.connection.sql(text, {"most": 50}).to_pylist()
    ways.session.sql("USE spark_catalog.default")
    ways.session.catalog.dropTempView("o")  # which would be found before the table
    assert ways.connection.sql(text, {"most": 50}, engine=ways.session).to_pylist() == here
    assert ways.session.catalog.currentCatalog() == "spark_catalog"
    with pytest.raises(InvalidRequestError, match="expected a SparkSession"):
        ways.connection.sql(text, {"most": 50}, engine="spark")
