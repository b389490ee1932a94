"""The log of a table, owned by one process: it has the producer of each bucket, and knows what is in the log.

Whoever else logs in a bucket fences its producer first. Source: docs/rfcs/0051-writers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar  # Any: what is done in each bucket is the caller's

from lakelog.common.patience import Patience
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.ports import BucketLog, PreparedBucket, Producer, TableFiles
from lakelog.protocol.state.prepared import PreparedCommit
from lakelog.protocol.state.state import TableState
from lakelog.protocol.state.steps import Step, StepObserver
from lakelog.protocol.statements.statements import StatementPorts, finish
from lakelog.protocol.writing.attempts import BucketAnswer, sent
from lakelog.protocol.writing.kept_producers import KeptProducer
from lakelog.protocol.writing.lost_batches import lost
from lakelog.protocol.writing.pending import Holds
from lakelog.protocol.writing.tail_checks import check_goes_up, checked_tail, unfinished

Payload = TypeVar("Payload")
Part = tuple[PreparedBucket[Payload], CommitHeader]


class InEach(Protocol):
    """Does something in each of several buckets, maybe at once; raises the first error after all have ended."""

    def __call__(self, work: Callable[[int], Any], buckets: Iterable[int], /) -> list[Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What a writer has acknowledged: a write, the digest of its sources, and its end in each of its buckets."""

    user: str
    number: int
    digest: str | None
    ends: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPorts(Generic[Payload]):
    """The ports of one table for a process that owns its log, as the table is now.

    `check_place` raises an error in a copy of the folder, which has no log of its own. `put_mark` replaces the mark of
    a user, of which `find_mark` gives the identifier.
    """

    table_uuid: str
    table_name: str
    bucket_count: int
    log: BucketLog[Payload]
    files: TableFiles
    statements: StatementPorts
    holds: Holds
    in_each: InEach
    observe: StepObserver
    check_place: Callable[[TableState], None]
    put_mark: Callable[[Mark], None]
    find_mark: Callable[[str], int | None]
    patience: Callable[[], Patience] = field(default=lambda: Patience(0))


class NotOwnError(Exception):
    """Another process has made a snapshot that this one does not know."""


