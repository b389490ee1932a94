"""Commits that lose races go one after the other, and none is left behind."""

from __future__ import annotations

import heapq
import itertools
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest
from greenlet import getcurrent, greenlet

from lakelog.common.errors import UnavailableError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.commit_tries import CommitTries
from lakelog.filestore.commit.conflicts import OvertakenError
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.snapshots import commit_line
from lakelog.filestore.metadata.snapshots.commit_line import LOOK_EVERY, CommitLine, CommitTurn, LinePlace
from lakelog.filestore.schema.paths import TablePaths
from lakelog.filestore.table import FileStoreTable
from tests.support.tables.small_tables import (
    UNSYNCED,
    commit_batch,
    in_new_process,
    make_table,
    prepare_batch,
)

COMMITS = 10  # of each writer
LINE = "/lakelog/line"


@dataclass(frozen=True)
class Memory(LocalFileIO):
    """The files of one folder."""

    names: set[str] = field(default_factory=set)

    def list_names(self, directory: str) -> list[str]:
        return list(self.names)

    def write_bytes(self, path: str, data: bytes) -> None:
        self.names.add(path.rpartition("/")[2])

    def exists(self, path: str) -> bool:
        return path.rpartition("/")[2] in self.names

    def delete(self, path: str) -> None:
        self.names.discard(path.rpartition("/")[2])


@dataclass
class World:
    """Processes that take turns by a clock which only their sleeping moves."""

    chance: random.Random = field(default_factory=lambda: random.Random(7))
    files: Memory = field(default_factory=Memory)
    now: float = 0.0
    newest: int = 0
    _waiting: list[tuple[float, int, greenlet]] = field(default_factory=list)
    _hub: greenlet = field(default_factory=getcurrent)
    _count: itertools.count[int] = field(default_factory=itertools.count)

    def sleep(self, seconds: float) -> None:
        heapq.heappush(self._waiting, (self.now + seconds, next(self._count), getcurrent()))
        self._hub.switch()

    def run(self, *processes: Callable[[], None]) -> None:
        """Run all, until each has ended."""
        for process in processes:
            heapq.heappush(self._waiting, (0.0, next(self._count), greenlet(process)))
        while self._waiting:
            self.now, _, process_at = heapq.heappop(self._waiting)
            process_at.switch()

    @property
    def clock(self) -> CommitClock:
        return CommitClock(seconds=lambda: self.now, sleep=self.sleep, chance=self.chance.random)


@dataclass
class Writer:
    """A process that commits again and again; `has_line` without it waits at random alone."""

    world: World
    commits: int
    try_seconds: float
    has_line: bool = True
    lasted: list[float] = field(default_factory=list)

    def __call__(self) -> None:
        line = CommitLine(self.world.files, TablePaths("/t"))
        for _ in range(self.commits):
            begun = self.world.now
            self._commit(line)
            self.lasted.append(self.world.now - begun)

    def _commit(self, line: CommitLine) -> None:
        world = self.world
        tries = CommitTries({}, world.clock)
        turn = CommitTurn(line, seconds=world.clock.seconds, sleep=world.clock.sleep) if self.has_line else None
        if turn is not None:
            tries.begin(turn, world.newest + 1)
        while True:
            base = world.newest
            world.sleep(self.try_seconds * (0.5 + world.chance.random()))
            if base == world.newest:
                world.newest += 1
                break
            assert tries.has_another(turn)
        if turn is not None:
            turn.end(keeps_place=False)


@pytest.mark.parametrize(("count", "try_seconds"), [(16, 0.005), (16, 0.3), (24, 0.02)])
def test_no_commit_of_a_race_takes_ten_times_as_long_as_the_median(count: int, try_seconds: float) -> None:
    world = World()
    writers = [Writer(world, COMMITS, try_seconds) for _ in range(count)]
    world.run(*writers)
    lasted = sorted(seconds for one in writers for seconds in one.lasted)
    assert len(lasted) == world.newest == count * COMMITS
    assert lasted[-1] < 10 * median(lasted)
    assert world.now < 2 * count * COMMITS * try_seconds
    assert not world.files.names


@pytest.mark.parametrize("has_line", [True, False])
def test_a_slow_commit_gets_its_turn_beside_a_fast_writer(has_line: bool) -> None:
    """A writer that wins each race looks at the line at every sixteenth snapshot, though it never loses."""
    world = World()
    slow, fast = Writer(world, 3, 1.0, has_line), Writer(world, 5_000, 0.01, has_line)
    world.run(slow, fast)
    assert (max(slow.lasted) < 10) == has_line


