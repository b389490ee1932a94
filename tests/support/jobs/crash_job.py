"""A pipeline as a user would write it, run as a process of its own so that it can be killed.

It streams the first files into the table, reads the table hybrid (snapshot, then log) with a query of its own, lets the
other files arrive, writes again and reads again. Started a second time it goes on from its checkpoints.

usage: python -m tests.support.jobs.crash_job FOLDER [NAME]
FOLDER holds lake/ (with the table db.t), staged/ and source/; checkpoints and the reader's rows go there too.
NAME tells several jobs on one table apart.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog
from lakelog.spark import write_stream
from tests.support.servers.spark import make_session

TABLE = "db.t"
CHANGES_DDL = "id BIGINT, name STRING, amount BIGINT, _row_kind STRING"


def main(folder: Path, name: str) -> None:
    """Run the pipeline to its end, or to the kill."""
    (folder / f"{name}.group").write_text(str(os.getpgid(0)), encoding="utf-8")
    spark = make_session()
    write(spark, folder, name)
    read(spark, folder, name)
    for file in sorted((folder / f"{name}-staged").glob("*.parquet")):
        file.rename(folder / f"{name}-source" / file.name)
    write(spark, folder, name)
    read(spark, folder, name)
    spark.stop()


def write(spark: SparkSession, folder: Path, name: str) -> None:
    """Stream what is in the source folder into the table, a file a batch."""
    source = str(folder / f"{name}-source")
    changes = spark.readStream.schema(CHANGES_DDL).option("maxFilesPerTrigger", 1).parquet(source)
    query = write_stream(
        changes,
        TABLE,
        catalog=Catalog(str(folder / "lake")),
        checkpoint_location=str(folder / f"{name}-checkpoint"),
        available_now=True,
    )
    query.awaitTermination()


def read(spark: SparkSession, folder: Path, name: str) -> None:
    """Stream the table into one Parquet file a batch; a replayed batch replaces its file."""
    out = folder / f"{name}-read"
    out.mkdir(exist_ok=True)
    rows = (
        spark.readStream.format("lakelog")
        .option("path", str(folder / "lake" / "db.db" / "t"))
        .option("row-kind", "true")
        .load()
    )
    query = (
        rows.writeStream.foreachBatch(partial(keep_batch, out))
        .option("checkpointLocation", str(folder / f"{name}-read-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def keep_batch(out: Path, batch: DataFrame, batch_id: int) -> None:
    """Write the batch's rows where a replay would write them again."""
    pq.write_table(batch.toArrow(), out / f"batch-{batch_id:04d}.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "job")
