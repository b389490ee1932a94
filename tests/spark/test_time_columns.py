"""Columns of the type TIME in a session as users have it: Spark's setting for this type is off by default."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any  # Any: options of tables

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.spark import attach, detach, read, write_stream
from lakelog.spark.session import TIME_CONF, catalog_of, prepare_session
from tests.support.examples import pairs_in_full, rest_in_full

DDL = "id INT NOT NULL, t TIME(3), n STRING"
AT, LATER = dt.time(1, 2, 3, 4_000), dt.time(5, 6)
Row = tuple[int, dt.time, str]
KINDS: dict[str, dict[str, Any]] = {
    "primary key": {"primary_keys": ["id"], "options": {"bucket": "1"}},
    "dynamic buckets": {"primary_keys": ["id"]},
    "time as key": {"primary_keys": ["id", "t"], "options": {"bucket": "1"}},
    "append-only": {},
    "value-count": {"options": {"write-mode": "change-log", "bucket": "1"}},
}


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session without the setting that the tests' Spark has."""
    found = spark.newSession()
    found.conf.unset(TIME_CONF)
    assert found.conf.get(TIME_CONF) == "false"
    yield found
    if catalog_of(found, "lake") is not None:
        detach(found, "lake")


def table_of(catalog: Catalog, name: str, first: int, options: dict[str, Any]) -> Table:
    table = catalog.create_table(f"db.{name}", schema=DDL, **options)
    columns = [pa.array([first, first + 1], pa.int32()), pa.array([AT] * 2, pa.time32("ms")), pa.array(["x", "y"])]
    table.write(pa.table(columns, names=["id", "t", "n"]))
    return table


def rows_of(table: Table) -> list[Row]:
    return sorted((row["id"], row["t"], row["n"]) for row in table.to_arrow().to_pylist())


STATEMENTS: dict[str, list[Row]] = {
    "UPDATE lake.db.t SET n = 'z' WHERE t = TIME '01:02:03.004'": [(1, AT, "z"), (2, AT, "z")],
    "UPDATE lake.db.t SET n = 'z' WHERE id IN (SELECT id FROM lake.db.s)": [(1, AT, "x"), (2, AT, "z")],
    "DELETE FROM lake.db.t WHERE t = TIME '01:02:03.004' AND id = 1": [(2, AT, "y")],
    "DELETE FROM lake.db.t WHERE id IN (SELECT max(id) FROM lake.db.t)": [(1, AT, "x")],
    "MERGE INTO lake.db.t t USING lake.db.s s ON t.id = s.id AND t.t = s.t"
    " WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *": [
        (1, AT, "x"),
        (2, AT, "x"),
        (3, AT, "y"),
    ],
    "INSERT INTO lake.db.t SELECT 9, CAST(TIME '05:06:00' AS TIME(3)), 'v'": [
        (1, AT, "x"),
        (2, AT, "y"),
        (9, LATER, "v"),
    ],
}


@pytest.mark.parametrize(("statement", "kind"), pairs_in_full(STATEMENTS, KINDS))
def test_statements_take_times(statement: str, kind: str, session: SparkSession, tmp_path: Path) -> None:
    expected = STATEMENTS[statement]
    catalog = Catalog(str(tmp_path))
    table = table_of(catalog, "t", 1, KINDS[kind])
    table_of(catalog, "s", 2, {})
    attach(session, "lake", tmp_path)

    session.sql(statement)

    assert rows_of(table) == expected
    copied = f"CREATE TABLE lake.db.c AS SELECT * FROM lake.db.t WHERE t <= TIME '{expected[-1][1]}'"
    session.sql(copied)
    assert rows_of(catalog.load_table("db.c")) == expected


def streamed(session: SparkSession, source: Table, target: Table, folder: Path) -> None:
    rows = session.readStream.format("lakelog").load(source.path).drop("_row_kind")
    write_stream(rows, target, checkpoint_location=folder / "ck", available_now=True).awaitTermination()


def batch(session: SparkSession, source: Table, target: Table, _folder: Path) -> None:
    read(session, source).write.format("lakelog").mode("append").save(target.path)


@pytest.mark.parametrize("door", rest_in_full([batch, streamed], 1))
def test_other_doors_take_times(
    door: Callable[[SparkSession, Table, Table, Path], None], session: SparkSession, tmp_path: Path
) -> None:
    catalog = Catalog(str(tmp_path / "lake"))
    source, target = table_of(catalog, "s", 1, {}), catalog.create_table("db.t", schema=DDL, primary_keys="id")
    attach(session, "lake", tmp_path / "lake")

    door(session, source, target, tmp_path)

    assert rows_of(target) == rows_of(source)


def test_a_setting_of_the_user_stays(session: SparkSession) -> None:
    session.conf.set(TIME_CONF, "false")
    prepare_session(session)

    assert session.conf.get(TIME_CONF) == "false"
