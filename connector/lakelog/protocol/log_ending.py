"""The end of a log, in the log: each bucket is fenced, its tail is read, and a mark behind it refuses every writer.

What lies before the mark is taken into a snapshot; the position of the snapshot stays before the mark, so that every
writer finds it. Source: docs/rfcs/0028-life-of-a-log.md, "Generations".
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, FencedError, InvalidRequestError, LakelogError
from lakelog.common.patience import Patience
from lakelog.filestore.table import FileStoreTable
from lakelog.logstore.codec.debezium import EncodedRecords
from lakelog.protocol.driver import BucketConflictError, take_answers
from lakelog.protocol.header import CommitHeader, LogMark
from lakelog.protocol.kept_producers import KeptProducers
from lakelog.protocol.log_generations import is_ended
from lakelog.protocol.ports import BucketTail, LoggedTransaction, SnapshotChange
from lakelog.protocol.state import Batch, TableState
from lakelog.protocol.steps import silent
from lakelog.protocol.stores import (
    DriverSnapshots,
    Encoded,
    LogTarget,
    TaskFiles,
    TaskLog,
    TaskProducer,
    newest_state,
)
from lakelog.protocol.task import BucketAnswer, BucketTask, check_files, check_tail, unfinished

logger = logging.getLogger("lakelog.protocol")

HEADER_ONLY = EncodedRecords(keys=(), values=(), row_count=0, size_bytes=0, largest=0)
_USER = "lakelog-log"
_TRIES_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedBucket:
    """A bucket of which this process has the producer, and what the log has behind the newest snapshot."""

    number: int
    producer: TaskProducer
    base: int
    tail: BucketTail

    @property
    def is_ended(self) -> bool:
        """Whether the log has the mark already."""
        return is_ended(one.header for one in self.tail.transactions)

    @property
    def adopted(self) -> Sequence[LoggedTransaction]:
        """The transactions of the tail, without the mark at its end."""
        found = self.tail.transactions
        if not self.is_ended:
            return found
        last = max(number for number, one in enumerate(found) if one.header.mark is LogMark.END)
        return found[:last]

    @property
    def answer(self) -> BucketAnswer:
        """What a snapshot takes in of the tail."""
        return BucketAnswer(
            bucket=self.number,
            base=self.base,
            end=self.adopted[-1].end_offset if self.adopted else self.base,
            leader_epoch=self.tail.leader_epoch,
            epoch_offset=self.tail.epoch_offset,
            transactions=tuple(one.header for one in self.adopted),
            has_fenced=True,
        )


@contextmanager
def fenced_buckets(
    table: FileStoreTable,
    target: LogTarget,
    batch: Batch,
    *,
    allows_foreign: bool = False,
    without: Collection[int] = (),
) -> Iterator[tuple[TableState, list[FencedBucket]]]:
    """The newest state and every bucket, fenced before it is looked at. The producers are closed at the end.

    `allows_foreign` is that of `read_state`; buckets in `without` are left out. Raises UnavailableError, NotFoundError
    without the topic, and CorruptDataError for a tail that no snapshot may take.
    """
    log = TaskLog(table, target)
    numbers = [bucket for bucket in range(table.bucket_count) if bucket not in without]
    with ExitStack() as opened, ThreadPoolExecutor(max(len(numbers), 1)) as threads:

        def fence(bucket: int) -> TaskProducer:
            producer = log.fence(bucket, patience=0)
            opened.callback(producer.close)
            return producer

        producers = list(threads.map(fence, numbers))
        state = newest_state(table, topic_id=target.topic_id, allows_foreign=allows_foreign)

        def read_tail(bucket: int) -> BucketTail:
            patience = Patience(target.unavailable_seconds)
            return patience.keep_trying(lambda: log.read_tail(bucket, state.logged.position(bucket)))

        tails = list(threads.map(read_tail, numbers))
        for bucket, tail in zip(numbers, tails, strict=True):
            task = _visit(table, target, batch, bucket)
            check_tail(task, state, tail)
            check_files(task, tail)
            left = unfinished(state, (one.header for one in tail.transactions))
            if left:
                raise InvalidRequestError(
                    f"the log of table {table.name} holds the unfinished batch statement {left[0]!r}: finish it first, "
                    "with `lakelog statement finish`, or the next batch of a stream that writes"
                )
        yield (
            state,
            [
                FencedBucket(number=bucket, producer=producer, base=state.logged.position(bucket).offset, tail=tail)
                for bucket, producer, tail in zip(numbers, producers, tails, strict=True)
            ],
        )


def _visit(table: FileStoreTable, target: LogTarget, batch: Batch, bucket: int) -> BucketTask[Encoded, EncodedRecords]:
    return BucketTask(
        table_uuid=table.uuid,
        schema_id=table.schema.id,
        batch=batch,
        bucket=bucket,
        rows=None,
        log=TaskLog(table, target),
        files=TaskFiles(table, target),
        kept=KeptProducers(),
        observe=silent,
    )


def end_log(table: FileStoreTable, target: LogTarget, *, takes_parts: bool, without: Collection[int] = ()) -> None:
    """End the log of a table, and take all of it into a snapshot; of buckets in `without` nothing can be read.

    A table without a snapshot gets one.

    With `takes_parts` batches may be in a part of the buckets alone. Otherwise they raise InvalidRequestError, and the
    log goes on. Raises ConflictError for a writer that logs meanwhile; then the log goes on too.
    """
    for _ in range(_TRIES_MAX):
        batch = Batch(user=f"{_USER}-{uuid.uuid4()}", identifier=0, source_digest=None)
        with fenced_buckets(table, target, batch, without=without) as (state, buckets):
            answers = [bucket.answer for bucket in buckets]
            if not takes_parts:
                _check_whole(table, target, state, batch, buckets)
            _end(table, target, state, batch, buckets)
            if state.snapshot_id and not any(answer.transactions for answer in answers):
                return
            try:
                adopt(table, target, batch, answers)
            except BucketConflictError as error:
                logger.info("the end of the log of %s is looked at again: %s", table.name, error)
                continue
            return
    raise ConflictError(
        f"table {table.name} was changed by other writers {_TRIES_MAX} times while its log was ended; try again"
    )


def adopt(table: FileStoreTable, target: LogTarget, batch: Batch, answers: Sequence[BucketAnswer]) -> int | None:
    """Make a snapshot of what the tails of buckets hold, under no user of its own; gives its id.

    Raises BucketConflictError where another writer has taken in a part of it.
    """

    def decide(state: TableState) -> SnapshotChange:
        change = take_answers(state, batch, answers, now_millis=system_millis())
        return replace(change, users=state.users)

    return DriverSnapshots(table, target.topic_id).append(batch, decide)


def _check_whole(
    table: FileStoreTable, target: LogTarget, state: TableState, batch: Batch, buckets: Sequence[FencedBucket]
) -> None:
    """Raise InvalidRequestError while a batch is in a part of the log alone; its stream must be able to finish it."""
    after = take_answers(state, batch, [bucket.answer for bucket in buckets], now_millis=system_millis())
    assert after.log is not None
    left = sorted({(user, taken.identifier) for user, taken in after.log.taken()})
    if not left:
        return
    _open_again(table, target, state, batch, [bucket for bucket in buckets if bucket.is_ended])
    user, identifier = left[0]
    raise InvalidRequestError(
        f"batch {identifier} of {user} is in the log of table {table.name} and in no snapshot of its own yet: without "
        "this log its stream could not finish it. Start the stream until it has finished the batch, stop it, and call "
        "this again; `lakelog log renew` keeps such batches"
    )


def _end(
    table: FileStoreTable, target: LogTarget, state: TableState, batch: Batch, buckets: Sequence[FencedBucket]
) -> None:
    """Log the mark in every bucket that lacks it."""
    ended = [bucket for bucket in buckets if bucket.is_ended]
    for bucket in buckets:
        if bucket.is_ended:
            continue
        try:
            log_mark(bucket.producer, mark_header(table, state, batch, LogMark.END))
        except FencedError as error:
            _open_again(table, target, state, batch, ended)
            raise ConflictError(
                f"another stream writes table {table.name} now, in bucket {bucket.number}: stop every stream that "
                "writes the table, then call this again. The log goes on"
            ) from error
        ended.append(bucket)


def _open_again(
    table: FileStoreTable, target: LogTarget, state: TableState, batch: Batch, buckets: Sequence[FencedBucket]
) -> None:
    """Log that an end does not count, by new producers: a writer that was refused has fenced those that there are."""
    for bucket in buckets:
        try:
            producer = TaskLog(table, target).fence(bucket.number, patience=0)
            try:
                log_mark(producer, mark_header(table, state, batch, LogMark.OPEN))
            finally:
                producer.close()
        except LakelogError as error:
            logger.warning(
                "bucket %d of %s stays ended until this is called again: %s", bucket.number, table.name, error
            )


def mark_header(
    table: FileStoreTable,
    state: TableState,
    batch: Batch,
    mark: LogMark,
) -> CommitHeader:
    """The header of a header record with a mark and without files."""
    return CommitHeader(
        table_uuid=table.uuid,
        user=batch.user,
        identifier=batch.identifier,
        source_digest=batch.source_digest,
        schema_id=table.schema.id,
        base_snapshot_id=state.snapshot_id,
        record_count=1,
        size_bytes=0,
        files=(),
        lineage=batch.lineage,
        mark=mark,
    )


def log_mark(producer: TaskProducer, header: CommitHeader) -> int:
    """Log a header record in a transaction of its own, and give its end. Raises FencedError, UnknownOutcomeError."""
    assert header.mark is not None
    producer.begin(HEADER_ONLY, header)
    producer.produce()
    producer.flush()
    return producer.commit()
