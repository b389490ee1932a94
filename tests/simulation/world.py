"""A world with one table: a log and snapshots in memory, and a scheduler that interleaves everybody at every call.

The simulation owns time and order, never the protocol: tasks and drivers run the project's own step functions over
these stores. Each call to a store is a point at which anybody else may run, the process may die or become a zombie.
A copy of the table's folder is a world of its own on the same site, which has the original's log until it has its own.
"""

from __future__ import annotations

import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any  # Any: what a greenlet returns is the business of its actor

from greenlet import getcurrent, greenlet

from lakelog.common.errors import UnavailableError
from lakelog.common.patience import Patience
from lakelog.filestore.metadata.manifests.data_file import EMPTY_STATS, DataFileMeta
from lakelog.filestore.metadata.tables.identity import StateLostError
from lakelog.logstore.kafka.clients import offsets
from lakelog.logstore.kafka.clients.transaction_timeout import TIMEOUT_MILLIS_MAX
from lakelog.protocol.state.header import BucketFile
from lakelog.protocol.state.prepared import PreparedCommit
from lakelog.protocol.state.state import LogState, TableState
from lakelog.protocol.state.writer_marks import WriterMark
from lakelog.protocol.writing.kept_producers import KeptProducers
from tests.simulation.kinds import LAST_WRITE, Key, Operation, Row, TableKind, Value
from tests.simulation.lake import Lake

if TYPE_CHECKING:
    from tests.simulation.log import Transaction

TABLE_PATH = "sim://lake/t"
TABLE_UUID = "the-table"
TOPIC_ID = "the-topic"
SOURCES = "sources"  # in the lineage of a batch: its number

Operations = Callable[[int], list[Operation]]  # of the plan of the batch
Rows = Callable[[], list[Operation]]

PAUSE_SECONDS = 1.0
SLEEP_SECONDS = (600.0, 5400.0)
TRANSACTION_SECONDS_MAX = TIMEOUT_MILLIS_MAX / 1000
UNAVAILABLE_SECONDS = 30.0  # how long writers go on trying; an absence is shorter or longer than that
AWAY_SECONDS = (2.0, 10.0, 20.0, 60.0)
UNKNOWN_OFFSET_SHARE = 0.002
UNKNOWN_OFFSET = -1001  # what librdkafka answers, without an error, where a broker is stopped while it is asked


class AwayError(UnavailableError):
    """The broker does not answer, and has not for `seconds` as far as the caller knows."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the broker is away, for {seconds:.0f} s")
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class SimSnapshot:
    """A snapshot: what the protocol sees of it, and the files per bucket.

    One of another engine carries no state: `state` is then what should be found by walking back. `lineage` has the user
    and the number of each batch whose sources it records.
    """

    state: TableState
    files: tuple[tuple[BucketFile, ...], ...]
    is_foreign: bool = False
    lineage: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class SimConsumers:
    """The files that a state keeper puts: the newest of each name."""

    files: dict[str, bytes]

    def write_bytes(self, path: str, data: bytes) -> None:
        self.files[path] = data

    def create_new(self, path: str, data: bytes) -> bool:
        return self.files.setdefault(path, data) is data


@dataclass(slots=True)
class Site:
    """What a table and its copies share: time, the broker, and the folders where tables are."""

    now: float = 0.0
    away_until: float = 0.0
    file_count: int = 0
    lake: Lake = field(default_factory=Lake)


@dataclass(slots=True)
class Line:
    """The connection of a process to the broker: since when there has been no answer."""

    world: World
    silent_since: float | None = None

    def ask(self) -> None:
        """Raise AwayError while the broker is away."""
        now = self.world.now
        if self.world.is_broker_away:
            self.world.events["asked a broker that is away"] += 1
            self.silent_since = now if self.silent_since is None else self.silent_since
            raise AwayError(now - self.silent_since)

    def ask_offset(self, offset: int) -> int:
        """The answer of Kafka's client to a question whose answer is `offset`. Raises AwayError."""
        self.ask()
        answer = self.world.answer_of(offset)
        if not offsets.is_known_offset(answer):
            self.world.events["an offset was not known"] += 1
            self.silent_since = self.world.now if self.silent_since is None else self.silent_since
            raise AwayError(self.world.now - self.silent_since)
        return answer

    def went_well(self) -> None:
        """Something took effect over the line, so that a later silence is a new one."""
        self.silent_since = None


