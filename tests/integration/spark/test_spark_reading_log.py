"""Watermarks, batch reads of a log and aligned streams with real Spark and a real broker."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog, Table
from lakelog.spark import write_stream

pytestmark = pytest.mark.integration

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("at", pa.timestamp("us", tz="UTC"))])
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LOGGED = {"bucket": "2", "log.system": "kafka"}


def table_of(folder: Path, bootstrap_servers: str, options: dict[str, str]) -> Table:
    catalog = Catalog(folder / "lake", bootstrap_servers=bootstrap_servers)
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)


def events(folder: Path, minutes: Sequence[int]) -> None:
    """A file for each event, in the order of arrival."""
    (folder / "in").mkdir()
    for number, minute in enumerate(minutes):
        rows = pa.table({"id": [number], "at": [NOON + timedelta(minutes=minute)]}, schema=SCHEMA)
        path = folder / "in" / f"{number}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (number, number))


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    rows = spark.readStream.schema("id BIGINT, at TIMESTAMP").option("maxFilesPerTrigger", 1)
    return rows.parquet(str(folder / "in")).withWatermark("at", "1 minute")


def watermarks(table: Table) -> list[int | None]:
    """The watermark of each batch's snapshot, in minutes after noon."""
    found = [one.watermark for one in table.snapshots() if one.commit_kind.value == "APPEND"]
    return [None if at is None else round(at / 60_000 - NOON.timestamp() / 60) for at in found]


def test_the_watermark_of_a_batch_is_in_its_snapshot_and_with_its_records(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    table = table_of(tmp_path, bootstrap_servers, LOGGED)
    events(tmp_path, [10, 5, 20, 15])
    query = write_stream(stream(spark, tmp_path), table, checkpoint_location=tmp_path / "ck", available_now=True)
    query.awaitTermination()

    assert watermarks(table) == [None, 9, 9, 19]
    source = spark.read.format("lakelog").options(**{"startingOffsets": "earliest", "metadata-columns": "watermark"})
    rows = source.load(table.path)
    found = {row.id: row.minutes for row in rows.select("id", _minutes_after_noon("_watermark")).collect()}
    assert found == {0: None, 1: 9, 2: 9, 3: 19}
    progress = {one.batchId: one.eventTime.get("watermark", "") for one in query.recentProgress}
    assert progress[3].startswith("2026-01-31T12:19")


def _minutes_after_noon(column: str) -> Column:
    return ((sf.unix_timestamp(column) - int(NOON.timestamp())) / 60).cast("int").alias("minutes")


def test_the_watermark_of_a_batch_is_in_its_snapshot_without_a_log(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    by_helper = table_of(tmp_path, bootstrap_servers, {})
    by_format = Catalog(tmp_path / "lake").create_table("db.u", schema=SCHEMA, primary_keys=["id"])
    events(tmp_path, [10, 5, 20])
    rows = stream(spark, tmp_path)
    write_stream(rows, by_helper, checkpoint_location=tmp_path / "ck1", available_now=True).awaitTermination()
    writer = rows.writeStream.format("lakelog").option("path", by_format.path)
    writer = writer.option("checkpointLocation", str(tmp_path / "ck2")).trigger(availableNow=True)
    writer.start().awaitTermination()

    assert watermarks(by_helper) == watermarks(by_format) == [None, 9, 9]


@pytest.mark.full
def test_a_batch_without_rows_brings_the_last_watermark_into_a_tag(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    """The last batch comes when time has passed for the stateful query: it has a later watermark, and no row."""
    tagged = {"tag.automatic-creation": "watermark", "tag.creation-period": "hourly"}
    options = {**LOGGED, **tagged, "snapshot.watermark-idle-timeout": "10 min"}
    table = table_of(tmp_path, bootstrap_servers, options)
    events(tmp_path, [31, 151])
    rows = stream(spark, tmp_path).dropDuplicatesWithinWatermark(["id"])
    write_stream(rows, table, checkpoint_location=tmp_path / "ck", available_now=True).awaitTermination()

    assert watermarks(table) == [None, 30, 150]
    assert [tag.name for tag in table.tags.list()] == ["2026-01-31 11", "2026-01-31 13"]


def test_spark_reads_a_part_of_the_log_as_a_batch(spark: SparkSession, tmp_path: Path, bootstrap_servers: str) -> None:
    table = table_of(tmp_path, bootstrap_servers, LOGGED)
    events(tmp_path, [1, 2, 3])
    write_stream(
        stream(spark, tmp_path), table, checkpoint_location=tmp_path / "ck", available_now=True
    ).awaitTermination()
    columns = {"metadata-columns": "batch_id,snapshot_id", "columns": "id"}

    rows = spark.read.format("lakelog").options(**columns, startingOffsets="earliest").load(table.path)

    found = sorted(tuple(row) for row in rows.collect())
    appends = [one.id for one in table.snapshots() if one.commit_kind.value == "APPEND"]
    assert found == [(number, number, snapshot) for number, snapshot in enumerate(appends)]
    assert rows.where("_batch_id = 1").count() == 1
    chosen = spark.read.format("lakelog").options(**columns, startingOffsets="earliest").schema("_batch_id BIGINT")
    assert sorted(row[0] for row in chosen.load(table.path).collect()) == [0, 1, 2]
