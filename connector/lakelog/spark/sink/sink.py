"""Streaming writes: every micro-batch takes effect in the table exactly once.

The sink is a foreachBatch function. A table with a log is written bucket by bucket through the commit protocol; a table
without a log by plain tasks, whose files are taken into one snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.catalog import Catalog, Table
from lakelog.catalog.logs.statements import check_tracking_choice
from lakelog.common.column_names import given_names
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.snapshots import CommitListener
from lakelog.filestore.metadata.tables import latest_of
from lakelog.lineage.records.sources import checked_sources
from lakelog.protocol.access import await_topic, check_no_copy, recorded_place
from lakelog.protocol.stores import DriverSnapshots
from lakelog.protocol.writing import given_interval
from lakelog.spark.capture.batch_fields import BatchFields, Derive
from lakelog.spark.capture.capture import Capture
from lakelog.spark.capture.checkpoint_table import check_before_start
from lakelog.spark.compaction.compaction import compaction_beside
from lakelog.spark.failures import sentence_first, stopping_quietly
from lakelog.spark.session import is_connect, prepare_session
from lakelog.spark.sink.alignment import MicroBatch, no_checkpoint
from lakelog.spark.sink.batch_run import BatchRun, SinkState, check_checkpoint, check_rows
from lakelog.spark.sink.checkpoint_folders import named_folder
from lakelog.spark.sink.leases import check_no_speculation
from lakelog.spark.sink.listeners import watch_end
from lakelog.spark.sink.query import TableQuery
from lakelog.spark.sink.stages import run_batch
from lakelog.spark.tables import TableName, log_target, resolve_table

logger = logging.getLogger("lakelog.spark")

CHECKPOINT_CONF = "spark.sql.streaming.checkpointLocation"


class LakelogSink:
    """Writes micro-batches to one table: `df.writeStream.foreachBatch(LakelogSink(table))`.

    Or inside your own foreachBatch function: `sink(rows, batch_id)`, with rows derived from the batch. Each row is an
    upsert; a column `_row_kind` (`+I`, `-U`, `+U`, `-D`) makes it that kind of change. Columns are found by name; a
    nullable column that the rows lack is null. Several changes of one key in a batch keep the order of their rows, or
    that of the columns `order_by`.
    """

    def __init__(
        self,
        table: TableName,
        *,
        catalog: Catalog | None = None,
        warehouse: str | Path | None = None,
        writer_name: str | None = None,
        commit_user: str | None = None,
        order_by: str | Sequence[str] = (),
        task_count: int | None = None,
        merge_schema: bool = False,
        change_tracking: bool | None = None,
        job: str | None = None,
        job_takeover: bool = False,
        listeners: Sequence[CommitListener] = (),
        sources: Sequence[str] | None = None,
        snapshot_interval: str | None = None,
    ) -> None:
        """Open the table. Raises NotFoundError, and InvalidRequestError for `change_tracking` without a log.

        `writer_name` distinguishes several sinks on one table in one query. `commit_user` replaces Spark's query id; it
        is needed on Spark Connect, where the id cannot be seen. `task_count` is how many tasks write a table with a log
        (at most one per bucket) or a table with dynamic buckets; the default is the number of Spark's cores.
        `merge_schema` adds columns that the table lacks before their rows are written, nullable, in one schema change,
        except columns that only `order_by` needs. `change_tracking` False writes only the files of a table with a log,
        and the log says so (FLIP-188); by default the table's option decides. `job` is the name under which commits
        record what they were made from, by default the query's name, else its id. A name that another query has in the
        table is an error, unless `job_takeover` says that this query replaces the other. `sources`, such as `db.a@12`,
        are recorded on Spark Connect, which does not show what the query reads. `listeners` are called for each
        committed batch, at least once, see `CommitListener`. With a `snapshot_interval`, such as `30 s`, batches are
        in the log alone until one snapshot takes all of them in; the default is the option `snapshot.interval`.
        """
        opened = resolve_table(table, catalog=catalog, warehouse=warehouse)
        check_tracking_choice(opened, change_tracking)
        interval = None if snapshot_interval is None else given_interval(snapshot_interval, opened.store)
        self._state = SinkState(
            table=opened,
            order_by=given_names(order_by, what="order_by"),
            writer_name=writer_name,
            commit_user=commit_user,
            task_count=task_count,
            merge_schema=merge_schema,
            change_tracking=change_tracking,
            capture=Capture(job=job, names=None if sources is None else checked_sources(sources)),
            job_takeover=job_takeover,
            listeners=tuple(listeners),
            snapshot_interval_millis=interval,
        )

    def close(self) -> None:
        """Make the snapshot of batches that are in the log alone. Call it when a query of your own function has ended.

        Without it the next run, or another writer, takes them in. `write_stream` does it at the end of its query.
        Raises what a commit raises.
        """
        if self._state.by_interval is not None:
            self._state.by_interval.close()

    @property
    def table(self) -> Table:
        """The table that is written."""
        return self._state.table

    @table.setter
    def table(self, table: Table) -> None:
        self._state.table = table

    @property
    def order_by(self) -> Sequence[str]:
        """The columns that order several changes of one key in a batch."""
        return self._state.order_by

    @stopping_quietly()
    @sentence_first()
    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write one whole micro-batch exactly once, whatever happened before.

        Raises InvalidRequestError for rows that do not fit, and what the protocol raises; then another run of the same
        batch completes whatever is in the table. `lakelog.spark.sink.stages` has the order of the steps.
        """
        run_batch(BatchRun(self._state, rows, batch_id))

    def check_checkpoint(self, micro: MicroBatch) -> None:
        """Check once per run that the previous batches are in the table. Raises InvalidRequestError.

        On Spark Connect no checkpoint can be seen: there the warning relies on what the table knows about the query.
        """
        check_checkpoint(self._state, micro)

    def check_rows(self, rows: DataFrame) -> None:
        """Raise InvalidRequestError unless rows with these columns can be written. Reads no row.

        With `merge_schema` new columns are added to the table. Columns of `order_by` that the table lacks are only
        checked.
        """
        check_rows(self._state, rows)


