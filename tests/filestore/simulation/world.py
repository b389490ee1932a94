"""One history's world: its chance, its clock, its processes, and the scheduler that interleaves them at every call.

Everything that could differ from run to run is owned here: names are made from the seed, time is a counter, folders are
listed in order. So a seed gives one history, call by call, wherever it runs.
"""

from __future__ import annotations

import random
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar
from unittest.mock import patch

from greenlet import getcurrent, greenlet

from lakelog.common.bounded_cache import BoundedCache
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.metadata.manifests import manifest
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta

Item = TypeVar("Item")
START_MILLIS = 1_700_000_000_000
NAP_SHARE = 0.01
NAP_TURNS_MAX = 400
TURNS_MAX = 200_000
YEAR_MILLIS = 365 * 24 * 3_600_000
WRONG_CLOCKS_RATES = (0, 0.15, 0.4)  # of the processes of a history
_DIGEST = re.compile("-blake2b-[0-9a-f]{32}")  # of bytes that Avro puts a random marker into


class Fault(StrEnum):
    """What can happen to a call."""

    REFUSED = "refused"  # fails, without effect
    ANSWER_LOST = "answer lost"  # has its effect, then fails
    TORN = "torn"  # has a part of its effect, then fails
    KILLED_BEFORE = "killed before"
    KILLED_AFTER = "killed after"
    KILLED_WITHIN = "killed within"

    @property
    def kills(self) -> bool:
        """Whether the process dies of it."""
        return self in (Fault.KILLED_BEFORE, Fault.KILLED_AFTER, Fault.KILLED_WITHIN)


class MachineClock(StrEnum):
    """How the clock is set where a process runs."""

    RIGHT = "right"
    AHEAD = "a year ahead"
    NEVER_SET = "never set"


class ProcessKilled(BaseException):
    """The process is dead: no handler of the project may catch this, and no call has an effect any more."""


def _cache() -> BoundedCache[str, tuple[Item, ...]]:
    return BoundedCache(bytes_max=8 << 20)


@dataclass(slots=True)
class Process:
    """One life of an actor: what it remembers dies with it."""

    name: str
    is_alive: bool = True
    clock: MachineClock = MachineClock.RIGHT
    entries: BoundedCache[str, tuple[ManifestEntry, ...]] = field(default_factory=_cache)
    lists: BoundedCache[str, tuple[ManifestFileMeta, ...]] = field(default_factory=_cache)

    def check_alive(self) -> None:
        """Raise ProcessKilled in a dead process."""
        if not self.is_alive:
            raise ProcessKilled(self.name)


@dataclass(slots=True)
class Actor:
    """An actor that works at the table, through one process after the other, until nothing is left to do."""

    name: str
    live: Callable[[Process], None]
    is_done: Callable[[], bool]
    process: Process | None = None
    greenlet: greenlet | None = None
    lives: int = 0
    asleep_until: int = 0


