"""A world with one table: a log and snapshots in memory, and a scheduler that interleaves everybody at every call.

The simulation owns time and order, never the protocol: tasks and drivers run the project's own step functions over
these stores. Each call to a store is a point at which anybody else may run, the process may die or become a zombie.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast  # Any: what a greenlet returns is the business of its actor

from greenlet import getcurrent, greenlet

from lakelog.common.errors import (
    ConflictError,
    FencedError,
    StalledError,
    TransactionTimeoutError,
    UnknownOutcomeError,
)
from lakelog.filestore.compact.result import CompactResult
from lakelog.filestore.data_file import EMPTY_STATS, DataFileMeta
from lakelog.filestore.fileio import FileIO
from lakelog.filestore.identity import StateLostError
from lakelog.filestore.orphans import AGE_MILLIS_MIN
from lakelog.filestore.paths import TablePaths
from lakelog.filestore.state_keeping import StateKeeper
from lakelog.filestore.users import LOG_STATE_KEY
from lakelog.logstore.consumer import can_hold_nothing
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.transaction_timeout import TIMEOUT_MILLIS_MAX
from lakelog.protocol.header import BucketFile, CommitHeader
from lakelog.protocol.kept import KeptProducers
from lakelog.protocol.ports import (
    BucketTail,
    Decide,
    LoggedTransaction,
    PreparedBucket,
    Producer,
)
from lakelog.protocol.state import Batch, LogPosition, LogState, TableState

TABLE_UUID = "the-table"
TOPIC_ID = "the-topic"

Key = object
Value = object
Operation = tuple[Key, Value | None]
Row = tuple[Key, int, Value | None]
Operations = Callable[[int], list[Operation]]  # of the plan of the batch
Rows = Callable[[], list[Operation]]

UNKNOWN_OUTCOME_SHARE = 0.04
PAUSE_SECONDS = 1.0
SLEEP_SECONDS = (600.0, 5400.0)
TRANSACTION_SECONDS_MAX = TIMEOUT_MILLIS_MAX / 1000
ORPHAN_SECONDS = AGE_MILLIS_MIN / 1000
TWO_USERS = "a producer has two users at once"
STALL_PAUSES_MAX = 3


@dataclass(slots=True)
class Transaction:
    """A transaction in the log; it takes one offset, its control record another."""

    header: CommitHeader
    operations: tuple[Operation, ...]
    state: str  # open, committed or aborted
    since: float  # when the broker got its first record


@dataclass(frozen=True, slots=True)
class SimSnapshot:
    """A snapshot: what the protocol sees of it, and the files per bucket.

    One of another engine carries no state: `state` is then what should be found by walking back.
    """

    state: TableState
    files: tuple[tuple[BucketFile, ...], ...]
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class SimConsumers:
    """The files that a state keeper puts: the newest of each name."""

    files: dict[str, bytes]

    def write_bytes(self, path: str, data: bytes) -> None:
        self.files[path] = data

    def create_new(self, path: str, data: bytes) -> bool:
        return self.files.setdefault(path, data) is data


@dataclass(slots=True)
class World:
    """Log, snapshots, file contents and the scheduler of one run."""

    seed: int
    bucket_count: int
    rng: random.Random = field(init=False)
    outsiders: random.Random = field(init=False)  # of expiry and readers, who change nothing in what writers do
    log: list[list[Transaction | None]] = field(init=False)
    log_starts: list[int] = field(init=False)
    first_snapshot: int = 0  # those before it have expired
    leases: list[dict[int, int]] = field(default_factory=list)
    epochs: list[int] = field(init=False)
    snapshots: list[SimSnapshot] = field(init=False)
    contents: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    hub: greenlet = field(init=False)
    events: Counter[str] = field(default_factory=Counter)
    now: float = 0.0
    written: dict[str, float] = field(default_factory=dict)  # when, of the files that tasks have prepared
    removed: set[str] = field(default_factory=set)
    appended: Counter[tuple[str, int]] = field(default_factory=Counter)
    consumers: SimConsumers = field(default_factory=lambda: SimConsumers({}))

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.outsiders = random.Random(f"outsiders {self.seed}")
        self.log = [[] for _ in range(self.bucket_count)]
        self.log_starts = [0] * self.bucket_count
        self.epochs = [0] * self.bucket_count
        empty = TableState(snapshot_id=0, users={}, log=LogState(topic_id=TOPIC_ID))
        self.snapshots = [SimSnapshot(empty, ((),) * self.bucket_count)]
        self.hub = getcurrent()

    def pause(self) -> None:
        """Let anybody else run."""
        self.now += PAUSE_SECONDS
        self.hub.switch()

    def sleep(self) -> None:
        """Time goes by in which nobody runs but the broker: it aborts transactions that have been open for too long."""
        self.now += self.rng.uniform(*SLEEP_SECONDS)
        self.events["slept"] += 1
        for bucket, entries in enumerate(self.log):
            for entry in list(entries):
                if entry is not None and entry.state == "open" and self.now - entry.since > TRANSACTION_SECONDS_MAX:
                    entry.state = "aborted"
                    entries.append(None)
                    self.epochs[bucket] += 1

    def newest(self) -> TableState:
        """The newest snapshot's state, at the moment of the answer."""
        self.pause()
        state = self.state_of(len(self.snapshots) - 1)
        self.pause()
        return state

    def state_of(self, snapshot_id: int) -> TableState:
        """What a snapshot carries on: that of the newest one of ours below it. Raises StateLostError without any."""
        for below in range(snapshot_id, self.first_snapshot - 1, -1):
            if not self.snapshots[below].is_foreign:
                return replace(self.snapshots[below].state, snapshot_id=snapshot_id)
        raise StateLostError(f"no snapshot of ours is left below {snapshot_id}")

    def carrier(self) -> int:
        """The newest snapshot of ours, which our own expiry keeps."""
        return max(at for at, snapshot in enumerate(self.snapshots) if not snapshot.is_foreign)

    def upkeep_by_others(self) -> None:
        """Another engine compacts, and expires all snapshots but its own, as far as no consumer wants them."""
        newest = len(self.snapshots) - 1
        if not newest:
            return
        state = replace(self.snapshots[newest].state, snapshot_id=newest + 1)
        self.snapshots.append(SimSnapshot(state, self.snapshots[newest].files, is_foreign=True))
        wanted = [json.loads(data)["nextSnapshot"] for path, data in self.consumers.files.items() if "consumer" in path]
        self.first_snapshot = max(self.first_snapshot, min([newest + 1, *wanted]))
        self.events["upkeep by others"] += 1

    def write_file(self, operations: Sequence[Row]) -> DataFileMeta:
        """Keep a file's rows and give its metadata; only names, counts and sequence numbers matter here."""
        name = f"data-{len(self.contents)}"
        self.contents[name] = tuple(operations)
        sequences = [sequence for _, sequence, _ in operations]
        return DataFileMeta(
            file_name=name,
            file_size_bytes=len(operations),
            row_count=len(operations),
            min_key=b"",
            max_key=b"",
            key_stats=EMPTY_STATS,
            value_stats=EMPTY_STATS,
            min_sequence_number=min(sequences),
            max_sequence_number=max(sequences),
            schema_id=0,
            level=0,
        )

    def rows(self, files: Sequence[BucketFile]) -> list[Row]:
        """All rows of the files."""
        return [row for file in files for row in self.contents[file.meta.file_name]]