def write_stream(
    rows: DataFrame,
    table: TableName,
    *,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
    checkpoint_location: str | Path | None = None,
    output_mode: str = "append",
    available_now: bool = False,
    processing_time: str | None = None,
    query_name: str | None = None,
    writer_name: str | None = None,
    commit_user: str | None = None,
    order_by: str | Sequence[str] = (),
    task_count: int | None = None,
    merge_schema: bool = False,
    change_tracking: bool | None = None,
    job: str | None = None,
    job_takeover: bool = False,
    listeners: Sequence[CommitListener] = (),
    sources: Sequence[str] | None = None,
    snapshot_interval: str | None = None,
) -> StreamingQuery:
    """Start a query that writes a stream to a table, each micro-batch exactly once. See LakelogSink for the rows.

    `output_mode` is `append` or `update`; updated rows of an aggregation are upserts. Without `available_now` or
    `processing_time` Spark starts each batch as soon as the one before it has ended. `merge_schema` adds columns that
    the table lacks before the query starts. Before anything starts, it raises NotFoundError for the table,
    ConflictError for a table that was renamed since it was opened, InvalidRequestError for what does not fit,
    UnavailableError when the log does not answer within the table's `log.unavailable-timeout`.
    """
    sink = LakelogSink(
        resolve_table(table, catalog=catalog, warehouse=warehouse, session=rows.sparkSession),
        writer_name=writer_name,
        commit_user=commit_user,
        order_by=order_by,
        task_count=task_count,
        merge_schema=merge_schema,
        change_tracking=change_tracking,
        job=job,
        job_takeover=job_takeover,
        listeners=listeners,
        sources=sources,
        snapshot_interval=snapshot_interval,
    )
    _check_stream(rows, output_mode, available_now=available_now, processing_time=processing_time)
    latest_of(sink.table.store)  # raises if the table was renamed since it was opened
    sink.check_rows(rows)
    return start_stream(
        rows,
        sink,
        sink,
        checkpoint_location=checkpoint_location,
        output_mode=output_mode,
        available_now=available_now,
        processing_time=processing_time,
        query_name=query_name,
    )


def knowing_fields(sink: LakelogSink, derive: Derive) -> LakelogSink:
    """The sink, which records this lineage of its columns in place of what the plans of batches show."""
    sink._state.fields = BatchFields(derive)
    return sink


def start_stream(
    rows: DataFrame,
    sink: LakelogSink,
    body: Callable[[DataFrame, int], None],
    *,
    checkpoint_location: str | Path | None,
    output_mode: str = "append",
    available_now: bool = False,
    processing_time: str | None = None,
    query_name: str | None = None,
) -> StreamingQuery:
    """Start a query whose batches are passed to `body`, which writes them to `sink`. Raises like `write_stream`."""
    _check_stream(rows, output_mode, available_now=available_now, processing_time=processing_time)
    if checkpoint_location is None and not rows.sparkSession.conf.get(CHECKPOINT_CONF, None):
        raise no_checkpoint()
    if sink.table.log is not None:
        check_no_speculation(sink.table.store, rows.sparkSession)
        check_no_copy(sink.table.store, recorded_place(sink.table.store))
        await_topic(sink.table.log)
    prepare_session(rows.sparkSession)
    sink._state.owns_checkpoint = True
    if checkpoint_location is not None and not is_connect(rows.sparkSession):
        check_before_start(named_folder(rows.sparkSession, str(checkpoint_location)), sink.table.store)
    sink._state.is_settled_later = available_now and not is_connect(rows.sparkSession)
    writer = rows.writeStream.foreachBatch(body).outputMode(output_mode)
    if checkpoint_location is not None:
        writer = writer.option("checkpointLocation", str(checkpoint_location))
    if query_name is not None:
        writer = writer.queryName(query_name)
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif processing_time is not None:
        writer = writer.trigger(processingTime=processing_time)
    query = writer.start()
    if not isinstance(query, StreamingQuery):  # Spark Connect: the sink, and its compaction, are on the server
        return query
    target = log_target(sink.table)
    snapshots = DriverSnapshots(sink.table.store, None if target is None else target.topic_id, sink.table.kafka)
    compaction = compaction_beside(snapshots)
    watch = watch_end(query, sink._state.listeners, table_name=sink.table.name)
    return TableQuery(
        query,
        compaction,
        settles=available_now,
        before_end=sink.close,
        on_end=sink._state.lease.release,
        watch=watch,
    )


def _check_stream(rows: DataFrame, output_mode: str, *, available_now: bool, processing_time: str | None) -> None:
    if not rows.isStreaming:
        raise InvalidRequestError("the rows are no stream: read them with spark.readStream, or write them as a batch")
    if output_mode not in ("append", "update"):
        raise InvalidRequestError(
            f"output_mode is {output_mode!r}; a table takes 'append' or 'update' (complete would rewrite it each time)"
        )
    if available_now and processing_time is not None:
        raise InvalidRequestError("give available_now or processing_time, not both")
