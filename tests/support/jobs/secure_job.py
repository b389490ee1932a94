"""A Spark that writes a table with a log by a profile, and reads it: `python -m tests.support.jobs.secure_job FOLDER`.

Everything that Spark leaves goes into the folder: scratch, event log, checkpoints; plans and logs are printed.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from lakelog.catalog import Catalog
from lakelog.spark import read, register, write_stream
from tests.support.logs.promises import check_log_equals_files

CHANGES = [{"id": number, "v": number} for number in range(20)]


def main(folder: Path) -> None:
    """Write in one stream, read in another, by both ways to read."""
    logging.basicConfig(level=logging.DEBUG)
    (folder / "events").mkdir()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    settings = {
        "spark.local.dir": str(folder / "scratch"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.sql.shuffle.partitions": "2",
        "spark.lakelog.kafka.profile": "prod",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("INFO")
    register(spark)
    catalog = Catalog(folder / "lake", options={"kafka.profile": "prod"})
    options = {"log.system": "kafka", "bucket": "2", "log.kafka.profile": "prod"}
    table = catalog.create_table("db.t", schema="id BIGINT NOT NULL, v BIGINT", primary_keys=["id"], options=options)
    (folder / "changes").mkdir()
    (folder / "changes" / "1.json").write_text("\n".join(map(json.dumps, CHANGES)))
    rows = spark.readStream.schema("id BIGINT, v BIGINT").json(str(folder / "changes"))
    write_stream(rows, table, checkpoint_location=folder / "written", available_now=True).awaitTermination()
    check_log_equals_files(table)

    frame = read(spark, table)
    frame.explain("extended")
    assert frame.count() == len(CHANGES)
    stream = spark.readStream.format("lakelog").option("path", table.path).option("kafka.profile", "prod").load()
    stream.explain(True)
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "read"))
        .trigger(availableNow=True)
        .start(str(folder / "copy"))
    )
    query.awaitTermination()
    query.explain(True)
    print(query.lastProgress)
    print(spark.sparkContext.getConf().toDebugString())
    assert spark.read.parquet(str(folder / "copy")).count() == len(CHANGES)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
