"""The steps of a micro-batch, in order: named stages, each a function with one purpose.

    BEFORE     what must hold before anything is done for the batch
    PREPARE    what is settled once, while the writer holds its lease
    ATTEMPT    one try to write: done again from its first stage where another writer changed a bucket meanwhile
    AFTER      what follows a batch that is in the table

Whatever a failed stage leaves in the table, another run of the same batch completes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from lakelog.filestore.metadata.snapshots import check_job_is_free
from lakelog.lineage.columns.declared_fields import with_fields_by_name
from lakelog.lineage.records.best_effort import failure_count
from lakelog.lineage.tables.progress import hold_lineage
from lakelog.protocol.access import await_topic, check_no_copy
from lakelog.protocol.life import record_break
from lakelog.protocol.state import Batch
from lakelog.protocol.statements import LoggedTable, newest_and_others
from lakelog.protocol.stores import DriverSnapshots
from lakelog.protocol.upkeep import publish_progress
from lakelog.protocol.writing import BucketConflictError, Verdict, check_identity
from lakelog.spark.capture.capture import (
    SourcesMovedError,
    has_moved,
    inexact,
    is_captured,
    named_job,
    reads_tables,
)
from lakelog.spark.sink.alignment import identify_batch
from lakelog.spark.sink.batch_run import (
    FINISHED,
    BatchRun,
    await_turn,
    check_checkpoint,
    check_rows,
    remember,
    report_taken,
    take_in_later,
    tasks_of,
    turn_of,
    turns_ended,
)
from lakelog.spark.sink.batch_write import BatchWrite
from lakelog.spark.sink.commits import KEPT_COMMITS, BatchCommit, BatchOutcome
from lakelog.spark.sink.plan import run_nothing
from lakelog.spark.tables import log_target

logger = logging.getLogger("lakelog.spark")

ATTEMPTS_MAX = 10
MOVES_MAX = 5  # so often a batch is planned for newer snapshots of the tables that are joined to it

Stage = Callable[[BatchRun], None]


def fit_columns(run: BatchRun) -> None:
    """Rows with these columns can be written; new columns are added to the table if the sink merges schemas."""
    check_rows(run.sink, run.rows)


def name_batch(run: BatchRun) -> None:
    """The name and the number of the batch, which a restart does not change."""
    run.micro = identify_batch(
        run.rows, run.batch_id, writer_name=run.sink.writer_name, commit_user=run.sink.commit_user
    )


def refuse_second_sink(run: BatchRun) -> None:
    """Two sinks without names of their own would take each other's rows for a replay."""
    FINISHED.check_new(run.table, run.micro)


def fit_checkpoint(run: BatchRun) -> None:
    """The batches before this one of the checkpoint are in the table."""
    check_checkpoint(run.sink, run.micro)


def keep_snapshots(run: BatchRun) -> None:
    """From the first batch on, snapshots are kept until their lineage is fed."""
    if is_captured(run.table.store) and not run.sink.holds_lineage:
        hold_lineage(run.table.store)
        run.sink.holds_lineage = True


def record_lineage(run: BatchRun) -> None:
    """What the rows come from, for the commit."""
    if not is_captured(run.table.store):
        return
    if run.micro.running is None:
        declared = run.sink.capture.without_plan(run.micro.identifier, run.table.warehouse)
        run.lineage = with_fields_by_name(declared, run.table.store)
    else:
        found = run.sink.capture.lineage_of(run.rows, run.micro.running)
        run.lineage = run.sink.fields.of_batch(found, run.table.store, run.rows, run.micro.running.execution)


def mark_break(run: BatchRun) -> None:
    """Write into the log where the run continues after changes that the log does not have."""
    run.target = log_target(run.table, change_tracking=run.sink.change_tracking)
    if run.target is not None and run.target.topic.is_transactional and run.is_first:
        record_break(run.table.store, run.target)


def plan_write(run: BatchRun) -> None:
    """What is written where, the same in each attempt."""
    sink, micro, lineage = run.sink, run.micro, run.lineage
    topic_id = None if run.target is None else run.target.topic_id
    run.write = BatchWrite(
        table=run.table.store,
        batch=Batch(
            user=micro.user,
            identifier=micro.identifier,
            source_digest=micro.source_digest,
            lineage={} if lineage is None else lineage.to_json(),
            watermark_millis=micro.watermark_millis,
            job=None if lineage is None else named_job(lineage),
        ),
        snapshots=DriverSnapshots(run.table.store, topic_id, run.table.kafka),
        task_count=tasks_of(run),
        order_by=sink.order_by,
        is_settled_later=sink.is_settled_later,
        has_read_on=lineage is not None and has_moved(lineage),
        lease=run.lease,
        projector=sink.projector,
        check_reads=lambda plan: _check_reads(run, plan),
        by_interval=sink.by_interval,
    )


def _check_reads(run: BatchRun, plan: DataFrame) -> None:
    """Raise SourcesMovedError for a plan that reads other snapshots than the record of the batch says.

    Tasks log the record, and Spark loads tables that a function has joined to the batch again for each run of a plan.
    """
    found, running = run.lineage, run.micro.running
    if found is None or running is None or not reads_tables(found):
        return
    sources = run.sink.capture.lineage_of(plan, running).sources
    if sources != found.sources:
        raise SourcesMovedError(sources)


def look(run: BatchRun) -> None:
    """The newest state of the table, what writers that died have left, and whether others wait for a turn."""
    run.state, run.others = newest_and_others(run.write.snapshots)


