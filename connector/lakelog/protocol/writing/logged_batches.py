"""Batches that are in the log of a table and in no snapshot, over the real stores.

What a run looks for before its first batch, what it acknowledges, and the snapshot that takes all of it in.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from lakelog.common.clock import Stopwatch, system_millis
from lakelog.common.errors import LakelogError, StalledError
from lakelog.common.patience import Patience
from lakelog.filestore.metadata.tables import TableStore
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.clients.offsets import high_watermarks, last_stable_offset
from lakelog.logstore.kafka.producers.eventual_writer import authors_behind
from lakelog.logstore.options import TOPIC_ID
from lakelog.protocol.state.header import CommitHeader, LostFilesError
from lakelog.protocol.state.ports import BucketTail, SnapshotChange, Snapshots
from lakelog.protocol.state.state import Batch, LogPosition, TableState
from lakelog.protocol.state.steps import process_observer
from lakelog.protocol.state.writer_marks import NOTHING_LEFT, LeftBatches, WriterMarks, with_marks
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.task_stores import TaskLog
from lakelog.protocol.writing.attempts import BucketAnswer, OvertakenError
from lakelog.protocol.writing.committed import CommittedBucket
from lakelog.protocol.writing.driver import Outcome, check_left_over, take_answers
from lakelog.protocol.writing.eventual import check_no_other_left
from lakelog.protocol.writing.interval import IntervalSnapshots
from lakelog.protocol.writing.lost_batches import LATE_SECONDS, check_acknowledged, check_newest
from lakelog.protocol.writing.pending import commit_pending
from lakelog.protocol.writing.tail_checks import check_files

logger = logging.getLogger("lakelog.protocol")


def buckets_behind(table: TableStore, target: LogTarget, state: TableState) -> list[int]:
    """The buckets whose log has records after what a snapshot holds."""
    count = table.bucket_count
    ends = Patience(target.unavailable_seconds).keep_trying(lambda: high_watermarks(target.topic, count))
    return [bucket for bucket, end in ends.items() if end.offset != state.logged.position(bucket).offset]


def check_before_first(
    table: TableStore, target: LogTarget, batch: Batch, state: TableState, *, snapshots: Snapshots
) -> LeftBatches:
    """Raise an error if the log is not what the run of a writer has to begin with; before anything is logged.

    Returns what earlier runs have left. InvalidRequestError when an earlier run has left the batch there with other
    source offsets; LostBatchesError when the log lacks what an earlier run has acknowledged. A tail that an open
    transaction hides, or whose files are missing, is left to the tasks, which check again. Of an eventual log:
    InvalidRequestError when it has records of another query's batch that are in no snapshot.
    """
    if not target.topic.is_transactional:
        _check_one_writer(table, target, batch, state)
        return NOTHING_LEFT
    mark = WriterMarks(table, target.topic_id).find(batch.user)
    log = TaskLog(table, target)
    behind = buckets_behind(table, target, state)
    for bucket in behind:
        check_left_over(batch, bucket, _headers(log, bucket, state.logged.position(bucket)))
    if mark is None:
        return LeftBatches(buckets=tuple(behind))

    def tails(state: TableState, fences: bool) -> dict[int, list[CommitHeader]]:
        found = buckets_behind(table, target, state)
        return {bucket: _found(log, bucket, state, snapshots, fences=fences) for bucket in found}

    check_acknowledged(mark, snapshots=snapshots, tails=tails)
    return LeftBatches.of(mark, batch, state, buckets=behind)


def acknowledged(table: TableStore, user: str) -> int | None:
    """The last batch that a writer has acknowledged by the log; None without a log, and without such a batch."""
    found = WriterMarks(table, TOPIC_ID.of(table.schema.options)).find(user) if table.has_log else None
    return None if found is None else found.identifier


def acknowledge(
    by_interval: IntervalSnapshots,
    table: TableStore,
    target: LogTarget,
    batch: Batch,
    answers: Sequence[BucketAnswer],
    *,
    snapshots: Snapshots,
    lasted: Stopwatch,
    left: LeftBatches | None = None,
) -> None:
    """Keep a batch that is whole in the log, and mark it beside the log. Raises LostBatchesError, StaleAttemptError.

    `left` is what `check_before_first` has found, if the batch is the first of its run. `lasted` began with the batch:
    within a moment no other run can have come between.
    """
    pending, marks = by_interval.pending, WriterMarks(table, target.topic_id)
    if left is not None or lasted.seconds() > LATE_SECONDS:
        check_newest(marks.find(batch.user), batch)
    pending.add(batch, answers, snapshots, left=left or NOTHING_LEFT)
    mark = pending.mark(table.uuid, target.topic_id, has_listeners=by_interval.has_listeners)
    marks.put(mark)


@contextlib.contextmanager
def reporting(table: TableStore, target: LogTarget, user: str, batches: Sequence[int]) -> Iterator[Sequence[int]]:
    """The batches of a writer that its listeners are called for: these, and earlier ones that its mark names.

    Behind the block the mark names none.
    """
    marks = WriterMarks(table, target.topic_id)
    mark = marks.find(user)
    if mark is None or not mark.unreported:
        yield batches
        return
    yield sorted({*batches, *(one for one in mark.unreported if one <= max(batches))})
    marks.put(replace(mark, unreported=()))


def take_in(by_interval: IntervalSnapshots, table: TableStore, target: LogTarget, *, snapshots: Snapshots) -> Outcome:
    """Make one snapshot of all pending batches. Raises BucketConflictError, LostBatchesError."""
    return commit_pending(
        by_interval.pending,
        holds=TaskLog(table, target).holds,
        marks=WriterMarks(table, target.topic_id).all,
        read_on=partial(_read_on, table, target),
        snapshots=snapshots,
        observe=process_observer(),
        clock=system_millis,
    )


def adopt(table: TableStore, target: LogTarget, batch: Batch, answers: Sequence[BucketAnswer]) -> int | None:
    """Make a snapshot of what the tails of buckets hold, without a user of its own; returns its id.

    Raises BucketConflictError if another writer has taken in a part of it.
    """

    marks = {mark.user: mark for mark in WriterMarks(table, target.topic_id).all()}

    def decide(state: TableState) -> SnapshotChange:
        change = replace(take_answers(state, batch, answers, now_millis=system_millis()), users=state.users)
        also = [mark.user for mark in marks.values() if mark.rowless_behind(state.users)]
        return with_marks(change, marks.get, now_millis=system_millis(), also=also)

    return DriverSnapshots(table, target.topic_id).append(batch, decide)


def _read_on(table: TableStore, target: LogTarget, bucket: int, offset: int, state: TableState) -> BucketTail | None:
    """What other writers have committed in a bucket from an offset on; None where that cannot be taken in now.

    Whoever visits the bucket for its own sake raises what is wrong with it.
    """
    reader = CommittedBucket(table, target, bucket)
    try:
        tail = reader.read(state, offset, last_stable_offset(target.topic.partition(bucket)))
        check_files(reader, tail)
    except LakelogError as error:
        logger.info("what others have in bucket %d of %s is taken in later: %s", bucket, table.name, error)
        return None
    return tail


def _found(log: TaskLog, bucket: int, state: TableState, snapshots: Snapshots, *, fences: bool) -> list[CommitHeader]:
    """The transactions of a bucket behind a snapshot, after a fence where that is asked for."""
    position = state.logged.position(bucket)
    if fences:
        _patience(log).keep_trying(partial(log.fence, bucket, patience=0)).close()
    try:
        return _headers(log, bucket, position)
    except LogTruncatedError as error:
        if snapshots.newest().logged.position(bucket) == position:
            raise
        raise OvertakenError from error


def _headers(log: TaskLog, bucket: int, position: LogPosition) -> list[CommitHeader]:
    """The transactions of a bucket behind a position; none where an open one hides them or a file is missing."""

    def read() -> list[CommitHeader]:
        with contextlib.suppress(StalledError, LostFilesError):
            return [one.header for one in log.read_tail(bucket, position).transactions]
        return []

    return _patience(log).keep_trying(read)


def _patience(log: TaskLog) -> Patience:
    return Patience(log.target.unavailable_seconds)


def _check_one_writer(table: TableStore, target: LogTarget, batch: Batch, state: TableState) -> None:
    """Raise InvalidRequestError if an eventual log has records of another query's batch that are in no snapshot."""
    patience = Patience(target.unavailable_seconds)
    for bucket in buckets_behind(table, target, state):
        partition, position = target.topic.partition(bucket), state.logged.position(bucket)
        authors = patience.keep_trying(partial(authors_behind, partition, position.offset))
        check_no_other_left(batch, bucket, authors, state.users, table_name=table.name)
