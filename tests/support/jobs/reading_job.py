"""A query that reads the table db.t to its end and keeps each batch, in a process of its own so that it can be killed.

usage: python -m tests.support.jobs.reading_job FOLDER [BATCH before|after] [KEY=VALUE ...]
FOLDER holds lake/; the checkpoint and the reader's rows go there too. The process kills itself with its JVM before or
after the rows of that batch are kept. KEY=VALUE are options of the read.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from lakelog.catalog import Catalog
from tests.support.servers.spark import make_session
from tests.support.streams.streams import keep_batch


def main(folder: Path, kill_at: int | None, order: str, options: dict[str, str]) -> None:
    """Read to the end, or to the kill."""

    def keep(batch: DataFrame, batch_id: int) -> None:
        if batch_id == kill_at and order == "before":
            batch.count()  # the tasks have read it
            os.killpg(0, signal.SIGKILL)
        keep_batch(folder / "out", batch, batch_id)
        if batch_id == kill_at:
            os.killpg(0, signal.SIGKILL)

    (folder / "out").mkdir(exist_ok=True)
    spark = make_session()
    table = Catalog(folder / "lake").load_table("db.t")
    reader = spark.readStream.format("lakelog").option("row-kind", "true").option("maxRowsPerTrigger", "5")
    writer = reader.options(**options).load(table.path).writeStream.foreachBatch(keep).trigger(availableNow=True)
    writer.option("checkpointLocation", str(folder / "reader")).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    given = [one for one in sys.argv[2:] if "=" not in one]
    named = dict(one.split("=", 1) for one in sys.argv[2:] if "=" in one)
    main(Path(sys.argv[1]), int(given[0]) if given else None, given[1] if given else "", named)
