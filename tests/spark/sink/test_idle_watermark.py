"""A stream whose last batch has no rows: it makes the snapshot that a tag waits for."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog, Table
from lakelog.filestore.refs.tags import auto_tags
from lakelog.spark import write_stream

HALF_PAST_TWO = 1_768_055_400  # 2026-01-10 14:30 UTC
HOUR = 3_600
HOURLY = {"bucket": "1", "tag.automatic-creation": "watermark", "tag.creation-period": "hourly"}
HOURLY |= {"snapshot.watermark-idle-timeout": "10 min"}


def written(spark: SparkSession, folder: Path, *, by_format: bool) -> Table:
    """A table after a stream of two rows, two hours apart, and a batch without rows behind them."""
    auto_tags._next.clear()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("seconds", pa.int64())])
    table = Catalog(folder).create_table("db.t", schema=schema, primary_keys=["id"], options=HOURLY)
    (folder / "in").mkdir()
    for number in range(2):
        rows = {"id": [number], "seconds": [HALF_PAST_TWO + 2 * HOUR * number]}
        path = folder / "in" / f"{number}.parquet"
        pq.write_table(pa.table(rows), path)
        os.utime(path, (HALF_PAST_TWO + number, HALF_PAST_TWO + number))  # the order in which Spark takes files
    read = spark.readStream.schema("id BIGINT, seconds BIGINT").option("maxFilesPerTrigger", 1)
    rows_of = read.parquet(str(folder / "in")).withColumn("at", sf.timestamp_seconds("seconds"))
    once = rows_of.withWatermark("at", "0 seconds").dropDuplicatesWithinWatermark(["id"]).drop("at")
    if by_format:
        writer = once.writeStream.format("lakelog").option("path", table.path).trigger(availableNow=True)
        writer.option("checkpointLocation", str(folder / "ck")).start().awaitTermination()
    else:
        write_stream(once, table, checkpoint_location=folder / "ck", available_now=True).awaitTermination()
    return table


@pytest.mark.parametrize("by_format", [False, pytest.param(True, marks=pytest.mark.full)])
def test_the_last_watermark_of_an_idle_stream_is_tagged(spark: SparkSession, tmp_path: Path, by_format: bool) -> None:
    table = written(spark, tmp_path, by_format=by_format)
    appended = [snapshot.delta_record_count for snapshot in table.snapshots() if snapshot.commit_kind.value == "APPEND"]
    assert appended == [1, 1, 0]
    assert [tag.name for tag in table.tags.list()] == ["2026-01-10 13", "2026-01-10 15"]
