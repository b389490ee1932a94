"""A reader of a normalized stream, run as a process of its own so that it can be killed in the middle of a batch.

usage: python -m tests.support.jobs.normalize_job FOLDER [KILL_AT]
FOLDER holds lake/ (with the table db.t); the checkpoint and the rows, a Parquet file a batch, go there too. In the
batch KILL_AT the first task that has read a part of the log dies with the whole process group.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from tests.support.servers.spark import make_session
from tests.support.streams.streams import keep_batch


def main(folder: Path, kill_at: int | None) -> None:
    """Read all that there is, or up to the kill."""
    spark = make_session()
    changes = (
        spark.readStream.format("lakelog")
        .option("row-kind", "true")
        .option("scan.normalize", "true")
        .option("maxRowsPerTrigger", "40")
        .load(str(folder / "lake" / "db.db" / "t"))
    )
    (folder / "out").mkdir(exist_ok=True)
    query = (
        changes.writeStream.foreachBatch(partial(keep_or_die, folder, os.getpgid(0), kill_at))
        .option("checkpointLocation", str(folder / "reader"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def keep_or_die(folder: Path, group: int, kill_at: int | None, batch: DataFrame, batch_id: int) -> None:
    """Keep the rows of a batch; in the one to die in, kill every process while its tasks give their rows."""
    if batch_id == kill_at:
        batch = batch.mapInArrow(partial(_die, group), batch.schema)
    keep_batch(folder / "out", batch, batch_id)


def _die(group: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, 1)
        os.killpg(group, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
