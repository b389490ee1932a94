"""Batches that are whole in the log and in no snapshot yet: what the driver of a stream keeps of them.

With an interval between snapshots a batch is its transactions alone. The driver keeps the answers of the tasks, bucket
by bucket, and one APPEND snapshot takes all of them in. Nothing is lost with the driver but its memory: the next run
visits every bucket whose log is longer than the snapshot says. Source: docs/rfcs/0049-log-first.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.ports import BucketTail, SnapshotChange, Snapshots
from lakelog.protocol.state.state import Batch, TableState, is_committed
from lakelog.protocol.state.steps import StepObserver
from lakelog.protocol.state.writer_marks import NOTHING_LEFT, LeftBatches, WriterMark, with_marks
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.protocol.writing.driver import (
    AnswerDecision,
    BucketConflictError,
    Clock,
    Outcome,
    commit_once,
    compare_and_set,
    take_answers,
)
from lakelog.protocol.writing.kept_producers import ReportedTail
from lakelog.protocol.writing.lost_batches import is_taken, lost
from lakelog.protocol.writing.tail_checks import last_sequence, unfinished

Holds = Callable[[int, Sequence[tuple[CommitHeader, int]]], bool]
"""Whether a bucket's log has these transactions, each up to its end; no producer is open there."""


@dataclass(slots=True)
class PendingBatches:
    """The whole batches of one writer since its last snapshot, the oldest first, and the answers of their buckets.

    `is_blind` says that other transactions than the answers may be behind the snapshot: at the beginning of a run, and
    after a conflict or an attempt that failed. Then every bucket with a tail is visited, and fenced. `file_count` and
    `size_bytes` are those of the data files that the snapshot will take in. `rowless` are the batches without a
    transaction, whose lineage only the mark has, in so many `rowless_bytes`. `unreported` are batches of an earlier run
    that its listeners may not have heard of.
    """

    batches: list[Batch] = field(default_factory=list)
    answers: dict[int, BucketAnswer] = field(default_factory=dict)
    is_blind: bool = True
    file_count: int = 0
    size_bytes: int = 0
    rowless: list[Batch] = field(default_factory=list)
    rowless_bytes: int = 0
    unreported: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.batches)

    @property
    def identifiers(self) -> list[int]:
        """The writer's batches up to the next snapshot, those that an earlier run has left too, in order."""
        if not self.batches:
            return []
        last = self.batches[-1]
        heads = (head for answer in self.answers.values() for head in answer.transactions)
        found = {head.identifier for head in heads if head.user == last.user}
        found |= {one.identifier for one in self.batches} | set(self.unreported)
        return sorted(one for one in found if one <= last.identifier)

    def forget(self) -> None:
        """Another writer came between: all buckets are visited again, and what is in their logs is found there."""
        self.taken_in()
        self.is_blind = True

    def taken_in(self) -> None:
        """A snapshot has all batches."""
        self.batches.clear()
        self.answers.clear()
        self.rowless.clear()
        self.file_count = self.size_bytes = self.rowless_bytes = 0
        self.unreported = ()

    def reported(self, *, with_headers: bool) -> dict[int, ReportedTail]:
        """What is known of each bucket; `with_headers` for tables that look up old rows."""
        if self.is_blind:
            return {}
        return {bucket: _reported(answer, with_headers=with_headers) for bucket, answer in self.answers.items()}

    def add(
        self, batch: Batch, answers: Sequence[BucketAnswer], snapshots: Snapshots, *, left: LeftBatches = NOTHING_LEFT
    ) -> None:
        """Add a batch that is whole in the log; if this is blind, its answers are those of every bucket with a tail.

        `left` is what the mark of the writer says then. Raises LostBatchesError for a log that lacks an earlier batch.
        """
        joined = dict(self.answers)
        file_count, size_bytes = self.file_count, self.size_bytes
        for answer in answers:
            before = joined.get(answer.bucket)
            if before is not None and answer.base == answer.end:
                continue  # nothing new; what was pending is compared with the snapshot when it is taken in
            files = _file_sizes(answer)
            file_count, size_bytes = file_count + len(files), size_bytes + sum(files)
            if answer.goes_on:
                assert before is not None, "the answer goes on from what is known"
                joined[answer.bucket] = _gone_on(before, answer)
                continue
            if before is not None:
                _check_goes_on(batch.user, before, answer, snapshots)
                files = _file_sizes(before)
                file_count, size_bytes = file_count - len(files), size_bytes - sum(files)
            joined[answer.bucket] = answer if before is None else _with_epoch(answer, before)
        self.answers, self.file_count, self.size_bytes = joined, file_count, size_bytes
        heads = (head for answer in answers for head in answer.transactions)
        has_part = any((head.user, head.identifier) == (batch.user, batch.identifier) for head in heads)
        rowless = [*left.rowless, *(() if has_part else (batch,))]
        self.batches += [*left.rowless, batch]
        self.rowless += rowless
        self.rowless_bytes += sum(len(json.dumps(one.lineage)) for one in rowless)
        self.unreported += left.unreported
        self.is_blind = False

    def mark(self, table_uuid: str, topic_id: str, *, has_listeners: bool = False) -> WriterMark:
        """What a later run of the writer must find: the last own transaction of each bucket, and what the log lacks."""
        last = self.batches[-1]
        ends: dict[int, tuple[int, int]] = {}
        for bucket, answer in self.answers.items():
            newest_first = zip(reversed(answer.ends), reversed(answer.transactions), strict=True)
            own = next(((end, head.identifier) for end, head in newest_first if head.user == last.user), None)
            if own is not None:
                ends[bucket] = own
        return WriterMark(
            table_uuid=table_uuid,
            topic_id=topic_id,
            user=last.user,
            identifier=last.identifier,
            digest=last.source_digest,
            ends=ends,
            rowless=tuple(self.rowless),
            unreported=tuple(self.identifiers) if has_listeners else (),
        )