class SimProducer:
    """A producer that owns a bucket while its epoch is the newest."""

    def __init__(self, world: World, bucket: int) -> None:
        self._world, self._bucket = world, bucket
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
        self._world.pause()

    def produce(self) -> None:
        world = self._world
        self._check_owner()
        self._open = Transaction(*self._begun, "open", world.now)
        world.log[self._bucket].append(self._open)
        world.pause()

    def flush(self) -> None:
        self._world.pause()

    def commit(self) -> int:
        world = self._world
        assert self._open is not None
        world.pause()
        end = world.log[self._bucket].index(self._open) + 1
        is_unknown = world.rng.random() < UNKNOWN_OUTCOME_SHARE
        if is_unknown and world.rng.random() < 0.5:
            world.events["unknown, not committed"] += 1
            raise UnknownOutcomeError("a time-out; the transaction is still open")
        self._check_owner()
        self._open.state = "committed"
        self._open = None
        self._is_in_transaction = False
        world.log[self._bucket].append(None)
        world.pause()
        if is_unknown:
            world.events["unknown, yet committed"] += 1
            raise UnknownOutcomeError("a time-out; the transaction is committed")
        return end

    def close(self) -> None:
        pass

    def _check_owner(self) -> None:
        if self._world.epochs[self._bucket] != self._epoch:
            if self._open is not None and self._world.now - self._open.since > TRANSACTION_SECONDS_MAX:
                self._world.events["a transaction timed out"] += 1
                raise TransactionTimeoutError("the broker has aborted the transaction for its age")
            self._world.events["fenced"] += 1
            raise FencedError("another producer owns the bucket")


@dataclass(frozen=True, slots=True)
class SimLog:
    """The log port."""

    world: World

    def fence(self, bucket: int, *, patience: int) -> SimProducer:
        self.world.pause()
        producer = SimProducer(self.world, bucket)
        self.world.pause()
        return producer

    def fits(self, producer: Producer[tuple[Operation, ...]]) -> bool:
        return True

    def read_tail(self, bucket: int, position: LogPosition) -> BucketTail:
        base = position.offset
        entries = self.world.log[bucket]
        high_watermark = len(entries)
        pauses = 0
        self.world.pause()
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
                record_count=len(entry.operations),
            )
            for offset, entry in enumerate(entries[:high_watermark])
            if offset >= max(base, log_start) and entry is not None and entry.state == "committed"
        )
        self.world.pause()
        return BucketTail(transactions=transactions, high_watermark=high_watermark, leader_epoch=0, epoch_offset=0)


