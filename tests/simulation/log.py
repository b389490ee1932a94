"""The log of a simulated table: transactions of producers that fence each other, and a broker that may be away.

Without an answer to a fence or a read nothing is known to have happened; in a transaction the outcome is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.common.errors import FencedError, StalledError, TransactionTimeoutError, UnknownOutcomeError
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.records.consumer import can_hold_nothing
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.ports import BucketTail, LoggedTransaction, Producer
from lakelog.protocol.state.state import LogPosition
from tests.simulation.kinds import Operation
from tests.simulation.world import TRANSACTION_SECONDS_MAX, Line, World

UNKNOWN_OUTCOME_SHARE = 0.04
TWO_USERS = "a producer has two users at once"
STALL_PAUSES_MAX = 3


@dataclass(slots=True)
class Transaction:
    """A transaction in the log; it takes one offset, its control record another. Without operations it is a header."""

    header: CommitHeader
    operations: tuple[Operation, ...]
    state: str  # open, committed or aborted
    since: float  # when the broker got its first record


class SimProducer:
    """A producer that owns a bucket while its epoch is the newest."""

    def __init__(self, world: World, bucket: int, line: Line) -> None:
        self._world, self._bucket, self._line = world, bucket, line
        world.epochs[bucket] += 1
        self._epoch = world.epochs[bucket]
        self._open: Transaction | None = None
        self._is_in_transaction = False
        entries = world.log[bucket]
        for entry in list(entries):
            if entry is not None and entry.state == "open":
                entry.state = "aborted"
                entries.append(None)

    def begin(self, payload: tuple[Operation, ...], header: CommitHeader) -> None:
        if self._is_in_transaction:
            self._world.events[TWO_USERS] += 1
            raise UnknownOutcomeError(TWO_USERS)
        self._is_in_transaction = True
        self._begun = (header, payload)
        self._line.went_well()
        self._world.pause()

    def produce(self) -> None:
        world = self._world
        self._check_answer("produce")
        self._check_owner()
        self._open = Transaction(*self._begun, "open", world.now)
        world.log[self._bucket].append(self._open)
        world.pause()

    def flush(self) -> None:
        self._world.pause()
        self._check_answer("flush")

    def commit(self) -> int:
        world = self._world
        assert self._open is not None
        world.pause()
        self._check_answer("commit, not committed")
        end = world.log[self._bucket].index(self._open) + 1
        is_unknown = world.rng.random() < UNKNOWN_OUTCOME_SHARE
        if is_unknown and world.rng.random() < 0.5:
            world.events["unknown, not committed"] += 1
            raise UnknownOutcomeError("a time-out; the transaction is still open")
        self._check_owner()
        header, _ = self._begun
        named = [*header.files, *(file for part in header.parts.values() for file in part.files)]
        lost = world.volatile.intersection(file.meta.file_name for file in named)
        assert not lost, f"the log names files that a power cut would lose: {lost}"
        self._open.state = "committed"
        self._open = None
        self._is_in_transaction = False
        world.log[self._bucket].append(None)
        world.pause()
        self._check_answer("commit, yet committed")
        if is_unknown:
            world.events["unknown, yet committed"] += 1
            raise UnknownOutcomeError("a time-out; the transaction is committed")
        return end

    def close(self) -> None:
        pass

    def _check_answer(self, doing: str) -> None:
        if self._world.is_broker_away:
            self._world.events[f"away at {doing}"] += 1
            raise UnknownOutcomeError(f"the broker is away: {doing}")

    def _check_owner(self) -> None:
        if self._world.epochs[self._bucket] != self._epoch:
            if self._open is not None and self._world.now - self._open.since > TRANSACTION_SECONDS_MAX:
                self._world.events["a transaction timed out"] += 1
                raise TransactionTimeoutError("the broker has aborted the transaction for its age")
            self._world.events["fenced"] += 1
            raise FencedError("another producer owns the bucket")


@dataclass(frozen=True, slots=True)
class SimLog:
    """The log port of one task."""

    world: World
    line: Line

    def fence(self, bucket: int, *, patience: int) -> SimProducer:
        self.world.pause()
        self.line.ask()
        producer = SimProducer(self.world, bucket, self.line)
        self.world.pause()
        self.line.ask()
        return producer

    def fits(self, producer: Producer[tuple[Operation, ...]]) -> bool:
        return True

    def read_stable(self, bucket: int, position: LogPosition) -> BucketTail:
        """What is committed before the first open transaction."""
        entries = self.world.log[bucket]
        opened = (at for at, entry in enumerate(entries) if entry is not None and entry.state == "open")
        return self._read(bucket, position, next(opened, len(entries)))

    def read_tail(self, bucket: int, position: LogPosition) -> BucketTail:
        return self._read(bucket, position, len(self.world.log[bucket]))

    def _read(self, bucket: int, position: LogPosition, high_watermark: int) -> BucketTail:
        base = position.offset
        entries = self.world.log[bucket]
        pauses = 0
        self.world.pause()
        high_watermark = self.line.ask_offset(high_watermark)
        if base > high_watermark:
            raise LogTruncatedError(f"bucket {bucket} does not hold offset {base}, it ends at {high_watermark}")
        log_start = self.world.log_starts[bucket]
        if not can_hold_nothing(base, log_start, len(entries), is_after_record=base > 0):
            raise LogTruncatedError(f"bucket {bucket} does not hold offset {base}, it starts at {log_start}")
        while any(entry is not None and entry.state == "open" for entry in entries[base:high_watermark]):
            pauses += 1
            self.world.pause()
            if pauses > STALL_PAUSES_MAX:
                self.world.events["stalled"] += 1
                raise StalledError("an open transaction hides the tail")
        transactions = tuple(
            LoggedTransaction(
                header=entry.header,
                first_offset=offset,
                end_offset=offset + 1,
                record_count=max(len(entry.operations), 1),
            )
            for offset, entry in enumerate(entries[:high_watermark])
            if offset >= max(base, log_start) and entry is not None and entry.state == "committed"
        )
        self.world.pause()
        self.line.ask()
        return BucketTail(transactions=transactions, high_watermark=high_watermark, leader_epoch=0, epoch_offset=0)
