"""Streaming writes: every micro-batch takes effect in the table once.

The sink is a foreachBatch function. A table with a log is written bucket by bucket through the commit protocol; a table
without one by plain tasks whose files one snapshot takes in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from lakelog.catalog import Catalog, Table
from lakelog.common.column_names import given_names, spelled
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.stopwatch import Stopwatch
from lakelog.filestore.metadata.snapshots.listeners import CommitListener, notify
from lakelog.filestore.metadata.snapshots.users import check_job_is_free
from lakelog.filestore.metadata.tables.identity import latest_of
from lakelog.filestore.write.columns import unknown_columns
from lakelog.lineage.records.declared import checked_sources
from lakelog.lineage.records.record import BatchLineage
from lakelog.lineage.tables.feeding import hold_lineage
from lakelog.protocol.access.place import check_no_copy, recorded_place
from lakelog.protocol.access.table_log import await_topic
from lakelog.protocol.life.log_breaks import record_break
from lakelog.protocol.state.state import Batch
from lakelog.protocol.state.stores import DriverSnapshots
from lakelog.protocol.statements.statement_runs import finish_statements
from lakelog.protocol.upkeep.progress_topic import publish_progress
from lakelog.protocol.writing.driver import BucketConflictError, Verdict, check_identity
from lakelog.protocol.writing.writer_lease import WriterLease
from lakelog.spark.capture.capture import Capture, has_moved, is_captured, named_job
from lakelog.spark.capture.checkpoint_table import bind, check_before_start, check_unowned, check_unseen
from lakelog.spark.compaction.compaction import compaction_beside
from lakelog.spark.failures import sentence_first
from lakelog.spark.projection import check_is_projected, check_schema, with_new_columns
from lakelog.spark.session import CASE_CONF, core_count, is_connect, prepare_session
from lakelog.spark.sink.alignment import MicroBatch, identify_batch, no_checkpoint
from lakelog.spark.sink.batch_write import NOTHING_WRITTEN, BatchWrite, Written
from lakelog.spark.sink.checkpoint_folders import named_folder
from lakelog.spark.sink.commits import KEPT_COMMITS, BatchCommit, BatchOutcome
from lakelog.spark.sink.leases import KeptLease, check_no_speculation
from lakelog.spark.sink.listeners import watch_end, whole_in
from lakelog.spark.sink.plan import run_nothing
from lakelog.spark.sink.query import TableQuery
from lakelog.spark.tables import TableName, log_target, resolve_table

logger = logging.getLogger("lakelog.spark")

REPLAYS_MAX = 10
CHECKPOINT_CONF = "spark.sql.streaming.checkpointLocation"


class LakelogSink:
    """Writes micro-batches to one table: `df.writeStream.foreachBatch(LakelogSink(table))`.

    Or inside of a foreachBatch function of one's own: `sink(rows, batch_id)`, with rows derived from the batch. Each
    row is an upsert; with a column `_row_kind` (`+I`, `-U`, `+U`, `-D`) it is that change. Columns are found by name; a
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
    ) -> None:
        """Open the table. Raises NotFoundError, and InvalidRequestError for `change_tracking` without a log.

        `writer_name` distinguishes several sinks on one table in one query. `commit_user` replaces Spark's query id; it
        is needed on Spark Connect, where the id cannot be seen. `task_count` is how many tasks write a table with a
        log, at most one a bucket, or one with dynamic buckets; as many as Spark has cores without it. `merge_schema`
        adds columns that the table lacks before their rows are written, nullable, in one schema change; not those that
        `order_by` alone needs. `change_tracking` False writes the files of a table with a log alone, and the log says
        so (FLIP-188); the table's option decides without it. `job` is the name under which commits record what they
        were made from; without it the query's name, else its id. A name that another query has in the table is an
        error, unless `job_takeover` says that this one replaces it. `sources`, such as `db.a@12`, are recorded on Spark
        Connect, which does not show what the query reads. `listeners` are told of each committed batch, at least once,
        see `CommitListener`.
        """
        self.table: Table = resolve_table(table, catalog=catalog, warehouse=warehouse)
        self.order_by = given_names(order_by, what="order_by")
        self._writer_name = writer_name
        self._commit_user = commit_user
        self._task_count = task_count
        self._merge_schema = merge_schema
        self._change_tracking = change_tracking
        if change_tracking is not None and self.table.log is None:
            raise InvalidRequestError(
                f"table {self.table.name} has no log, and change_tracking={change_tracking} is for one: leave it out"
            )
        if change_tracking is False and self.table.log is not None and self.table.log.is_eventual:
            raise UnsupportedError(
                f"table {self.table.name} has log.consistency=eventual, whose changes are all in the log: leave"
                " change_tracking out"
            )
        self._visited_run: str | None = None
        self._capture = Capture(job=job, names=None if sources is None else checked_sources(sources))
        self._is_held = False  # whether the snapshots are kept until their lineage is fed
        self._job_takeover = job_takeover
        self._listeners = tuple(listeners)
        self._lease = KeptLease()
        self.owns_checkpoint = False  # True where the query writes this table alone
        self._bound_run: str | None = None
        self._is_looked_up = False  # on Spark Connect, where no run is seen
        self.is_settled_later = False  # True where write_stream merges what was written at the stream's end

    @sentence_first()
    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write one micro-batch, whole, once, whatever happened before.

        Raises InvalidRequestError for rows that do not fit, and what the protocol raises; then nothing is in the table
        that another run of the same batch would not complete.
        """
        lasted = Stopwatch()
        self.check_rows(rows)
        micro = identify_batch(rows, batch_id, writer_name=self._writer_name, commit_user=self._commit_user)
        _FINISHED.check_new(self.table, micro)
        self.check_checkpoint(micro)
        with self._lease.held(self.table._files, micro, rows.sparkSession) as lease:
            outcome, written = self._write_once(rows, micro, self._lineage_of(rows, micro), lease)
            if written.has_repeated_tasks:
                self._lease.suspect_tasks()
        _FINISHED.add(self.table, micro)
        if self.table.log is not None and outcome is not BatchOutcome.EMPTY:
            publish_progress(self.table._files, self.table.log)
        commit = BatchCommit(
            table=self.table.name,
            user=micro.user,
            batch_id=micro.identifier,
            outcome=outcome,
            millis=lasted.millis(),
            row_count=written.row_count,
            file_count=written.file_count,
            snapshot_id=written.snapshot_id,
            commit_millis=written.time_millis,
            log_offsets=written.log_offsets,
        )
        commit.log()
        KEPT_COMMITS.add(micro.run, commit, writer_name=self._writer_name)
        self._notify(micro, outcome)

    def check_checkpoint(self, micro: MicroBatch) -> None:
        """Check once a run that the batches before are in the table. Raises InvalidRequestError.

        On Spark Connect no checkpoint can be seen: there it warns by what the table knows of the query.
        """
        if micro.checkpoint is None:
            if not self._is_looked_up:
                check_unseen(self.table._files, user=micro.user, batch_id=micro.identifier)
            self._is_looked_up = True
            return
        if micro.run == self._bound_run:
            return
        check = bind if self.owns_checkpoint else check_unowned
        check(micro.checkpoint, self.table._files, user=micro.user, batch_id=micro.identifier)
        self._bound_run = micro.run

    def _notify(self, micro: MicroBatch, outcome: BatchOutcome) -> None:
        """Tell the listeners of a batch, also of one that was committed before its process died."""
        if not self._listeners or outcome is BatchOutcome.EMPTY:
            return
        snapshot = whole_in(self.table._files, micro.user, micro.identifier)
        if snapshot is None:
            logger.warning(
                "table %s: the snapshot of batch %d has expired before its listeners were told of it",
                self.table.name,
                micro.identifier,
            )
            return
        notify(self._listeners, snapshot, micro.identifier, table_name=self.table.name)

    def _is_first(self, micro: MicroBatch) -> bool:
        """Whether a batch is the first of a run."""
        return micro.run is None or self._visited_run != micro.run

    def check_rows(self, rows: DataFrame) -> None:
        """Raise InvalidRequestError unless rows with these columns can be written. Takes no row.

        With `merge_schema` new columns are added to the table. Columns of `order_by` that the table lacks are only
        looked at.
        """
        is_case_sensitive = rows.sparkSession.conf.get(CASE_CONF) == "true"
        self.order_by = spelled(self.order_by, rows.columns, what="order_by", is_case_sensitive=is_case_sensitive)
        looked_at = unknown_columns(self.table.schema, self.order_by, is_case_sensitive=is_case_sensitive)
        written = StructType([field for field in rows.schema.fields if field.name not in looked_at])
        if self._merge_schema:
            self.table = with_new_columns(self.table, written, is_case_sensitive=is_case_sensitive)
        check_schema(written, self.table.schema, table_name=self.table.name, is_case_sensitive=is_case_sensitive)
        check_is_projected(self.table.schema, table_name=self.table.name)

    def _tasks_of(self, rows: DataFrame) -> int:
        """How many tasks write buckets of their own: no more than there are buckets, where their number is fixed."""
        wanted = self._task_count or core_count(rows)
        schema = self.table.schema
        return wanted if schema.has_dynamic_buckets else max(1, min(schema.bucket_count, wanted))

    def _lineage_of(self, rows: DataFrame, micro: MicroBatch) -> BatchLineage | None:
        """What the commit records of where its rows come from; None for nothing."""
        if not is_captured(self.table._files):
            return None
        if not self._is_held:
            hold_lineage(self.table._files)
            self._is_held = True
        if micro.running is None:
            return self._capture.without_plan(micro.identifier, self.table.warehouse)
        return self._capture.lineage_of(rows, micro.running)

    def _write_once(
        self, rows: DataFrame, micro: MicroBatch, lineage: BatchLineage | None, lease: WriterLease | None
    ) -> tuple[BatchOutcome, Written]:
        target = log_target(self.table, change_tracking=self._change_tracking)
        if target is not None and target.topic.is_transactional and self._is_first(micro):
            record_break(self.table._files, target)
        write = BatchWrite(
            table=self.table._files,
            batch=Batch(
                user=micro.user,
                identifier=micro.identifier,
                source_digest=micro.source_digest,
                lineage={} if lineage is None else lineage.to_json(),
                watermark_millis=micro.watermark_millis,
                job=None if lineage is None else named_job(lineage),
            ),
            snapshots=DriverSnapshots(self.table._files, None if target is None else target.topic_id, self.table.kafka),
            task_count=self._tasks_of(rows),
            order_by=self.order_by,
            is_settled_later=self.is_settled_later,
            has_read_on=lineage is not None and has_moved(lineage),
            lease=lease,
        )
        for attempt in range(1, REPLAYS_MAX + 1):
            state = write.snapshots.newest()
            check_no_copy(self.table._files, state.place)
            if check_identity(state, write.batch) is Verdict.REPLAY:
                run_nothing(rows)
                return BatchOutcome.REPLAYED, NOTHING_WRITTEN
            if not self._job_takeover:
                check_job_is_free(write.batch.job, state.users, table_name=self.table.name)
            try:
                if target is None:
                    written = write.write_files(rows, state)
                else:
                    is_first = self._is_first(micro)
                    if is_first and self.table.log is not None:
                        await_topic(self.table.log)
                    if finish_statements(write.table, target, kafka=self.table.kafka):
                        state = write.snapshots.newest()
                    written = write.write_logged(rows, state, target, visits_all=is_first)
                    self._visited_run = micro.run
                if written is None:
                    return BatchOutcome.EMPTY, NOTHING_WRITTEN
                is_own = written.snapshot_id is not None
                return (BatchOutcome.COMMITTED if is_own else BatchOutcome.REPLAYED), written
            except BucketConflictError as error:
                if attempt == REPLAYS_MAX:
                    raise
                logger.info("batch %d of %s is run again: %s", micro.identifier, micro.user, error)
        raise AssertionError("unreachable")


class _FinishedBatches:
    """The last batch that this process has finished for each user and table in a run.

    Spark gives a batch to the sink once in a run. A second write of it is a second sink on the same table, whose rows
    would be taken for a replay and dropped.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: dict[tuple[str | None, str, str, str], int] = {}

    def check_new(self, table: Table, micro: MicroBatch) -> None:
        """Raise InvalidRequestError when the batch is finished already."""
        with self._lock:
            last = self._last.get((micro.run, table.path, table._files.branch, micro.user), -1)
        if last >= micro.identifier:
            raise InvalidRequestError(
                f"batch {micro.identifier} writes table {table.name} a second time: give each sink on one table in one "
                "query a writer_name of its own, or unite their rows before one write"
            )

    def add(self, table: Table, micro: MicroBatch) -> None:
        """Record a finished batch."""
        with self._lock:
            self._last[(micro.run, table.path, table._files.branch, micro.user)] = micro.identifier


