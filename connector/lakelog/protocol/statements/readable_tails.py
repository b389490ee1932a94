"""Which part of a log's tail writers can take in if it has something unreadable.

Unreadable are records of another program, a forged or damaged header, a transaction whose files are missing.

Writers refuse such a tail as a whole. A log that is renewed or removed by an explicit call ends before the first part
that cannot be taken in. Source: docs/rfcs/0028-life-of-a-log.md, "A log that cannot be read".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from lakelog.common.errors import CorruptDataError, StalledError, UnavailableError
from lakelog.common.patience import Patience
from lakelog.filestore import FileStoreTable
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.clients.offsets import high_watermark
from lakelog.logstore.kafka.producers.eventual_writer import authors_behind
from lakelog.logstore.kafka.records.tail import TailTransaction, begun_transactions
from lakelog.protocol.access.table_log import TableLog
from lakelog.protocol.state.header import LogMark
from lakelog.protocol.state.header_files import HeaderFiles
from lakelog.protocol.state.ports import BucketTail, LoggedTransaction
from lakelog.protocol.state.prepared import PreparedCommits
from lakelog.protocol.state.state import Batch, LogPosition, TableState
from lakelog.protocol.state.steps import silent
from lakelog.protocol.statements.statement_runs import target_of
from lakelog.protocol.stores.encoded_parts import Encoded
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.table_states import newest_state
from lakelog.protocol.stores.task_stores import TaskFiles, TaskLog
from lakelog.protocol.writing.kept_producers import KeptProducers
from lakelog.protocol.writing.tail_checks import TailReader, check_files, check_tail, unfinished
from lakelog.protocol.writing.task import BucketTask

Answer = TypeVar("Answer")

_USER = "lakelog-log-check"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadablePart:
    """The offsets of a bucket from `offset` to `end` (exclusive), which no writer takes in, for a reason."""

    bucket: int
    offset: int
    end: int
    reason: str

    def __str__(self) -> str:
        return f"offsets {self.offset} to {self.end} (exclusive) of bucket {self.bucket}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostStatement:
    """The place in a log of a batch statement that no process can finish, and why."""

    bucket: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableTail:
    """The transactions of a tail that every writer takes in, and the first part that none takes in, or None."""

    bucket: int
    tail: BucketTail
    left: UnreadablePart | None


def visit_of(
    table: FileStoreTable, target: LogTarget, batch: Batch, bucket: int
) -> BucketTask[Encoded, EncodedRecords]:
    """A task that reads a bucket and writes no rows."""
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


def asked_again(target: LogTarget, call: Callable[[], Answer]) -> Answer:
    """The result of `call`, repeated while Kafka does not answer; it does not wait for an open transaction."""
    patience = Patience(target.unavailable_seconds)
    while True:
        try:
            return call()
        except StalledError:
            raise
        except UnavailableError as error:
            patience.bear(error)


def whole_tail(state: TableState, task: TailReader) -> ReadableTail:
    """Like `readable_tail`, but raises CorruptDataError for a tail that no snapshot may take in."""
    tail = task.log.read_tail(task.bucket, state.logged.position(task.bucket))
    check_tail(task, state, tail)
    check_files(task, tail)
    return ReadableTail(bucket=task.bucket, tail=tail, left=None)


def readable_tail(log: TaskLog, state: TableState, task: TailReader) -> ReadableTail:
    """The tail of a bucket after a snapshot. Raises StalledError, LogTruncatedError, UnavailableError."""
    try:
        return whole_tail(state, task)
    except CorruptDataError as error:
        return _readable_part(log, state, task, str(error))


def _readable_part(log: TaskLog, state: TableState, task: TailReader, reason: str) -> ReadableTail:
    """The transactions before the first refused one, found one after the other."""
    position = state.logged.position(task.bucket)
    begun, newest = begun_transactions(log.target.topic.partition(task.bucket), position.offset)
    tail = BucketTail(
        transactions=(),
        high_watermark=newest.offset,
        leader_epoch=newest.leader_epoch,
        epoch_offset=newest.offset,
    )
    for one in begun:
        try:
            longer = replace(tail, transactions=(*tail.transactions, _logged(log, task.bucket, one)))
            check_tail(task, state, longer)
            check_files(task, longer)
        except CorruptDataError as error:
            reason = str(error)
            break
        tail = longer
    after = tail.transactions[-1].end_offset if tail.transactions else position.offset
    left = UnreadablePart(bucket=task.bucket, offset=after, end=newest.offset, reason=reason)
    return ReadableTail(bucket=task.bucket, tail=tail, left=left)


def _logged(log: TaskLog, bucket: int, found: TailTransaction) -> LoggedTransaction:
    """A transaction, without the records after it that its header does not count. Raises CorruptDataError."""
    where = f"{log.target.topic.partition(bucket)}, offset {found.first_offset}"
    header = HeaderFiles(log.table).read(found.header, where=where)
    has_more = found.record_count > header.record_count
    return LoggedTransaction(
        header=header,
        first_offset=found.first_offset,
        end_offset=found.first_offset + header.record_count if has_more else found.end_offset,
        record_count=header.record_count if has_more else found.record_count,
    )


def unreadable_part(table: FileStoreTable, log: TableLog, state: TableState, bucket: int) -> UnreadablePart | None:
    """What writers of a bucket refuse after a snapshot; None if nothing, and while an open transaction hides the tail.

    Nothing is fenced. Raises LogTruncatedError, UnavailableError.
    """
    target = target_of(log)
    if log.is_eventual:
        return _without_author(target, state, bucket)
    batch = Batch(user=_USER, identifier=0, source_digest=None)
    task = visit_of(table, target, batch, bucket)
    try:
        found = asked_again(target, lambda: readable_tail(TaskLog(table, target), state, task))
    except StalledError:
        return None
    lost = None if found.left is not None else lost_statement(table, state, [found])
    if lost is None or newest_state(table, topic_id=log.topic_id).snapshot_id != state.snapshot_id:
        return found.left  # a statement that was finished meanwhile has no prepared commit any more
    return UnreadablePart(bucket=bucket, offset=lost.offset, end=found.tail.high_watermark, reason=lost.reason)


def _without_author(target: LogTarget, state: TableState, bucket: int) -> UnreadablePart | None:
    """Records of an eventual log that belong to no batch."""
    partition, offset = target.topic.partition(bucket), state.logged.position(bucket).offset
    try:
        asked_again(target, lambda: authors_behind(partition, offset))
    except CorruptDataError as error:
        end = asked_again(target, lambda: high_watermark(partition)).offset
        return UnreadablePart(bucket=bucket, offset=offset, end=end, reason=str(error))
    except StalledError:
        return None
    return None


def lost_statement(table: FileStoreTable, state: TableState, found: Sequence[ReadableTail]) -> LostStatement | None:
    """The first batch statement in tails that no process can finish: its prepared commit is missing or damaged."""
    commits = PreparedCommits(table)
    for one in found:
        for transaction in one.tail.transactions:
            for name in unfinished(state, [transaction.header]):
                reason = commits.problem_of(name)
                if reason is not None:
                    return LostStatement(bucket=one.bucket, offset=transaction.first_offset, reason=reason)
    return None


def without_statements(state: TableState, found: Sequence[ReadableTail]) -> list[ReadableTail]:
    """The tails up to the first transaction of a batch statement that an unreadable bucket keeps unfinished.

    A statement is in the table whole or not at all. Pure.
    """
    cut = []
    for one in found:
        kept = one.tail.transactions
        names = unfinished(state, (transaction.header for transaction in kept))
        if not names:
            cut.append(one)
            continue
        first = next(at for at, transaction in enumerate(kept) if transaction.header.statement in names)
        left = UnreadablePart(
            bucket=one.bucket,
            offset=kept[first].first_offset,
            end=one.tail.high_watermark,
            reason=f"they belong to the unfinished batch statement {names[0]!r}, which cannot be finished",
        )
        cut.append(replace(one, tail=replace(one.tail, transactions=kept[:first]), left=left))
    return cut


def is_taken_in(table: FileStoreTable, target: LogTarget, bucket: int, position: LogPosition) -> bool:
    """Whether only marks follow a position. Raises StalledError, LogTruncatedError, UnavailableError."""
    try:
        tail = TaskLog(table, target).read_tail(bucket, position)
    except CorruptDataError:
        return False
    return all(one.header.mark in (LogMark.END, LogMark.OPEN) for one in tail.transactions)