@dataclass(slots=True, eq=False)
class World:
    """Log, snapshots, file contents and the scheduler of one run."""

    seed: int
    bucket_count: int
    kind: TableKind = LAST_WRITE
    rng: random.Random = field(init=False)
    outsiders: random.Random = field(init=False)  # of expiry and readers, who change nothing in what writers do
    silences: random.Random = field(init=False)  # of parts that have files and nothing to log
    answers: random.Random = field(init=False)  # of the client to questions for offsets
    log: list[list[Transaction | None]] = field(init=False)
    log_starts: list[int] = field(init=False)
    first_snapshot: int = 0  # those before it have expired
    base_snapshot: int = 0  # where the table's log begins
    copied_snapshots: int | None = None  # how many a copy has, until it has a log of its own
    leases: list[dict[int, int]] = field(default_factory=list)
    epochs: list[int] = field(init=False)
    snapshots: list[SimSnapshot] = field(init=False)
    contents: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    volatile: set[str] = field(default_factory=set)  # files that a power cut would lose
    hub: greenlet = field(init=False)
    events: Counter[str] = field(default_factory=Counter)
    site: Site = field(default_factory=Site)
    path: str = TABLE_PATH
    table_uuid: str = TABLE_UUID
    topic_id: str = TOPIC_ID
    written: dict[str, float] = field(default_factory=dict)  # when, of the files that tasks have prepared
    removed: set[str] = field(default_factory=set)
    appended: Counter[tuple[str, int]] = field(default_factory=Counter)
    consumers: SimConsumers = field(default_factory=lambda: SimConsumers({}))
    rowless: set[tuple[str, int, int]] = field(default_factory=set)  # user, batch and bucket of parts without rows
    prepared: dict[str, PreparedCommit] = field(default_factory=dict)  # the prepared commits in the folder
    acknowledged: dict[str, WriterMark] = field(default_factory=dict)  # the marks of writers in the folder
    marks: set[str] = field(default_factory=set)  # of those that are being cancelled
    befores: dict[str, dict[Key, Value | None]] = field(default_factory=dict)  # old values, by the file of new ones

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.outsiders = random.Random(f"outsiders {self.seed}")
        self.silences = random.Random(f"silences {self.seed}")
        self.answers = random.Random(f"answers {self.seed}")
        self.begin_log()
        empty = TableState(snapshot_id=0, users={}, log=LogState(topic_id=self.topic_id), place=self.path)
        self.snapshots = [SimSnapshot(empty, ((),) * self.bucket_count)]
        self.hub = getcurrent()
        self.site.lake.put_table(self.path, self.table_uuid)

    def begin_log(self) -> None:
        """A new topic."""
        self.log = [[] for _ in range(self.bucket_count)]
        self.log_starts = [0] * self.bucket_count
        self.epochs = [0] * self.bucket_count
        self.leases = []

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return self.site.now

    @property
    def millis(self) -> int:
        """Milliseconds since the run began, as the clocks of statements have them."""
        return int(1000 * self.now)

    @property
    def is_broker_away(self) -> bool:
        """Whether the broker answers no process now."""
        return self.now < self.site.away_until

    def pause(self) -> None:
        """Let anybody else run."""
        self.site.now += PAUSE_SECONDS
        self.hub.switch()

    def patience(self) -> Patience:
        """A writer's patience with the broker; while it waits, anybody else runs."""
        return Patience(UNAVAILABLE_SECONDS, clock=lambda: self.now, wait=lambda _seconds: self.pause())

    def sleep(self) -> None:
        """Time goes by in which only the broker runs, see `abort_old`."""
        self.site.now += self.rng.uniform(*SLEEP_SECONDS)
        self.events["slept"] += 1

    def abort_old(self) -> None:
        """What the broker does with transactions that have been open for too long."""
        for bucket, entries in enumerate(self.log):
            for entry in list(entries):
                if entry is not None and entry.state == "open" and self.now - entry.since > TRANSACTION_SECONDS_MAX:
                    entry.state = "aborted"
                    entries.append(None)
                    self.epochs[bucket] += 1

    def send_broker_away(self) -> None:
        """From now on the broker does not answer, for a while."""
        if not self.is_broker_away:
            self.site.away_until = self.now + self.outsiders.choice(AWAY_SECONDS)
            self.events["the broker went away"] += 1

    def answer_of(self, offset: int) -> int:
        """What Kafka's client answers to a question whose answer is `offset`."""
        return UNKNOWN_OFFSET if self.answers.random() < UNKNOWN_OFFSET_SHARE else offset

    def mark_of(self, user: str) -> WriterMark | None:
        """The mark of a writer in the folder; None for one of another log or table."""
        found = self.acknowledged.get(user)
        is_own = found is not None and (found.table_uuid, found.topic_id) == (self.table_uuid, self.topic_id)
        return found if is_own else None

    def newest(self) -> TableState:
        """The newest snapshot's state, at the time of the answer."""
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
        name = f"data-{self.site.file_count}"
        self.site.file_count += 1
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
        """All rows of the files that are in the table's folder."""
        return [row for file in files for row in self.contents.get(file.meta.file_name, ())]

    def copied_to(self, path: str) -> World:
        """A copy of the folder, as `cp -r` makes it: every file, and nothing of the broker."""
        other = copy.copy(self)
        other.path, other.copied_snapshots = path, len(self.snapshots)
        other.snapshots, other.contents = list(self.snapshots), dict(self.contents)
        other.written, other.removed = dict(self.written), set(self.removed)
        other.consumers = SimConsumers(dict(self.consumers.files))
        other.prepared, other.marks = dict(self.prepared), set(self.marks)
        other.acknowledged = dict(self.acknowledged)
        other.leases, other.appended = [dict(one) for one in self.leases], Counter()
        self.site.lake.put_table(path, self.table_uuid)
        return other

    def move_to(self, path: str) -> None:
        """Move the folder; no process works in it meanwhile."""
        self.site.lake.remove_table(self.path)
        self.path = path
        self.site.lake.put_table(path, self.table_uuid)


@dataclass(slots=True, eq=False)
class Actor:
    """A process that runs until it ends, dies, or is let loose as a zombie."""

    name: str
    greenlet: greenlet
    world: World
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

    actor = Actor(name, greenlet(run, parent=world.hub), world)
    return actor