class World:
    """The state of one history that is not the table's."""

    def __init__(self, seed: int, *, fault_rate: float) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.fault_rate = fault_rate
        self.trace: list[str] = []
        self.events: Counter[str] = Counter()
        self.violations: list[str] = []
        self.actors: list[Actor] = []
        self.turn = 0
        self.root = "-"  # the folder that the trace leaves out
        self._hub = getcurrent()
        self._current: Process | None = None
        self._ids = random.Random(f"names of {seed}")
        self._clocks = random.Random(f"clocks of {seed}")
        self._wrong_clocks_rate = self._clocks.choice(WRONG_CLOCKS_RATES)
        self._fresh = 0

    @property
    def now_millis(self) -> int:
        """The time: one millisecond a turn."""
        return START_MILLIS + self.turn

    def clock_of(self, process: Process) -> CommitClock:
        """Time and chance of a process's commits."""

        def now_millis() -> int:
            of_clock = {MachineClock.AHEAD: self.now_millis + YEAR_MILLIS, MachineClock.NEVER_SET: self.turn}
            return of_clock.get(process.clock, self.now_millis)

        return CommitClock(
            now_millis=now_millis,
            seconds=lambda: self.turn / 1000,
            sleep=lambda _: self.pause(),
            chance=lambda: 0.5,
        )

    def fresh(self) -> int:
        """A number that was not there before."""
        self._fresh += 1
        return self._fresh

    def tell(self, line: str) -> None:
        """Add a line to the trace."""
        who = "-" if self._current is None else self._current.name
        text = _DIGEST.sub("", line.replace(self.root, ""))
        self.trace.append(f"{self.turn:5} {who:14} {text}")

    def violate(self, what: str) -> None:
        """A promise was broken: the history ends here."""
        self.tell(f"BROKEN PROMISE: {what}")
        self.violations.append(what)

    def pause(self) -> None:
        """Let anybody else run."""
        if getcurrent() is not self._hub:
            self._hub.switch()

    def nap(self, process: Process, turns_max: int) -> None:
        """Let others run for some turns."""
        for actor in self.actors:
            if actor.process is process:
                actor.asleep_until = self.turn + self.rng.randrange(turns_max)
        self.pause()

    def draw_fault(self, weight: float) -> Fault | None:
        """Whether something happens to a call."""
        if self.rng.random() >= self.fault_rate * weight:
            return None
        fault = self.rng.choice(list(Fault))
        self.events[fault] += 1
        return fault

    def kill(self, process: Process) -> None:
        """SIGKILL. Raises ProcessKilled."""
        process.is_alive = False
        process.check_alive()

    def run(self) -> None:
        """Let the actors take turns until all are done, or a promise is broken."""
        while not self.violations:
            waiting = [actor for actor in self.actors if actor.greenlet is not None or not actor.is_done()]
            if not waiting:
                return
            self.turn += 1
            if self.turn > TURNS_MAX:
                self.violate("the history does not end")
                return
            awake = [actor for actor in waiting if actor.asleep_until <= self.turn]
            if awake:
                self._switch_to(self.rng.choice(awake))

    def _switch_to(self, actor: Actor) -> None:
        if self.rng.random() < NAP_SHARE:  # a process that is stopped for long, and then goes on as if nothing was
            actor.asleep_until = self.turn + self.rng.randrange(NAP_TURNS_MAX)
            return
        if actor.greenlet is None:
            actor.lives += 1
            actor.process = Process(f"{actor.name}#{actor.lives}", clock=self._draw_clock())
            actor.greenlet = greenlet(lambda: self._live(actor), parent=self._hub)
        self._current = actor.process
        actor.greenlet.switch()
        self._current = None
        if actor.greenlet.dead:
            actor.greenlet = None

    def _draw_clock(self) -> MachineClock:
        if self._clocks.random() >= self._wrong_clocks_rate:
            return MachineClock.RIGHT
        clock = self._clocks.choice((MachineClock.AHEAD, MachineClock.NEVER_SET))
        self.events[f"clock {clock}"] += 1
        return clock

    def _live(self, actor: Actor) -> None:
        assert actor.process is not None
        try:
            actor.live(actor.process)
        except ProcessKilled:
            self.tell("is dead")
        except Exception as error:  # noqa: BLE001 - whatever is not expected is a finding
            self.violate(f"{actor.process.name} ended with {type(error).__name__}: {error}")
        actor.process.is_alive = False

    def close(self) -> None:
        """End what still runs, without effect."""
        for actor in self.actors:
            if actor.greenlet is not None and actor.process is not None:
                actor.process.is_alive = False
                actor.greenlet.throw(ProcessKilled(actor.name))
                actor.greenlet = None

    @contextmanager
    def owned(self) -> Iterator[None]:
        """While it lasts, names, time and what processes remember are this world's."""
        with (
            patch.object(uuid, "uuid4", lambda: uuid.UUID(int=self._ids.getrandbits(128), version=4)),
            patch("time.time_ns", lambda: self.now_millis * 1_000_000),
            patch.object(manifest, "ENTRY_CACHE", _OwnCache(lambda: self._process.entries)),
            patch.object(manifest, "LIST_CACHE", _OwnCache(lambda: self._process.lists)),
        ):
            try:
                yield
            finally:
                self.close()

    @contextmanager
    def as_stranger(self) -> Iterator[None]:
        """While it lasts, calls are those of a process that remembers nothing. It must not pause."""
        before, self._current = self._current, Process("stranger")
        try:
            yield
        finally:
            self._current = before

    @property
    def _process(self) -> Process:
        return self._current or Process("stranger")


@dataclass(frozen=True, slots=True)
class _OwnCache(Generic[Item]):
    """What looks like the cache of the one process is the cache of the process that runs."""

    of_process: Callable[[], BoundedCache[str, tuple[Item, ...]]]

    def get(self, path: str) -> tuple[Item, ...] | None:
        return self.of_process().get(path)

    def add(self, path: str, items: tuple[Item, ...], size_bytes: int) -> None:
        self.of_process().add(path, items, size_bytes)
