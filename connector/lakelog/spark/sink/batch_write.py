"""One attempt to write the rows of a batch: Spark tasks write, the driver makes the snapshot."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession

from lakelog.common.clock import Stopwatch, system_millis
from lakelog.common.patience import Patience
from lakelog.common.quoting import listed
from lakelog.filestore import FileStoreTable
from lakelog.filestore.index import HashIndex, HashIndexChange
from lakelog.filestore.refs import is_snapshot_due, tag_after_commit
from lakelog.filestore.write import AssignRules, checked_index
from lakelog.logstore.kafka.clients.record_limit import record_limit
from lakelog.protocol.state import (
    Batch,
    TableState,
    process_observer,
)
from lakelog.protocol.statements import LoggedTable, OtherWriters, unfinished_in
from lakelog.protocol.stores import DriverSnapshots, LogTarget, read_state
from lakelog.protocol.writing import (
    BucketAnswer,
    BucketConflictError,
    IntervalSnapshots,
    Outcome,
    WriterLease,
    acknowledge,
    check_before_first,
    commit_batch,
    commit_files,
    take_in,
)
from lakelog.spark.compaction.batch_files import FilesOfBatch
from lakelog.spark.compaction.compaction import compaction_beside
from lakelog.spark.projection import Projector
from lakelog.spark.sink.exchange import Sender
from lakelog.spark.sink.plan import rows_by_bucket, run_tasks
from lakelog.spark.sink.task import FilesWrite, LoggedWrite, TaskMessage, write_buckets

logger = logging.getLogger("lakelog.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What one attempt has written. `snapshot_id` is None if an earlier attempt had already made the snapshot.

    `time_millis` and `log_offsets` (bucket -> next record) are those of the snapshot, if it still exists; of a batch
    that is in the log alone (`is_logged`) `log_offsets` are where its transactions end. `batches` are those of the
    writer that the snapshot has taken in, where that is not this batch alone.
    `has_repeated_tasks` says that an attempt of a task had failed: that attempt may still run.
    """

    row_count: int
    file_count: int
    snapshot_id: int | None
    time_millis: int | None = None
    log_offsets: Mapping[int, int] = field(default_factory=dict)
    has_repeated_tasks: bool = False
    is_logged: bool = False
    batches: tuple[int, ...] = ()


