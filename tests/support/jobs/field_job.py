"""A job of a pipeline, run as a process of its own so that it can be killed: streams one table into another one.

usage: python -m tests.support.jobs.field_job FOLDER NAME SOURCE SINK
The program of each batch is another one than that before: `v` is made from `a` in even batches, from `a` and `b` in odd
ones, and each row has the number of its batch. It goes on as long as there is no file FOLDER/done, then to the end of
what is there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog
from lakelog.spark import LakelogSink
from tests.support.servers.spark import make_session

DONE = "done"
_POLL_SECONDS = 1


def main(folder: Path, name: str, source: str, sink: str) -> None:
    """Stream until the file is there, then what is left."""
    (folder / f"{name}.group").write_text(str(os.getpgid(0)), encoding="utf-8")
    spark = make_session()
    while not (folder / DONE).exists():
        run(spark, folder, name, source, sink)
    run(spark, folder, name, source, sink)
    spark.stop()


def run(spark: SparkSession, folder: Path, name: str, source: str, sink: str) -> None:
    """Write what is there, one snapshot of the source in a batch."""
    catalog = Catalog(str(folder / "lake"))
    write = LakelogSink(sink, catalog=catalog, job=name, task_count=1)

    def write_numbered(batch: DataFrame, batch_id: int) -> None:
        made = sf.col("a") + sf.col("b") if batch_id % 2 else sf.col("a") * 2
        write(batch.select("id", "a", "b", made.alias("v"), sf.lit(batch_id).cast("bigint").alias("batch")), batch_id)

    stream = spark.readStream.format("lakelog").option("maxRowsPerTrigger", "1")
    rows = stream.load(catalog.load_table(source).path)
    writer = rows.writeStream.foreachBatch(write_numbered).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder / f"{name}-checkpoint")).start()
    while not query.awaitTermination(_POLL_SECONDS):
        pass


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
