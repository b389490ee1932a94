"""What a run consists of: streams with their checkpoints, readers with their leases, and the actors that take turns."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakelog.common.errors import (
    ConflictError,
    CorruptDataError,
    InvalidRequestError,
    LakelogError,
    StalledError,
    TransactionTimeoutError,
    UnknownOutcomeError,
)
from lakelog.logstore.errors import LogTruncatedError
from lakelog.protocol.state.header import GOES_WITH_ANOTHER_FOLDER
from lakelog.protocol.writing.attempts import OldFilesError
from lakelog.protocol.writing.kept_producers import KeptProducers
from lakelog.protocol.writing.lost_batches import LostBatchesError
from lakelog.protocol.writing.pending import PendingBatches
from tests.simulation.kinds import Key, Operation, Value
from tests.simulation.world import UNAVAILABLE_SECONDS, Actor, AwayError, Operations, World

if TYPE_CHECKING:
    from tests.simulation.backups import Backup

RUNNABLE_MAX = 16
REFUSED_FOLDER = "a writer of a restored folder was refused"
SILENT_SHARE = 0.1
RECORDS_LOST = "the broker lost records"
TAIL_LOST = "the broker lost an acknowledged batch"
LOSS_NOTICED = "a lost batch was noticed"

Pool = KeptProducers[tuple[Operation, ...]]


@dataclass(slots=True, eq=False)
class Driver:
    """The process of a query: what it has in the log and in no snapshot. A batch and a timer take turns in it.

    A driver whose query has started over elsewhere is not told so: its timer goes on.
    """

    user: str
    pending: PendingBatches = field(default_factory=PendingBatches)
    is_busy: bool = False


@dataclass(slots=True, eq=False)
class Stream:
    """A streaming query into the table of a world: its batches in order, and the one it is at.

    A batch whose checkpoint was lost is planned again from other source offsets: `plans` counts up. The table may
    refuse that; then the older checkpoint is found again, or the stream is `abandoned_at` that batch.
    """

    world: World
    user: str
    batches: list[Mapping[int, Operations]]
    position: int = 0
    first_position: int = 0  # not 0 for a stream whose checkpoint was copied
    plans: Counter[int] = field(default_factory=Counter)
    attempts: Counter[int] = field(default_factory=Counter)
    refused_plans: set[tuple[int, int]] = field(default_factory=set)
    abandoned_at: int | None = None
    attempt: Actor | None = None
    is_first_attempt: bool = True
    pools: list[Pool] = field(default_factory=list)
    driver: Driver | None = None


@dataclass(slots=True, eq=False)
class SimStatement:
    """A batch statement: its user, the buckets that it changes, and what its driver was told.

    `changes` are those of each bucket. A delete from an append-only table has none: `taker` chooses `removed`, the rows
    of each bucket and how often they were there.
    """

    user: str
    buckets: tuple[int, ...]
    changes: dict[int, list[Operation]] = field(default_factory=dict)
    taker: random.Random | None = None
    removed: dict[int, dict[Key, int]] = field(default_factory=dict)
    actor: Actor | None = None
    is_done: bool = False
    is_cancelled: bool = False


@dataclass(slots=True, eq=False)
class History:
    """Runs a seed to its end; `violations` then names the promises that were broken.

    `world` is that of the original table, `copied` that of a copy of its folder, when there is one. `backup` may come
    back in the place of the original's folder, which is `set_aside` then. A batch makes a snapshot with the probability
    `snapshot_share`; below 1 snapshots come by interval, and `drivers` are all that there were. If it `loses_tails`,
    the broker loses once what is behind the newest snapshot, as after an unclean election; whoever notices that ends
    the history.
    """

    world: World
    streams: list[Stream]
    violations: Counter[str] = field(default_factory=Counter)
    runnable: list[Actor] = field(default_factory=list)
    stopped: list[tuple[int, Actor]] = field(default_factory=list)  # and for how many more turns of others
    graveyard: list[Actor] = field(default_factory=list)
    attempts: int = 0
    has_foreign_policy: bool = False
    snapshot_share: float = 1.0
    drivers: list[Driver] = field(default_factory=list)
    loses_tails: bool = False
    has_writers: bool = False
    is_stopped: bool = False
    readers: list[Reader] = field(default_factory=list)
    copied: World | None = None
    is_over: bool = False
    restorer: random.Random = field(init=False)  # of backups, whose histories alone are others
    backup: Backup | None = None
    set_aside: Backup | None = None
    is_restored: bool = False
    statements: list[SimStatement] = field(default_factory=list)
    others: list[Actor] = field(default_factory=list)  # who cancel statements
    stater: random.Random = field(init=False)  # of statements
    timer: random.Random = field(init=False)  # of snapshots by interval
    refused_at: int = 0  # how many writers were refused when it was last decided what becomes of the table

    def __post_init__(self) -> None:
        self.restorer = random.Random(f"backups {self.world.seed}")
        self.stater = random.Random(f"statements {self.world.seed}")
        self.timer = random.Random(f"timers {self.world.seed}")

    @property
    def worlds(self) -> list[World]:
        """Those of the tables that have a log of their own."""
        has_copy = self.copied is not None and self.copied.copied_snapshots is None
        return [self.world, self.copied] if has_copy and self.copied is not None else [self.world]


@dataclass(slots=True, eq=False)
class Reader:
    """A stream that follows the log from where a snapshot ends, with a lease on it, and keeps what it has read."""

    world: World
    start: dict[int, int]
    lease: dict[int, int]
    read: list[list[tuple[Key, Value | None]]]


def random_batches(world: World, user: str, *, count: int = 3) -> list[Mapping[int, Operations]]:
    return [
        {
            bucket: random_operations(world, user, number, bucket)
            for bucket in range(world.bucket_count)
            if world.rng.random() < 0.7
        }
        for number in range(count)
    ]


def random_operations(world: World, user: str, number: int, bucket: int) -> Operations:
    """Changes of a few contended keys, and one key that only this batch writes here.

    Every call gives values of its own, as a query without deterministic values would: log = files must hold even then.
    Some parts change nothing that is logged: they have a file, and a header record that names it. In tables that count
    rows they log what cancels itself, and have no file.
    """
    rng = world.rng
    keys = [rng.choice("xyz") for _ in range(rng.randint(1, 3))]
    deleted = [rng.random() < 0.25 for _ in keys]
    is_silent = world.silences.random() < SILENT_SHARE
    if not world.kind.leaves_rows(is_silent=is_silent):
        world.rowless.add((user, number, bucket))
    calls = [0]

    def make(plan: int) -> list[Operation]:
        calls[0] += 1
        return world.kind.operations(
            list(zip(keys, deleted, strict=True)),
            marker(user, number),
            plan=plan,
            call=(user, number, calls[0]),
            is_silent=is_silent,
        )

    return make


def source_digest(user: str, number: int, plan: int) -> str:
    """What stands for the source offsets that a batch was planned from."""
    return f"{user}-{number}-{plan}"


def marker(user: str, number: int) -> Key:
    """The key that only this batch writes in a bucket."""
    return ("marker", user, number)


def is_about_source(error: Exception) -> bool:
    """Whether the table refuses a batch that was planned from other source offsets than it holds."""
    return isinstance(error, InvalidRequestError) and "other source offsets" in str(error)


def is_about_folder(error: Exception) -> bool:
    """Whether a table is refused whose folder is older than its log, with an error that says what to do."""
    is_older = isinstance(error, CorruptDataError) and GOES_WITH_ANOTHER_FOLDER in str(error)
    return is_older or isinstance(error, LogTruncatedError)


def expect(history: History, error: Exception, world: World) -> None:
    """An attempt may fail with an error that names a conflict, a silent broker, a batch that changed, or a copy.

    And in a folder that was restored, with one that says that it is older than the log.

    Anything else is a bug, and so is a writer that does not wait for its broker as long as it should.
    """
    history.world.events[f"attempt failed: {type(error).__name__}"] += 1
    if not isinstance(error, LakelogError):
        raise error
    is_loss = isinstance(error, LogTruncatedError) or "had reached" in str(error)
    if isinstance(error, LostBatchesError) or (world.events[RECORDS_LOST] and is_loss):
        world.events[LOSS_NOTICED] += 1
        history.is_stopped = True
        if not world.events[RECORDS_LOST]:
            history.violations["a loss was named that did not happen"] += 1
        return
    if isinstance(error, LogTruncatedError) and history.has_foreign_policy:
        history.is_stopped = True  # it is reported, as must be
        return
    if history.is_restored and world is history.world and is_about_folder(error):
        world.events[REFUSED_FOLDER] += 1
        history.is_stopped |= history.is_over
        return
    if isinstance(error, AwayError):
        if error.seconds < UNAVAILABLE_SECONDS:
            history.violations["a writer gave up too early"] += 1
        return
    if isinstance(error, InvalidRequestError) and "is a copy of" in str(error) and world is history.copied:
        history.world.events["a writer of a copy was refused"] += 1
        return
    is_changed = is_about_source(error)
    is_expected = isinstance(
        error, (ConflictError, UnknownOutcomeError, StalledError, TransactionTimeoutError, OldFilesError)
    )
    if not is_changed and not is_expected:
        history.violations[f"attempt failed: {error}"] += 1


def kill(history: History, actor: Actor) -> None:
    """SIGKILL: neither the driver of an attempt nor its tasks ever take another step."""
    root = actor.parent or actor
    for member in [root, *root.children]:
        if member in history.runnable:
            history.runnable.remove(member)
        history.stopped = [one for one in history.stopped if one[1] is not member]
        history.graveyard.append(member)  # alive there: a greenlet that is let go of would run its clean-up
    history.world.events["killed"] += 1
    forget(history, root)


def stop_all(history: History) -> None:
    """SIGKILL of every process that works on the table; what they had loaded is lost."""
    world = history.world
    for actor in [*history.runnable, *(actor for _, actor in history.stopped)]:
        if actor.world is world and actor not in history.graveyard:
            kill(history, actor)
    for stream in history.streams:
        if stream.world is world:
            stream.pools.clear()
            history.drivers = [one for one in history.drivers if one.user != stream.user]


def forget(history: History, root: Actor) -> None:
    for stream in history.streams:
        if stream.attempt is root:
            stream.attempt = None
            stream.is_first_attempt = True