class LeftOverError(Exception):
    """The log has writes or statements that others have left: they are finished before it is owned."""

    def __init__(self, names: Sequence[str]) -> None:
        """The names of those that no snapshot has."""
        super().__init__(names)
        self.names = names


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedLog(Generic[Payload]):
    """The producer of every bucket, and all that the log has behind the snapshot of `state`."""

    ports: LogPorts[Payload]
    state: TableState
    buckets: dict[int, KeptProducer[Payload]]

    @classmethod
    def taken(cls, ports: LogPorts[Payload], check_run: Callable[[], None]) -> OwnedLog[Payload]:
        """Fence every bucket; then ask by `check_run` whether this process still has its name, and look.

        Raises LeftOverError for what others have left, and what `check_run` raises.
        """
        numbers = range(ports.bucket_count)
        producers: list[Producer[Payload]] = ports.in_each(partial(ports.log.fence, patience=0), numbers)
        try:
            check_run()  # behind the fences: an older process can log nothing more
            state = ports.files.newest()
            ports.check_place(state)
            found = ports.in_each(partial(_tail, ports, state), numbers)
        except BaseException:
            _close(producers)
            raise
        names = unfinished(state, (header for logged in found for header, _ in logged))
        if names:
            _close(producers)
            raise LeftOverError(names)
        buckets = {}
        for bucket, producer, logged in zip(numbers, producers, found, strict=True):
            start = state.logged.position(bucket).offset
            end = logged[-1][1] if logged else start
            buckets[bucket] = KeptProducer(producer=producer, start=start, end=end, logged=logged)
        return cls(ports=ports, state=state, buckets=buckets)

    def close(self) -> None:
        """Close the producers."""
        _close(one.producer for one in self.buckets.values())

    def offsets(self) -> dict[int, int]:
        """Where the log of each bucket ends, as far as this process knows it."""
        known = {bucket: at.offset for bucket, at in self.state.logged.positions.items()}
        return dict(sorted({**known, **{bucket: one.end for bucket, one in self.buckets.items()}}.items()))

    def log(self, parts: Mapping[int, Part[Payload]]) -> None:
        """Log parts, each in a transaction of its bucket; returns once all are there. Any error ends the ownership."""
        own = {bucket: self.buckets.pop(bucket) for bucket in parts}  # with an unknown outcome it is not used again
        try:
            for bucket, (part, header) in parts.items():  # what the topic would refuse is refused before any is logged
                own[bucket].producer.begin(part.payload, header)
            # Each header names the files of all buckets: all are durable before one is logged.
            self.ports.in_each(lambda bucket: self._send_part(own[bucket], bucket, parts[bucket]), list(parts))
            found = self.ports.in_each(lambda bucket: self._log_part(own[bucket], bucket, parts[bucket]), list(parts))
        except BaseException:
            _close(one.producer for one in own.values())
            raise
        self.buckets.update(zip(parts, found, strict=True))

    def mark(self, parts: Mapping[int, Part[Payload]]) -> None:
        """Mark a write that no snapshot has, before it is acknowledged. Those behind it need no mark of their own.

        By the mark other processes know without Kafka that something waits, and the next one of the name what the log
        must have.
        """
        header = next(header for _, header in parts.values())
        ends = {bucket: self.buckets[bucket].end for bucket in parts}
        self.ports.put_mark(Mark(user=header.user, number=header.identifier, digest=header.source_digest, ends=ends))

    def take_in(self, names: Sequence[str]) -> None:
        """Make the snapshot of writes. Raises NotOwnError, LostBatchesError, and like `finish`."""
        ports = replace(
            self.ports.statements,
            log_in=self._answers,
            behind=lambda: (
                [bucket for bucket, one in self.buckets.items() if one.logged],
                [header for one in self.buckets.values() for header, _ in one.logged],
            ),
        )
        finish(names, ports)

    def behind(self, state: TableState) -> OwnedLog[Payload] | None:
        """The same behind a newer snapshot; None for one that holds what this process does not know."""
        buckets = {}
        for bucket, one in self.buckets.items():
            start = state.logged.position(bucket).offset
            known = one.since(start)
            if known is None:
                return None
            buckets[bucket] = replace(one, start=start, logged=known.logged)
        return replace(self, state=state, buckets=buckets)

    def _send_part(self, one: KeptProducer[Payload], bucket: int, part: Part[Payload]) -> None:
        prepared, header = part
        self._observe(Step.PRODUCE, header, bucket)
        sent(one.producer, bucket, prepared)

    def _log_part(self, one: KeptProducer[Payload], bucket: int, part: Part[Payload]) -> KeptProducer[Payload]:
        """Log one part, which was sent; returns its producer with what it has logged."""
        _, header = part
        self._observe(Step.COMMIT, header, bucket)
        end = one.producer.commit()
        check_goes_up(_reader(self.ports, bucket), one.end, end)
        self._observe(Step.AFTER_COMMIT, header, bucket)
        return replace(one, end=end, logged=(*one.logged, (header, end)))

    def _observe(self, step: Step, header: CommitHeader, bucket: int) -> None:
        self.ports.observe(step, header.user, header.identifier, bucket)

    def _answers(
        self, statements: Mapping[str, PreparedCommit], buckets: Iterable[int], own: str | None
    ) -> Sequence[BucketAnswer]:
        """What a snapshot takes in of each bucket, without a fence: this process has logged it itself, or looked.

        What others have logged behind it, after a fence, is not in it.
        """
        del statements, own
        state = self.ports.files.newest()
        answers = []
        for bucket in buckets:
            base = state.logged.position(bucket).offset
            kept = self.buckets.get(bucket)
            known = None if kept is None else kept.since(base)
            if known is None:
                raise NotOwnError
            if known.logged and not self.ports.holds(bucket, known.logged):
                first, end = known.logged[0]
                raise lost(first.user, bucket, first.identifier, end)
            answer = BucketAnswer(
                bucket=bucket,
                base=base,
                end=known.end,
                leader_epoch=None,
                transactions=tuple(header for header, _ in known.logged),
                has_fenced=False,
                ends=tuple(end for _, end in known.logged),
            )
            answers.append(answer)
        return answers


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    """One bucket of the log, for the checks of its tail."""

    table_uuid: str
    bucket: int
    log: BucketLog[Any]
    files: TableFiles


def _reader(ports: LogPorts[Payload], bucket: int) -> _Bucket:
    return _Bucket(table_uuid=ports.table_uuid, bucket=bucket, log=ports.log, files=ports.files)


def _tail(ports: LogPorts[Payload], state: TableState, bucket: int) -> tuple[tuple[CommitHeader, int], ...]:
    found = checked_tail(_reader(ports, bucket), state).transactions
    return tuple((one.header, one.end_offset) for one in found)


def _close(producers: Iterable[Producer[Any]]) -> None:
    for one in producers:
        one.close()
