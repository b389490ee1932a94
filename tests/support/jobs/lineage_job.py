"""A job whose rows say what they were made from, run as a process of its own so that it can be killed.

It streams db.source, joins the one row of db.side to each row, and writes db.sink. A row of the source has the number
of its write, that of the side the number of its version; each row of the sink has both, the job, and the micro-batch
that wrote it: so the rows are the truth that the recorded lineage is compared with.

usage: python -m tests.support.jobs.lineage_job FOLDER NAME
It goes on as long as there is no file FOLDER/done, then to the end of what is there; or to the kill.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter

from lakelog.catalog import Catalog
from lakelog.spark import LakelogSink
from tests.support.servers.spark import make_session

ROWS_PER_WRITE = 4
DONE = "done"
_POLL_SECONDS = 1


def main(folder: Path, name: str) -> None:
    """Write what is there and what comes, one or two snapshots of the source in a batch."""
    (folder / f"{name}.group").write_text(str(os.getpgid(0)), encoding="utf-8")
    spark = make_session()
    query = _writer(spark, folder, name).start()
    while not (folder / DONE).exists():
        query.awaitTermination(_POLL_SECONDS)
    query.stop()
    write_all(spark, folder, name)
    spark.stop()


def write_all(spark: SparkSession, folder: Path, name: str) -> None:
    """Write what is there, to its end."""
    _writer(spark, folder, name).trigger(availableNow=True).start().awaitTermination()


def _writer(spark: SparkSession, folder: Path, name: str) -> DataStreamWriter:
    catalog = Catalog(str(folder / "lake"))
    source, side = (catalog.load_table(f"db.{one}").path for one in ("source", "side"))
    write = LakelogSink("db.sink", catalog=catalog, job=name, task_count=2)

    def write_numbered(batch: DataFrame, batch_id: int) -> None:
        write(batch.withColumn("batch", sf.lit(batch_id).cast("bigint")), batch_id)

    stream = spark.readStream.format("lakelog").option("maxRowsPerTrigger", str(2 * ROWS_PER_WRITE))
    changes = stream.option("log.scan", "from-snapshot").option("scan.snapshot-id", "1").load(source)
    version = spark.read.format("lakelog").load(side).select(sf.col("version").alias("side"))
    rows = changes.crossJoin(version).withColumn("job", sf.lit(name))
    writer = rows.writeStream.foreachBatch(write_numbered)
    return writer.option("checkpointLocation", str(folder / f"{name}-checkpoint"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
