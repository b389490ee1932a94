"""A driver of the benchmark `cluster`, run as a program by an environment with the wheel: upserts, measured inside.

usage: cluster_driver.py SETTINGS
SETTINGS is JSON: `master`, `conf`, `warehouse`, `store` and `kafka`. Each line of its input is a run, in JSON: the
table to make (`name`, `schema`, `options`), the folders of its `base` and of its `batches`, and where its `checkpoints`
go. The answer is a line: `answer` and {"wall_s": ..., "batch_ms": [...]}. Time counts as in the benchmark `upsert`.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any  # Any: what JSON gives

from pyspark.sql import SparkSession

from lakelog.catalog import Catalog
from lakelog.spark import write_stream

SPARK_SCHEMA = "id BIGINT, amount BIGINT, price DOUBLE, batch BIGINT, city STRING, note STRING, at TIMESTAMP"


def main() -> None:
    """Run what the input says, until it ends."""
    settings: dict[str, Any] = json.loads(sys.argv[1])
    builder = SparkSession.builder.master(settings["master"]).appName("lakelog benchmark")
    for key, value in settings["conf"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    catalog = Catalog(settings["warehouse"], settings["kafka"], options=settings["store"])
    print("answer ready", flush=True)
    for line in sys.stdin:
        print("answer", json.dumps(run(spark, catalog, json.loads(line))), flush=True)
    spark.stop()


def run(spark: SparkSession, catalog: Catalog, given: dict[str, Any]) -> dict[str, object]:
    """Make a table, load the base, and measure the batches."""
    name = given["name"]
    catalog.drop_table(name, if_exists=True)
    catalog.create_table(name, schema=given["schema"], primary_keys=["id"], options=given["options"])
    upsert(spark, catalog, name, given["base"], f"{given['checkpoints']}/base")
    began = time.perf_counter()
    batch_ms = upsert(spark, catalog, name, given["batches"], f"{given['checkpoints']}/batches")
    return {"wall_s": time.perf_counter() - began, "batch_ms": batch_ms}


def upsert(spark: SparkSession, catalog: Catalog, name: str, folder: str, checkpoint: str) -> list[int]:
    """Write the files of a folder, a micro-batch each; the durations of the batches, in ms."""
    rows = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"file://{folder}")
    query = write_stream(rows, name, catalog=catalog, checkpoint_location=checkpoint, available_now=True)
    query.awaitTermination()
    return [progress["batchDuration"] for progress in query.recentProgress]


if __name__ == "__main__":
    main()
