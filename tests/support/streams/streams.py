"""Streams of change files into the table db.t, and what a reader keeps of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Table
from lakelog.spark import write_stream
from tests.support.logs.changes import ChangeHistory, write_files

CHANGES_DDL = "id BIGINT, name STRING, amount BIGINT, _row_kind STRING"


def feed(folder: Path, history: ChangeHistory, files: range) -> None:
    """Let these files of the history arrive in `folder/source`."""
    part = ChangeHistory(files=[history.files[at] for at in files], truths=[history.truths[at] for at in files])
    write_files(part, folder / f"new-{files.start}")
    (folder / "source").mkdir(exist_ok=True)
    for file in sorted((folder / f"new-{files.start}").iterdir()):
        file.rename(folder / "source" / f"{files.start:04d}-{file.name}")


def changes_in(spark: SparkSession, folder: Path) -> DataFrame:
    """The change files as a stream, a file a batch."""
    return spark.readStream.schema(CHANGES_DDL).option("maxFilesPerTrigger", 1).parquet(str(folder / "source"))


def write_changes(spark: SparkSession, folder: Path, table: Table, *, name: str = "job") -> str:
    """Stream what is in the source folder into the table; the query's id."""
    query = write_stream(changes_in(spark, folder), table, checkpoint_location=folder / name, available_now=True)
    query.awaitTermination()
    return query.id


def keep_batch(out: Path, batch: DataFrame, batch_id: int) -> None:
    """Keep the batch's rows where a replay would put them again."""
    pq.write_table(batch.toArrow(), out / f"batch-{batch_id:04d}.parquet")