def refuse_copy(run: BatchRun) -> None:
    """A copied folder shares its log with the original."""
    check_no_copy(run.table.store, run.state.place)


def skip_replay(run: BatchRun) -> None:
    """A batch that the table holds is not written again."""
    if check_identity(run.state, run.write.batch) is Verdict.REPLAY:
        run_nothing(run.rows)
        run.write.compact_left(run.rows.sparkSession)
        run.outcome = BatchOutcome.REPLAYED


def refuse_other_job(run: BatchRun) -> None:
    """The name of the job is not that of another query, unless this query replaces the other."""
    if not run.sink.job_takeover:
        check_job_is_free(run.write.batch.job, run.state.users, table_name=run.table.name)


def await_log(run: BatchRun) -> None:
    """The topic answers, before the first tasks of a run start."""
    if run.target is not None and run.is_first and run.table.log is not None:
        await_topic(run.table.log)


def finish_found_statements(run: BatchRun) -> None:
    """Batch statements of writers that died are finished before later rows are written."""
    if run.target is not None and run.others.have_left:
        LoggedTable.of(run.write.table, run.target, kafka=run.table.kafka).finish_left_over()
        run.state = run.write.snapshots.newest()


def write_rows(run: BatchRun) -> None:
    """Tasks write log and files, and one snapshot takes them in."""
    if run.target is None:
        written = run.write.write_files(run.rows, run.state)
    else:
        by_interval = run.sink.by_interval
        visits_all = run.is_first or (by_interval is not None and by_interval.pending.is_blind)
        written = run.write.write_logged(run.rows, run.state, run.target, visits_all=visits_all, others=run.others)
        run.sink.visited_run = run.micro.run
        if by_interval is not None:
            by_interval.take = partial(take_in_later, run, by_interval)
    if written is None:
        run.outcome = BatchOutcome.EMPTY
        return
    run.written = written
    if written.is_logged:
        run.outcome = BatchOutcome.LOGGED
    else:
        run.outcome = BatchOutcome.COMMITTED if written.snapshot_id is not None else BatchOutcome.REPLAYED


def tell_progress(run: BatchRun) -> None:
    """Publish, for readers of the log without Spark, how far snapshots hold the log."""
    if run.table.log is not None and run.outcome not in (BatchOutcome.EMPTY, BatchOutcome.LOGGED):
        publish_progress(run.table.store, run.table.log)


def report(run: BatchRun) -> None:
    """The line `batch` in the log of the process, and what the progress of the query shows."""
    assert run.outcome is not None
    commit = BatchCommit(
        table=run.table.name,
        user=run.micro.user,
        batch_id=run.micro.identifier,
        outcome=run.outcome,
        millis=run.lasted.millis(),
        row_count=run.written.row_count,
        file_count=run.written.file_count,
        snapshot_id=run.written.snapshot_id,
        commit_millis=run.written.time_millis,
        log_offsets=run.written.log_offsets,
        lineage_failures=failure_count() - run.failures_before,
    )
    commit.log()
    KEPT_COMMITS.add(run.micro.run, commit, writer_name=run.sink.writer_name)


def tell_listeners(run: BatchRun) -> None:
    """Listeners are called for the batch, also for one that was committed before its process died."""
    if run.outcome not in (BatchOutcome.EMPTY, BatchOutcome.LOGGED):
        report_taken(run, run.written)


BEFORE: tuple[Stage, ...] = (fit_columns, name_batch, refuse_second_sink, fit_checkpoint)
PREPARE: tuple[Stage, ...] = (keep_snapshots, record_lineage, mark_break, plan_write)
ATTEMPT: tuple[Stage, ...] = (
    look,
    refuse_copy,
    skip_replay,
    refuse_other_job,
    await_log,
    await_turn,
    finish_found_statements,
    write_rows,
)
AFTER: tuple[Stage, ...] = (remember, tell_progress, report, tell_listeners)


def run_batch(run: BatchRun) -> None:
    """Take a batch through all stages. Raises InvalidRequestError for rows that do not fit, and what stages raise."""
    for stage in BEFORE:
        stage(run)
    with run.sink.lease.held(run.table.store, run.micro, run.rows.sparkSession) as run.lease, turn_of(run):
        for stage in PREPARE:
            stage(run)
        with turns_ended(run):
            _attempts(run)
        if run.written.has_repeated_tasks:
            run.sink.lease.suspect_tasks()
    for stage in AFTER:
        stage(run)


def _attempts(run: BatchRun) -> None:
    """Make attempts until one has an outcome.

    Conflicts with other writers have a limit of their own: a plan whose tables have changed has written nothing.
    """
    conflicts = moves = 0
    while run.outcome is None:
        try:
            _attempt(run)
        except SourcesMovedError as error:
            assert run.lineage is not None
            moves += 1
            sources = error.sources if moves < MOVES_MAX else tuple(map(inexact, error.sources))
            run.lineage = replace(run.lineage, sources=sources)
            plan_write(run)
        except BucketConflictError as error:
            conflicts += 1
            if conflicts == ATTEMPTS_MAX:
                raise
            logger.info("batch %d of %s is run again: %s", run.micro.identifier, run.micro.user, error)


def _attempt(run: BatchRun) -> None:
    """The stages of one attempt, up to the one that gives the batch its outcome."""
    for stage in ATTEMPT:
        stage(run)
        if run.outcome is not None:
            return