ReadOn = Callable[[int, int, TableState], BucketTail | None]
"""What is committed in a bucket from an offset on, at or behind a snapshot; None where it cannot be taken in now."""


def with_marked(
    answers: Mapping[int, BucketAnswer], marks: Iterable[WriterMark], state: TableState, read_on: ReadOn
) -> tuple[BucketAnswer, ...]:
    """The answers, and what other writers have marked behind them, so that the snapshot has their batches as a whole.

    No fence is needed: committed transactions do not change. A batch statement that no snapshot has, and what is behind
    it, is left to the statement's own commit.
    """
    found = dict(answers)
    for mark in marks:
        for bucket, (end, _) in sorted(mark.ends.items()):
            before = found.get(bucket) or BucketAnswer.nothing(bucket, state.logged.position(bucket).offset)
            if end <= before.end or (tail := read_on(bucket, before.end, state)) is None:
                continue
            left = unfinished(state, (one.header for one in tail.transactions))
            # What is behind the mark may be a part of the next batch.
            stops = (
                at for at, one in enumerate(tail.transactions) if one.header.statement in left or one.end_offset > end
            )
            kept = tail.transactions[: next(stops, None)]
            if kept:
                found[bucket] = replace(
                    before,
                    end=kept[-1].end_offset,
                    leader_epoch=tail.leader_epoch,
                    epoch_offset=tail.epoch_offset,
                    transactions=(*before.transactions, *(one.header for one in kept)),
                    ends=(*before.ends, *(one.end_offset for one in kept)),
                )
    return tuple(found.values())


