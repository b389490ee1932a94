"""The two streaming jobs, as a user would write them; each is a process of its own.

usage: python -m demo.jobs writer|reader RUN FOLDER
RUN names the logs of this run; a job that is started again goes on from its checkpoint.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from demo.latency import MicroBatch, covers
from demo.session import make_session
from demo.workspace import FLIGHTS, FLIGHTS_BY_STATUS, READER, WRITER, Workspace
from lakelog.catalog import Catalog
from lakelog.spark import write_stream

LOOK_SECONDS = 1
PHASES_BEFORE_SINK = ("latestOffset", "getBatch", "queryPlanning", "walCommit")

CHANGES_DDL = (
    "time_hour TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, distance INT, "
    "scheduled_at TIMESTAMP, status STRING, departed_at TIMESTAMP, arrived_at TIMESTAMP, _row_kind STRING"
)


def write_flights(spark: SparkSession, workspace: Workspace) -> StreamingQuery:
    """Stream the change files into `flights`, a file a micro-batch, until all are in."""
    changes = spark.readStream.schema(CHANGES_DDL).option("maxFilesPerTrigger", 1).parquet(str(workspace.changes))
    return write_stream(
        changes,
        FLIGHTS,
        catalog=Catalog(str(workspace.lake)),
        checkpoint_location=str(workspace.checkpoint(WRITER)),
        available_now=True,
    )


def count_flights(spark: SparkSession, workspace: Workspace) -> StreamingQuery:
    """Read `flights`, its snapshot first and then its log, and keep the counts by carrier and status up to date."""
    catalog = Catalog(str(workspace.lake))
    changes = (
        spark.readStream.format("lakelog")
        .option("path", catalog.load_table(FLIGHTS).path)
        .option("columns", "carrier,status")
        .option("row-kind", "true")
        .load()
    )
    sign = sf.when(sf.col("_row_kind").isin("+I", "+U"), 1).otherwise(-1)
    counts = changes.groupBy("carrier", "status").agg(sf.sum(sign).alias("count"))
    # A status that no flight of the carrier has any more is a row to delete.
    kind = sf.when(sf.col("count") == 0, "-D").otherwise("+U")
    return write_stream(
        counts.withColumn("_row_kind", kind),
        FLIGHTS_BY_STATUS,
        catalog=catalog,
        checkpoint_location=str(workspace.checkpoint(READER)),
        output_mode="update",
        processing_time="1 second",
    )


def follow(query: StreamingQuery, progress: Path, *, is_done: Callable[[MicroBatch], bool]) -> None:
    """Note every finished micro-batch in the file `progress`; stop the query when it is done after one of them.

    Ends too when the process that started this one has ended. Raises the error of the query.
    """
    parent = os.getppid()
    newest: MicroBatch | None = None
    with progress.open("a", encoding="utf-8") as lines:
        while True:
            has_ended = query.awaitTermination(LOOK_SECONDS)
            for batch in filter(None, map(to_micro_batch, query.recentProgress)):
                if newest is None or batch.identifier > newest.identifier:
                    newest = batch
                    lines.write(batch.to_json() + "\n")
                    lines.flush()
            if has_ended:
                return
            if os.getppid() != parent or (newest is not None and is_done(newest)):
                query.stop()
                return


def to_micro_batch(progress: StreamingQueryProgress) -> MicroBatch | None:
    """What the demo keeps of Spark's progress report of a query with one source; None of a report of having no data."""
    if "addBatch" not in progress.durationMs:
        return None
    millis = {phase: duration for phase, duration in progress.durationMs.items() if phase in PHASES_BEFORE_SINK}
    begun_at = datetime.fromisoformat(progress.timestamp).timestamp()
    offset = json.loads(progress.sources[0].endOffset or "{}")
    log = offset.get("log")
    return MicroBatch(
        identifier=progress.batchId,
        row_count=progress.numInputRows,
        seconds=progress.durationMs["triggerExecution"] / 1000,
        read_at=begun_at + sum(millis.values()) / 1000,
        log_offsets={int(bucket): end for bucket, end in log.items()} if log is not None else None,
    )


def has_read_all(batch: MicroBatch, log_end: Path) -> bool:
    """True when the reader has come to the end of the log, which is known once the writer is done."""
    if batch.log_offsets is None or not log_end.exists():
        return False
    ends = json.loads(log_end.read_text(encoding="utf-8"))
    return covers(batch.log_offsets, {int(bucket): end for bucket, end in ends.items()})


def main(job: str, run: str, folder: Path) -> None:
    """Run a job to its end."""
    workspace = Workspace(root=folder)
    spark = make_session(run, workspace)
    if job == WRITER:
        follow(write_flights(spark, workspace), workspace.progress(run), is_done=lambda _: False)
    else:
        log_end = workspace.log_end
        follow(
            count_flights(spark, workspace),
            workspace.progress(run),
            is_done=lambda batch: has_read_all(batch, log_end),
        )
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