NOTHING_WRITTEN = Written(row_count=0, file_count=0, snapshot_id=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWrite:
    """Where and how a batch is written. `order_by` are the columns that order several changes of one key.

    `is_settled_later` says that the stream merges what it wrote at its end, `has_read_on` that the batch has advanced
    in a source table: it is committed even without rows. `lease` is that of the writer of an eventual log, `projector`
    that of the stream. `check_reads` raises an error for a plan that reads other snapshots than the batch says.
    `by_interval` has what the writer has in the log alone; None where each batch makes a snapshot.
    """

    table: FileStoreTable
    batch: Batch
    snapshots: DriverSnapshots
    task_count: int
    order_by: Sequence[str] = ()
    is_settled_later: bool = False
    has_read_on: bool = False
    lease: WriterLease | None = None
    projector: Projector = field(default_factory=Projector)
    check_reads: Callable[[DataFrame], None] = lambda _plan: None
    by_interval: IntervalSnapshots | None = None

    def write_logged(
        self, rows: DataFrame, state: TableState, target: LogTarget, *, visits_all: bool, others: OtherWriters
    ) -> Written | None:
        """Write to log and files. `visits_all` also takes in what others left in buckets for which there are no rows.

        `others` says how often they may fence a bucket.

        Returns None when there was nothing to write. Raises BucketConflictError when the batch must be run again.
        """
        write = LoggedWrite(
            table=self.table,
            target=target,
            batch=self.batch,
            task_count=self.task_count,
            lease=self.lease,
            fencings_max=others.fencings_max,
            reported={}
            if self.by_interval is None
            else self.by_interval.pending.reported(with_headers=self.table.schema.looks_up_old_rows),
        )
        left, lasted = None, Stopwatch()
        if visits_all:
            left = check_before_first(self.table, target, self.batch, state, snapshots=self.snapshots)
        limit = Patience(target.unavailable_seconds).keep_trying(lambda: record_limit(target.topic))
        sender = Sender(table=self.table, task_count=self.task_count, limit=limit, mode=target.mode)
        given = rows_by_bucket(rows, sender, order_by=self.order_by, projector=self.projector)
        messages = run_tasks(given, write, check=self.check_reads)
        answers = [answer for message in messages for answer in message.answers]
        if left is not None and left.buckets:
            answers += write_buckets(write, dict.fromkeys(set(left.buckets) - {answer.bucket for answer in answers}))
        met = unfinished_in(answers)
        if met:
            LoggedTable.of(self.table, target, kafka=self.snapshots.kafka).finish(met)
            raise BucketConflictError(f"batch statements that were met are finished: {listed(sorted(met))}")
        has_left = left is not None and left.waits
        if not has_left and not self._is_worth_a_snapshot(messages, answers):
            return None
        if self.by_interval is not None:
            acknowledge(
                self.by_interval,
                self.table,
                target,
                self.batch,
                answers,
                snapshots=self.snapshots,
                lasted=lasted,
                left=left,
            )
            return self._acknowledged(self.by_interval, target, messages, answers, rows.sparkSession)
        done = commit_batch(
            self.batch,
            answers,
            snapshots=self.snapshots,
            observe=process_observer(),
            clock=system_millis,
            earlier=() if left is None else left.rowless,
        )
        written = self._written(messages, FilesOfBatch.of(answers), done, rows.sparkSession)
        reported = () if left is None or not left.unreported else (*left.unreported, self.batch.identifier)
        return replace(written, batches=reported)

    def _acknowledged(
        self,
        by_interval: IntervalSnapshots,
        target: LogTarget,
        messages: Sequence[TaskMessage],
        answers: Sequence[BucketAnswer],
        spark: SparkSession,
    ) -> Written:
        """What was written by a batch that is whole in the log; makes the snapshot of all that are if that is due."""
        if by_interval.is_due() or is_snapshot_due(self.table, watermark=self.batch.watermark_millis):
            return self.take_pending(by_interval, target, spark, messages)
        return Written(
            row_count=sum(message.row_count for message in messages),
            file_count=FilesOfBatch.of(answers).count,
            snapshot_id=None,
            log_offsets={answer.bucket: answer.end for answer in answers},
            has_repeated_tasks=any(message.is_repeated for message in messages),
            is_logged=True,
        )

    def take_pending(
        self,
        by_interval: IntervalSnapshots,
        target: LogTarget,
        spark: SparkSession,
        messages: Sequence[TaskMessage] = (),
        *,
        is_last: bool = False,
    ) -> Written:
        """Make one snapshot of the batches that are in the log alone. Raises BucketConflictError, LostBatchesError.

        With `is_last` no batch may follow that visits all buckets after a conflict: what the log has is settled then.
        """
        pending = by_interval.pending
        files, batches = FilesOfBatch.of(pending.answers.values()), tuple(pending.identifiers)
        last = pending.batches[-1]
        try:
            done = take_in(by_interval, self.table, target, snapshots=self.snapshots)
        except BucketConflictError as error:
            if not is_last:
                raise
            logger.info("the log of %s is settled: %s", self.table.name, error)
            LoggedTable.of(self.table, target, kafka=self.snapshots.kafka).settle()
            done = Outcome(snapshot_id=None)
        return replace(replace(self, batch=last)._written(messages, files, done, spark), batches=batches)

    def write_files(self, rows: DataFrame, state: TableState) -> Written | None:
        """Write level-0 files of a table without a log; returns None when there was nothing to write.

        Raises BucketConflictError when the batch must be run again.
        """
        first_sequence = next_sequence(self.table, state)
        options = self.table.schema.options
        is_dynamic = self.table.schema.has_dynamic_buckets
        is_exchanged = is_dynamic or bool(self.order_by)
        if is_exchanged:
            sender = Sender(table=self.table, task_count=self.task_count)
            given = rows_by_bucket(rows, sender, order_by=self.order_by, projector=self.projector)
        else:
            given = self.projector.project(rows, self.table.schema, table_name=self.table.name)
        write = FilesWrite(
            table=self.table,
            first_sequence=first_sequence,
            is_exchanged=is_exchanged,
            index=base_index(self.table, state.snapshot_id),
            rules=AssignRules.of(options, writer_count=self.task_count) if is_dynamic else None,
        )
        messages = run_tasks(given, write, check=self.check_reads)
        files = [file for message in messages for file in message.files]
        changelog = [file for message in messages for file in message.changelog]
        if not self._is_worth_a_snapshot(messages, ()):
            return None
        hashes = [message.hashes for message in messages if message.hashes is not None]
        done = commit_files(
            self.table,
            self.batch,
            files,
            changelog,
            hashes=HashIndexChange.joined(hashes) if is_dynamic else None,
            observe=process_observer(),
        )
        of_batch = FilesOfBatch(len(files), Counter(file.bucket_id(bucket) for bucket, file in files))
        return self._written(messages, of_batch, done, rows.sparkSession)

    def _written(
        self, messages: Sequence[TaskMessage], files: FilesOfBatch, done: Outcome, spark: SparkSession
    ) -> Written:
        """Pass what is due in the buckets of `files` to the compaction; returns what was written."""
        latest = self.table.snapshots.latest()
        snapshot = None
        if done.snapshot_id is not None:
            is_latest = latest is not None and latest.id == done.snapshot_id
            snapshot = latest if is_latest else self.table.snapshots.find(done.snapshot_id)
        if snapshot is not None and not files.count:  # with files, the background compaction does it
            tag_after_commit(self.table, snapshot)
        beside = compaction_beside(self.snapshots)
        live = self.table.live_files.near(latest)
        beside.after_batch(self.batch, files.by_bucket, live, is_settled_later=self.is_settled_later, spark=spark)
        topic_id = self.snapshots.topic_id
        has_log = snapshot is not None and topic_id is not None
        log = read_state(self.table, snapshot, topic_id=topic_id).log if has_log else None
        return Written(
            row_count=sum(message.row_count for message in messages),
            file_count=files.count,
            snapshot_id=done.snapshot_id,
            time_millis=None if snapshot is None else snapshot.time_millis,
            log_offsets={} if log is None else {bucket: at.offset for bucket, at in log.positions.items()},
            has_repeated_tasks=any(message.is_repeated for message in messages),
        )

    def compact_left(self, spark: SparkSession) -> None:
        """Leave to the compaction what a process that was killed behind its commit has left."""
        live = self.table.live_files.near(self.table.snapshots.latest())
        beside = compaction_beside(self.snapshots)
        beside.after_batch(self.batch, Counter(), live, is_settled_later=self.is_settled_later, spark=spark)

    def _is_worth_a_snapshot(self, messages: Sequence[TaskMessage], answers: Sequence[BucketAnswer]) -> bool:
        """False for an empty batch without news of its sources: Spark runs those when only time has passed.

        True if a tag waits for a snapshot, see `is_snapshot_due`.
        """
        has_rows = any(message.row_count for message in messages)
        if has_rows or any(answer.base != answer.end for answer in answers) or self.has_read_on:
            return True
        return is_snapshot_due(self.table, watermark=self.batch.watermark_millis)


def next_sequence(table: FileStoreTable, state: TableState) -> int:
    """The sequence number after those of all rows in the table."""
    if not state.snapshot_id:
        return 0
    live = table.live_files.of(table.snapshots.seen(state.snapshot_id))
    return max((live.next_sequence(bucket) for bucket in live.buckets), default=0)


def base_index(table: FileStoreTable, snapshot_id: int) -> HashIndex | None:
    """The HASH index for rows written on a snapshot, 0 before the first snapshot; None without dynamic buckets.

    Raises CorruptDataError when the index lacks a bucket.
    """
    return checked_index(table, table.snapshots.get(snapshot_id) if snapshot_id else None)
