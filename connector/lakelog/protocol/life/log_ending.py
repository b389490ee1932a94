"""The end of a log, in the log itself: each bucket is fenced, its tail is read, and a mark then refuses all writers.

What is before the mark is taken into a snapshot; the position of the snapshot stays before the mark, so that every
writer finds the mark. Source: docs/rfcs/0028-life-of-a-log.md, "Generations".
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Sequence

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, FencedError, InvalidRequestError, LakelogError
from lakelog.filestore import FileStoreTable
from lakelog.logstore.codec.encoded_records import NO_RECORDS
from lakelog.logstore.kafka.clients.topic import describe_topic, keep_all_records
from lakelog.logstore.options import COMPACTION
from lakelog.protocol.state.header import CommitHeader, LogMark
from lakelog.protocol.state.state import Batch, TableState
from lakelog.protocol.statements.fenced_buckets import FencedBucket, fenced_buckets
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.task_stores import TaskLog, TaskProducer
from lakelog.protocol.writing.driver import BucketConflictError, take_answers
from lakelog.protocol.writing.logged_batches import adopt

logger = logging.getLogger("lakelog.protocol")

_USER = "lakelog-log"
_TRIES_MAX = 10


def end_log(
    table: FileStoreTable,
    target: LogTarget,
    *,
    takes_parts: bool,
    without: Collection[int] = (),
    skips_unreadable: bool = False,
) -> None:
    """End the log of a table, and take all of it into a snapshot; nothing can be read from buckets in `without`.

    A table without a snapshot gets one.

    With `takes_parts`, batches may be in only a part of the buckets. Otherwise such a batch raises InvalidRequestError,
    and the log continues. With `skips_unreadable`, what cannot be taken in is left out and reported as a warning.
    Raises ConflictError for a writer that logs meanwhile; then the log continues too.
    """
    _let_it_be_written(target)
    for _ in range(_TRIES_MAX):
        batch = Batch(user=f"{_USER}-{uuid.uuid4()}", identifier=0, source_digest=None)
        with fenced_buckets(table, target, batch, without=without, skips_unreadable=skips_unreadable) as (
            state,
            buckets,
        ):
            answers = [bucket.answer for bucket in buckets]
            if not takes_parts:
                _check_whole(table, target, state, batch, buckets)
            _end(table, target, state, batch, buckets)
            _warn_of_left(table, buckets)
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


def _let_it_be_written(target: LogTarget) -> None:
    """Switch off Kafka's compaction of the topic: with it, Kafka refuses records without a key, such as marks."""
    if COMPACTION in describe_topic(target.topic).deletes_by:
        keep_all_records(target.topic)


def _warn_of_left(table: FileStoreTable, buckets: Sequence[FencedBucket]) -> None:
    for bucket in buckets:
        if bucket.left is not None:
            logger.warning("the log of table %s is left out from here on: %s", table.name, bucket.left)


def _check_whole(
    table: FileStoreTable, target: LogTarget, state: TableState, batch: Batch, buckets: Sequence[FencedBucket]
) -> None:
    """Raise InvalidRequestError while a batch is in only a part of the log; its stream must be able to finish it."""
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
        if bucket.is_ended or bucket.left is not None:  # an unreadable part refuses every writer too
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
    """Log that an end does not count, with new producers: a refused writer has fenced the present ones."""
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
    """Log a header record in a transaction of its own; returns its end. Raises FencedError, UnknownOutcomeError."""
    assert header.mark is not None
    producer.begin(NO_RECORDS, header)
    producer.produce()
    producer.flush()
    return producer.commit()