def turn_of(line: CommitLine, world: World) -> CommitTurn:
    return CommitTurn(line, seconds=world.clock.seconds, sleep=world.clock.sleep)


def test_a_place_whose_process_was_killed_is_passed_after_its_patience() -> None:
    world = World()
    line = CommitLine(world.files, TablePaths("/t"))
    line.add(LinePlace(1, "0" * 32, 2_000))
    ended: list[float] = []

    def later() -> None:
        turn = turn_of(line, world)
        turn.wait(try_millis=10, limit_millis=600_000)
        ended.append(world.now)
        turn.end(keeps_place=False)

    world.run(later)
    assert 2 <= ended[0] < 4
    assert not world.files.names


def test_a_patience_of_a_stranger_has_a_bound() -> None:
    assert LinePlace.of(f"1-999999-{'0' * 32}") == LinePlace(1, "0" * 32, 60_000)


@pytest.mark.parametrize(
    "name", ["", "x", "1-2000-..", "../1-2-" + "0" * 32, f"-1-2-{'0' * 32}", f"1-2-{'0' * 32}.tmp"]
)
def test_other_files_are_no_places(name: str) -> None:
    assert LinePlace.of(name) is None


def test_a_place_that_others_deleted_is_taken_again_with_more_patience() -> None:
    world = World()
    line = CommitLine(world.files, TablePaths("/t"))

    def process() -> None:
        turn = turn_of(line, world)
        turn.wait(try_millis=1_000, limit_millis=1)
        (first,) = line.places()
        line.delete(first)
        turn.wait(try_millis=1_000, limit_millis=1)
        assert line.places() == [LinePlace(first.number, first.uuid, 2 * first.patience_millis)]

    world.run(process)


def names_in_line(table: FileStoreTable) -> list[str]:
    return table.file_io.list_names(f"{table.path}{LINE}")


@dataclass(frozen=True)
class Watching(LocalFileIO):
    """Notes the calls that concern the line; with `is_down` they get no answer."""

    calls: list[str] = field(default_factory=list)
    is_down: bool = False

    def exists(self, path: str) -> bool:
        self._note("exists", path)
        return super().exists(path)

    def _note(self, call: str, path: str) -> None:
        if LINE in path:
            self.calls.append(call)
            if self.is_down:
                raise UnavailableError(f"{path}: no answer")

    def list_names(self, directory: str) -> list[str]:
        self._note("list", directory)
        return super().list_names(directory)

    def write_bytes(self, path: str, data: bytes) -> None:
        self._note("write", path)
        super().write_bytes(path, data)

    def delete(self, path: str) -> None:
        self._note("delete", path)
        super().delete(path)


def test_commits_without_a_race_look_at_the_line_at_every_sixteenth_snapshot_alone(tmp_path: Path) -> None:
    files = Watching(sync_data=False)
    table = make_table(tmp_path, files)
    for batch in range(LOOK_EVERY - 1):
        commit_batch(table, batch)
    assert files.calls == []
    commit_batch(table, LOOK_EVERY - 1)
    assert files.calls == ["exists"]


def test_an_overtaken_commit_keeps_its_place_for_its_rows_written_again(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_batch(table, 0)
    entries = prepare_batch(table, 7)
    commit_batch(in_new_process(table.path), 1)
    turn = table.commit_line
    turn.note_others(CommitClock().seconds())
    turn.add(LinePlace(1, "0" * 32, 2_000))
    turn.keep(LinePlace(1, "0" * 32, 2_000))
    with pytest.raises(OvertakenError):
        append_commit(table, user="late", identifier=7, digest=None, entries=entries)
    assert [name[:2] for name in names_in_line(table)] == ["1-"]
    commit_batch(table, 7)
    assert names_in_line(table) == []


def test_a_line_that_does_not_answer_stops_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(commit_line, "LOOK_EVERY", 1)
    table = make_table(tmp_path, Watching(sync_data=False, is_down=True))
    with caplog.at_level(logging.WARNING):
        assert commit_batch(table, 0) is not None
    assert any("the line of commits did not answer" in message for message in caplog.messages)
    assert in_new_process(table.path, UNSYNCED).snapshots.latest_id() == 1