_FINISHED = _FinishedBatches()


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
) -> StreamingQuery:
    """Start a query that writes a stream to a table, each micro-batch once. See LakelogSink for the rows.

    `output_mode` is `append` or `update`; updated rows of an aggregation are upserts. Without `available_now` or
    `processing_time` Spark starts each batch as soon as the one before it has ended. `merge_schema` adds columns that
    the table lacks before the query starts. Raises, before anything starts, NotFoundError for the table, ConflictError
    for one that was renamed since it was opened, InvalidRequestError for what does not fit, UnavailableError when the
    log does not answer for as long as the table's `log.unavailable-timeout` says.
    """
    sink = LakelogSink(
        table,
        catalog=catalog,
        warehouse=warehouse,
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
    )
    _check_stream(rows, output_mode, available_now=available_now, processing_time=processing_time)
    latest_of(sink.table._files)  # raises for a table that was renamed since it was opened
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
    """Start a query whose batches are given to `body`, which writes them to `sink`. Raises as `write_stream`."""
    _check_stream(rows, output_mode, available_now=available_now, processing_time=processing_time)
    if checkpoint_location is None and not rows.sparkSession.conf.get(CHECKPOINT_CONF, None):
        raise no_checkpoint()
    if sink.table.log is not None:
        check_no_speculation(sink.table._files, rows.sparkSession)
        check_no_copy(sink.table._files, recorded_place(sink.table._files))
        await_topic(sink.table.log)
    prepare_session(rows.sparkSession)
    sink.owns_checkpoint = True
    if checkpoint_location is not None and not is_connect(rows.sparkSession):
        check_before_start(named_folder(rows.sparkSession, str(checkpoint_location)), sink.table._files)
    sink.is_settled_later = available_now and not is_connect(rows.sparkSession)
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
    snapshots = DriverSnapshots(sink.table._files, None if target is None else target.topic_id, sink.table.kafka)
    compaction = compaction_beside(snapshots)
    watch = watch_end(query, sink._listeners, table_name=sink.table.name)
    return TableQuery(query, compaction, settles=available_now, on_end=sink._lease.release, watch=watch)


def _check_stream(rows: DataFrame, output_mode: str, *, available_now: bool, processing_time: str | None) -> None:
    if not rows.isStreaming:
        raise InvalidRequestError("the rows are no stream: read them with spark.readStream, or write them as a batch")
    if output_mode not in ("append", "update"):
        raise InvalidRequestError(
            f"output_mode is {output_mode!r}; a table takes 'append' or 'update' (complete would rewrite it each time)"
        )
    if available_now and processing_time is not None:
        raise InvalidRequestError("give available_now or processing_time, not both")
