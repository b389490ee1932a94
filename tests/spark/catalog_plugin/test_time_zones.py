"""Times without a zone in arguments and conditions: in Spark they are in the session's zone, as in plain Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.catalog import Catalog

ZONE = "Europe/Berlin"
CONDITION = "part = TIMESTAMP '2026-01-01 01:00:00'"
_Door = Callable[[SparkSession, Catalog], object]


@pytest.fixture
def berlin(session: SparkSession) -> Iterator[SparkSession]:
    """The session with three partitions of an hour each in `lake.db.t`, and the same rows in the view `plain`."""
    session.conf.set("spark.sql.session.timeZone", ZONE)
    session.sql("CREATE DATABASE lake.db")
    session.sql("CREATE TABLE lake.db.t (id INT, part TIMESTAMP) PARTITIONED BY (part)")
    rows = session.sql(
        "SELECT id, TIMESTAMP '2026-01-01 00:00:00' + make_interval(0, 0, 0, 0, id) AS part FROM range(3)"
    )
    rows.createOrReplaceTempView("plain")
    session.sql("INSERT INTO lake.db.t SELECT CAST(id AS INT), part FROM plain")
    yield session
    session.catalog.dropTempView("plain")


def ids(rows: DataFrame) -> list[int]:
    """The ids, sorted."""
    return sorted(row.id for row in rows.select("id").collect())


def chosen(spark: SparkSession, where: str) -> list[int]:
    """The ids that plain Spark finds by a condition."""
    return ids(spark.sql(f"SELECT * FROM plain WHERE {where}"))


CHANGES: dict[str, _Door] = {
    "drop_partitions": lambda spark, _: spark.sql(
        f'CALL lake.sys.drop_partitions(table => "db.t", where => "{CONDITION}")'
    ),
    "DELETE": lambda spark, _: spark.sql(f"DELETE FROM lake.db.t WHERE {CONDITION}"),
    "write": lambda spark, catalog: lakelog.spark.write(
        spark.table("plain").where("id < 0").selectExpr("CAST(id AS INT) AS id", "part"),
        "db.t",
        mode="overwrite",
        where=CONDITION,
        catalog=catalog,
    ),
    "merge": lambda spark, catalog: (
        lakelog.spark.merge(spark.table("plain").where("id < 0"), "db.t", on="id", catalog=catalog)
        .when_not_matched_by_source_delete(CONDITION)
        .execute()
    ),
}
READS: dict[str, Callable[[SparkSession, Catalog], DataFrame]] = {
    "SELECT": lambda spark, _: spark.sql(f"SELECT * FROM lake.db.t WHERE {CONDITION}"),
    "option": lambda spark, _: spark.read.option("where", CONDITION).table("lake.db.t"),
    "read": lambda spark, catalog: lakelog.spark.read(spark, "db.t", where=CONDITION, catalog=catalog),
    "system table": lambda spark, catalog: lakelog.spark.read(spark, "db.t$ro", where=CONDITION, catalog=catalog),
}


def warehouse(spark: SparkSession) -> Catalog:
    """The catalog that is attached."""
    location = spark.sql("DESCRIBE DATABASE lake.db").where("info_name = 'Location'").first()
    assert location is not None
    return Catalog(str(location.info_value).removeprefix("file:").rpartition("/")[0])


@pytest.mark.parametrize("door", CHANGES)
def test_each_change_finds_the_rows_that_plain_spark_finds(berlin: SparkSession, door: str) -> None:
    CHANGES[door](berlin, warehouse(berlin))

    assert ids(berlin.table("lake.db.t")) == chosen(berlin, f"NOT {CONDITION}")


@pytest.mark.parametrize("door", READS)
def test_each_read_finds_the_rows_that_plain_spark_finds(berlin: SparkSession, door: str) -> None:
    assert ids(READS[door](berlin, warehouse(berlin))) == chosen(berlin, CONDITION)


@pytest.mark.parametrize("zone", ["+02:00", "-03:30", "UTC+2", "Z"])
def test_a_session_whose_zone_is_an_offset_reads_and_deletes(berlin: SparkSession, zone: str) -> None:
    berlin.conf.set("spark.sql.session.timeZone", zone)
    where = "part >= TIMESTAMP '2026-01-01 01:00:00'"

    berlin.sql(f'CALL lake.sys.drop_partitions(table => "db.t", where => "{where}")')

    assert ids(berlin.table("lake.db.t").where("id >= 0")) == chosen(berlin, f"NOT {where}")


def test_an_age_that_is_a_time_is_in_the_zone_of_the_session(berlin: SparkSession) -> None:
    for number in range(3):
        berlin.sql(f"INSERT INTO lake.db.t VALUES ({number}, TIMESTAMP '2026-01-01 00:00:00')")
    catalog = warehouse(berlin)
    table = catalog.load_table("db.t")
    since = datetime.fromtimestamp(table.snapshot(snapshot_id=3).time_millis / 1000, UTC)  # type: ignore[union-attr]
    shown = since.astimezone(ZoneInfo(ZONE)).replace(tzinfo=None)
    first = table.snapshots().__next__().id

    berlin.sql(f"CALL lake.sys.expire_snapshots(table => 'db.t', retain_min => 1, older_than => '{shown}')")

    assert first == 1
    assert min(one.id for one in catalog.load_table("db.t").snapshots()) == 2
