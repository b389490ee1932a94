"""Batch writes of Spark to tables with a log: append, overwrites, INSERT, a merge; beside a stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.catalog import Catalog, Table
from lakelog.lineage import tainted
from tests.support.logs.statements import check_folds, rows_in

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int64())])
DDL = "k BIGINT, v BIGINT"


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path, bootstrap_servers=bootstrap_servers)


def logged(catalog: Catalog, servers: str, keys: list[str], **options: str) -> Table:
    given = {"bucket": "2", "log.system": "kafka", "log.kafka.bootstrap.servers": servers} | options
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=keys, options=given)


@pytest.mark.full
def test_data_frames_are_written_as_statements(spark: SparkSession, catalog: Catalog, bootstrap_servers: str) -> None:
    table = logged(catalog, bootstrap_servers, ["k"], **{"log.changelog-mode": "all"})
    rows = spark.range(0, 40, 1, 4).selectExpr("id AS k", "id % 3 AS v")
    rows.write.format("lakelog").mode("append").save(table.path)
    assert rows_in(table) == Counter((key, key % 3) for key in range(40))

    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW logged USING lakelog OPTIONS (path '{table.path}')")
    spark.sql("INSERT INTO logged VALUES (1, 100), (50, 50)")
    table.delete("k >= 2 AND k < 40")
    assert rows_in(table) == Counter([(0, 0), (1, 100), (50, 50)])

    source = spark.createDataFrame([(1, 7), (60, 60)], DDL)
    lakelog.spark.merge(source, table).when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows_in(table) == Counter([(0, 0), (1, 7), (50, 50), (60, 60)])

    spark.createDataFrame([(1, 8), (2, 9)], DDL).write.format("lakelog").mode("overwrite").save(table.path)
    assert rows_in(table) == Counter([(1, 8), (2, 9)])
    check_folds(table, has_key=True)


def test_rows_that_do_not_fit_leave_the_log_as_it_is(
    spark: SparkSession, catalog: Catalog, bootstrap_servers: str
) -> None:
    table = logged(catalog, bootstrap_servers, [])
    spark.createDataFrame([(1, 1), (1, 1), (2, None)], DDL).write.format("lakelog").mode("append").save(table.path)
    assert rows_in(table) == Counter({(1, 1): 2, (2, None): 1})

    with pytest.raises(Exception, match="takes no overwrite: without primary key"):
        spark.createDataFrame([(3, 3)], DDL).write.format("lakelog").mode("overwrite").save(table.path)
    with pytest.raises(Exception, match="column"):
        spark.createDataFrame([(None, 3)], DDL).write.format("lakelog").mode("append").save(table.path)
    check_folds(table, has_key=False)
    assert rows_in(table) == Counter({(1, 1): 2, (2, None): 1})


def test_a_stream_goes_on_beside_statements(
    spark: SparkSession, catalog: Catalog, bootstrap_servers: str, tmp_path: Path
) -> None:
    table = logged(catalog, bootstrap_servers, ["k"])
    folder = tmp_path / "in"
    for number in range(3):
        spark.createDataFrame([(number, number), (9, number)], DDL).coalesce(1).write.mode("append").parquet(
            str(folder)
        )
        stream = spark.readStream.schema(DDL).parquet(str(folder))
        lakelog.spark.write_stream(
            stream, table, checkpoint_location=tmp_path / "ck", available_now=True
        ).awaitTermination()
        table.update({"v": 70 + number}, where="k = 9")
    assert rows_in(table) == Counter([(0, 0), (1, 1), (2, 2), (9, 72)])
    check_folds(table, has_key=True)


DAYS = "day BIGINT, k BIGINT, v BIGINT"
NEW = "SELECT CAST(1 AS BIGINT) AS day, CAST(9 AS BIGINT) AS k, CAST(9 AS BIGINT) AS v"


def overwritten(spark: SparkSession, table: Table) -> None:
    spark.sql(NEW).write.format("lakelog").mode("overwrite").save(table.path)


def overwritten_partition(spark: SparkSession, table: Table) -> None:
    write = spark.sql(NEW).write.format("lakelog").mode("overwrite")
    write.option("partitionOverwriteMode", "dynamic").save(table.path)


def overwritten_where(spark: SparkSession, table: Table) -> None:
    spark.sql(NEW).write.format("lakelog").mode("overwrite").option("where", "day = 1").save(table.path)


def insert_overwritten(spark: SparkSession, table: Table) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW days USING lakelog OPTIONS (path '{table.path}')")
    spark.sql(f"INSERT OVERWRITE days {NEW}")


def written(spark: SparkSession, table: Table) -> None:
    lakelog.spark.write(spark.sql(NEW), table, mode="overwrite")


def written_partition(spark: SparkSession, table: Table) -> None:
    lakelog.spark.write(spark.sql(NEW), table, mode="overwrite-partitions")


def other_partition(spark: SparkSession, table: Table) -> None:
    lakelog.spark.write(spark.sql(NEW.replace("1 AS", "2 AS")), table, mode="overwrite-partitions")


def appended(spark: SparkSession, table: Table) -> None:
    spark.sql(NEW).write.format("lakelog").mode("append").save(table.path)


@pytest.mark.parametrize(
    ("write", "is_mend"),
    [
        (overwritten, True),
        (overwritten_partition, True),
        (overwritten_where, True),
        (insert_overwritten, True),
        (written, True),
        (written_partition, True),
        (other_partition, False),
        (appended, False),
    ],
)
def test_an_overwrite_by_spark_is_a_mend_of_what_it_replaces(
    spark: SparkSession, catalog: Catalog, write: Callable[[SparkSession, Table], None], is_mend: bool
) -> None:
    options = {"bucket": "2", "log.system": "kafka"}
    table = catalog.create_table(
        "db.days", schema=DAYS, primary_keys=["day", "k"], partition_keys=["day"], options=options
    )
    table.write(pa.table({"day": [0], "k": [0], "v": [0]}))
    table.write(pa.table({"day": [1], "k": [1], "v": [1]}))  # wrong

    write(spark, table)

    (found,) = tainted(catalog, "db.days", 2).tables.to_pylist()
    assert found["holds_tainted_rows"] is not is_mend
    assert (found["command"] is None) is is_mend