def commit_pending(  # the ports of the driver
    pending: PendingBatches,
    *,
    holds: Holds,
    snapshots: Snapshots,
    observe: StepObserver,
    clock: Clock,
    marks: Callable[[], Sequence[WriterMark]] = tuple,
    read_on: ReadOn = lambda *_given: None,
) -> Outcome:
    """Index all pending batches in one APPEND snapshot, and forget them; `marks` are those of the other writers.

    Raises BucketConflictError where another writer came between: the batches stay in the log, and the next batch of
    the writer visits all buckets. Raises LostBatchesError for a log that no longer has one of them.
    """
    last, earlier = pending.batches[-1], tuple(pending.batches[:-1])
    others = [mark for mark in marks() if mark.user != last.user]
    seen = {mark.user: mark for mark in others}
    answers = tuple(pending.answers.values())
    if others:
        answers = with_marked(pending.answers, others, snapshots.newest(), read_on)

    def decide(state: TableState) -> SnapshotChange | None:
        if is_committed(state, last):
            return None
        for answer in answers:
            if compare_and_set(state.logged.position(answer.bucket), answer) is AnswerDecision.TAKE:
                _check_there(last.user, answer, holds)
            elif answer.base != answer.end:
                _check_taken(last.user, answer, _logged(answer), state)
        change = take_answers(state, last, answers, now_millis=clock(), earlier=earlier)
        # Meanwhile the others may have marked more, which this snapshot does not have; it has what they marked before.
        return with_marks(change, seen.get, now_millis=clock())

    try:
        done = commit_once(last, decide, snapshots, observe)
    except BucketConflictError:
        pending.forget()
        raise
    pending.taken_in()
    return done


def _reported(answer: BucketAnswer, *, with_headers: bool) -> ReportedTail:
    return ReportedTail(
        base=answer.base,
        end=answer.end,
        next_sequence=last_sequence(answer.transactions),
        headers=answer.transactions if with_headers else (),
    )


def _logged(answer: BucketAnswer) -> Iterator[tuple[CommitHeader, int]]:
    return zip(answer.transactions, answer.ends, strict=True)


def _file_sizes(answer: BucketAnswer) -> list[int]:
    return [file.meta.file_size_bytes for head in answer.transactions for file in head.files]


def _gone_on(before: BucketAnswer, answer: BucketAnswer) -> BucketAnswer:
    """What was known of a bucket, and what was logged behind it."""
    return replace(
        _with_epoch(answer, before),
        base=before.base,
        transactions=(*before.transactions, *answer.transactions),
        ends=(*before.ends, *answer.ends),
        goes_on=False,
    )


def _with_epoch(answer: BucketAnswer, before: BucketAnswer) -> BucketAnswer:
    """The answer of a kept producer, which does not ask for the leader's epoch, with the one that was known."""
    if answer.leader_epoch is not None:
        return answer
    return replace(answer, leader_epoch=before.leader_epoch, epoch_offset=before.epoch_offset)


def _check_goes_on(user: str, before: BucketAnswer, answer: BucketAnswer, snapshots: Snapshots) -> None:
    """Raise LostBatchesError unless a bucket's newer answer has what was pending there behind its own base."""
    found = set(_named(answer))
    left = [
        (head, end)
        for head, end in _logged(before)
        if head.user == user and end > answer.base and (head.user, head.identifier, end) not in found
    ]
    if left:
        _check_taken(user, before, left, snapshots.newest())


def _check_there(user: str, answer: BucketAnswer, holds: Holds) -> None:
    """Raise LostBatchesError unless the log still has each transaction of an answer, where it ended."""
    logged = list(_logged(answer))
    if not holds(answer.bucket, logged):
        first = next(((head, end) for head, end in logged if head.user == user), logged[0])
        raise lost(first[0].user, answer.bucket, first[0].identifier, first[1])


def _check_taken(
    user: str, answer: BucketAnswer, logged: Iterable[tuple[CommitHeader, int]], state: TableState
) -> None:
    """Raise LostBatchesError unless a snapshot has the writer's transactions."""
    for head, end in logged:
        if head.user == user and not is_taken(user, head.identifier, answer.bucket, state):
            raise lost(user, answer.bucket, head.identifier, end)


def _named(answer: BucketAnswer) -> Iterator[tuple[str, int, int]]:
    return ((head.user, head.identifier, end) for head, end in _logged(answer))