@dataclass(frozen=True, slots=True)
class SimFiles:
    """The file store port of a task; a bucket's rows are made anew by each attempt."""

    world: World

    def newest(self) -> TableState:
        return self.world.newest()

    def first_missing(self, bucket: int, files: Iterable[BucketFile]) -> str | None:
        self.world.pause()
        return next((file.meta.file_name for file in files if file.meta.file_name in self.world.removed), None)

    def prepare(self, bucket: int, rows: Rows, first_sequence: int) -> PreparedBucket[tuple[Operation, ...]]:
        world, started = self.world, self.world.now
        world.pause()
        operations = rows()
        last = {key: (first_sequence + place, value) for place, (key, value) in enumerate(operations)}
        meta = world.write_file([(key, sequence, value) for key, (sequence, value) in last.items()])
        world.written[meta.file_name] = world.now
        world.pause()
        return PreparedBucket(
            files=(BucketFile(partition=b"", meta=meta),),
            changelog=(),
            record_count=len(operations),
            size_bytes=10 * len(operations) + bucket,
            payload=tuple(operations),
            age_seconds=lambda: world.now - started,
        )


@dataclass(frozen=True, slots=True)
class SimSnapshots:
    """The snapshot port of a driver: decide, then create-new, again when somebody was faster."""

    world: World

    def _keeper(self) -> StateKeeper:
        return StateKeeper(cast("FileIO", self.world.consumers), TablePaths("t"))

    def newest(self) -> TableState:
        return self.world.newest()

    def append(self, batch: Batch, decide: Decide) -> int | None:
        world = self.world
        while True:
            count = len(world.snapshots)
            latest = world.snapshots[-1]
            change = decide(world.state_of(count - 1))
            if change is None:
                return None
            files = [list(bucket) for bucket in latest.files]
            for bucket, file in change.files:
                files[bucket].append(file)
            state = TableState(snapshot_id=count, users=change.users, log=change.log)
            keeper, properties = self._keeper(), {LOG_STATE_KEY: "positions"}
            if not latest.state.snapshot_id:
                keeper.before_commit(count, properties, carried={})
            if self._create(count, SimSnapshot(state, tuple(map(tuple, files)))):
                keeper.after_commit(count, properties, now_millis=0)
                world.appended[batch.user, batch.identifier] += 1
                return count

    def compact(self, batch: Batch, buckets: Sequence[CompactResult]) -> int:
        while True:
            count = len(self.world.snapshots)
            latest = self.world.snapshots[-1]
            files = list(latest.files)
            for one in buckets:
                gone = {meta.file_name for meta in one.before}
                live = {file.meta.file_name for file in files[one.bucket]}
                if not gone <= live:
                    self.world.events["compaction dropped"] += 1
                    raise ConflictError("an input is gone")
                added = tuple(BucketFile(partition=b"", meta=meta) for meta in one.after)
                kept = tuple(file for file in files[one.bucket] if file.meta.file_name not in gone)
                files[one.bucket] = added + kept
            state = replace(self.world.state_of(count - 1), snapshot_id=count)
            if self._create(count, SimSnapshot(state, tuple(files))):
                self.world.events["compacted"] += 1
                return count

    def _create(self, snapshot_id: int, snapshot: SimSnapshot) -> bool:
        self.world.pause()
        if len(self.world.snapshots) != snapshot_id:
            self.world.events["snapshot race lost"] += 1
            return False
        self.world.snapshots.append(snapshot)
        self.world.pause()
        return True


def remove_orphans(world: World) -> None:
    """What `remove_orphans` does to a table with a log, at the youngest age: list, ask log and snapshots, delete.

    Files of compactions stay: what bounds their age is not the broker.
    """
    old = [name for name, at in world.written.items() if at < world.now - ORPHAN_SECONDS and name not in world.removed]
    log = world.newest().logged
    named = set()
    for bucket in range(world.bucket_count):
        tail = SimLog(world).read_tail(bucket, log.position(bucket))
        named |= {file.meta.file_name for one in tail.transactions for file in one.header.files}
    world.pause()
    named |= {file.meta.file_name for one in world.snapshots for files in one.files for file in files}
    for name in old:
        world.pause()
        if name not in named:
            world.removed.add(name)
            world.events["an orphan was removed"] += 1


@dataclass(slots=True)
class Actor:
    """A process that runs until it ends, dies, or is let loose as a zombie."""

    name: str
    greenlet: greenlet
    result: Any = None  # Any: each actor's own
    error: Exception | None = None
    parent: Actor | None = None
    pool: KeptProducers[tuple[Operation, ...]] | None = None
    children: list[Actor] = field(default_factory=list)
    waits: bool = False  # for its children
    bucket: int | None = None  # of a task; with speculation several actors have the same

    @property
    def is_done(self) -> bool:
        return bool(self.greenlet.dead)


def start(world: World, name: str, body: Callable[[], Any]) -> Actor:
    """An actor that runs `body` when the scheduler lets it; errors are kept in it."""

    def run() -> None:
        try:
            actor.result = body()
        except Exception as error:  # noqa: BLE001 - whoever waits for the actor decides what its error means
            actor.error = error

    actor = Actor(name, greenlet(run, parent=world.hub))
    return actor
