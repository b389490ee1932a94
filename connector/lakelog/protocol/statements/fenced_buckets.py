"""The buckets of a log, owned by one process: each is fenced, then its tail is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore import FileStoreTable
from lakelog.protocol.state.header import LogMark
from lakelog.protocol.state.log_generations import is_ended
from lakelog.protocol.state.ports import BucketTail, LoggedTransaction
from lakelog.protocol.state.state import Batch, TableState
from lakelog.protocol.statements.readable_tails import (
    ReadableTail,
    UnreadablePart,
    asked_again,
    lost_statement,
    readable_tail,
    visit_of,
    whole_tail,
    without_statements,
)
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.table_states import newest_state
from lakelog.protocol.stores.task_stores import TaskLog, TaskProducer
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.protocol.writing.tail_checks import unfinished


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedBucket:
    """A bucket whose producer this process has, and what the log has after the newest snapshot.

    `left` is what follows in the log but cannot be taken in.
    """

    number: int
    producer: TaskProducer
    base: int
    tail: BucketTail
    left: UnreadablePart | None = None

    @property
    def is_ended(self) -> bool:
        """Whether the log already has the mark."""
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
        """What a snapshot takes in from the tail."""
        return BucketAnswer(
            bucket=self.number,
            base=self.base,
            end=self.adopted[-1].end_offset if self.adopted else self.base,
            leader_epoch=self.tail.leader_epoch,
            epoch_offset=self.tail.epoch_offset,
            transactions=tuple(one.header for one in self.adopted),
            has_fenced=True,
            ends=tuple(one.end_offset for one in self.adopted),
        )


@contextmanager
def fenced_buckets(
    table: FileStoreTable,
    target: LogTarget,
    batch: Batch,
    *,
    allows_foreign: bool = False,
    without: Collection[int] = (),
    skips_unreadable: bool = False,
) -> Iterator[tuple[TableState, list[FencedBucket]]]:
    """The newest state and every bucket; each is fenced before it is read. The producers are closed at the end.

    `allows_foreign` is that of `read_state`; buckets in `without` are left out. Raises UnavailableError, NotFoundError
    without the topic, and CorruptDataError for a tail that no snapshot may take in; with `skips_unreadable` the tail
    ends before what no snapshot may take in.
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

        def look(state: TableState, bucket: int) -> ReadableTail:
            task = visit_of(table, target, batch, bucket)
            return asked_again(
                target, lambda: readable_tail(log, state, task) if skips_unreadable else whole_tail(state, task)
            )

        found = list(threads.map(partial(look, state), numbers))
        while skips_unreadable and lost_statement(table, state, found) is not None:
            newest = newest_state(table, topic_id=target.topic_id, allows_foreign=allows_foreign)
            if newest.snapshot_id == state.snapshot_id:
                found = without_statements(state, found)
                break
            state = newest  # a statement that was finished meanwhile no longer has a prepared commit
            found = list(threads.map(partial(look, state), numbers))
        if any(one.left is not None for one in found):
            found = without_statements(state, found)
        names = unfinished(state, (at.header for one in found for at in one.tail.transactions))
        if names:
            raise InvalidRequestError(
                f"the log of table {table.name} holds {names[0]!r}, which no snapshot has: finish it first, with "
                "`lakelog log settle`, or for a batch statement `lakelog statement finish`"
            )
        yield (
            state,
            [
                FencedBucket(
                    number=one.bucket,
                    producer=producer,
                    base=state.logged.position(one.bucket).offset,
                    tail=one.tail,
                    left=one.left,
                )
                for one, producer in zip(found, producers, strict=True)
            ],
        )
