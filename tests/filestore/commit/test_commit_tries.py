"""How long commits that lose races try again."""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.commit_tries import CommitTries


@dataclass
class Time:
    """A clock that only sleeping and working move."""

    seconds: float = 0.0
    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds

    def clock(self, chance: float = 1.0) -> CommitClock:
        return CommitClock(seconds=lambda: self.seconds, sleep=self.sleep, chance=lambda: chance)


def waits_of(options: Mapping[str, str], *, tries: int, try_seconds: float, chance: float = 1.0) -> list[float]:
    time = Time()
    commit = CommitTries(options, time.clock(chance))
    for _ in range(tries):
        time.seconds += try_seconds
        assert commit.has_another()
    return time.waits


def test_waits_grow_with_the_losses_up_to_the_longest() -> None:
    waits = waits_of({"commit.max-retry-wait": "50 ms"}, tries=5, try_seconds=1)
    assert waits == pytest.approx([0.01, 0.02, 0.04, 0.05, 0.05])


def test_a_wait_is_any_part_of_its_limit() -> None:
    assert waits_of({}, tries=3, try_seconds=1, chance=0.25) == pytest.approx([0.0025, 0.005, 0.01])


def test_who_lost_often_waits_no_longer_than_some_tries_take() -> None:
    assert max(waits_of({}, tries=30, try_seconds=0.005)) == pytest.approx(0.04)


def test_commits_try_until_the_timeout_by_default() -> None:
    time = Time()
    commit = CommitTries({}, time.clock())
    while commit.has_another():
        time.seconds += 0.1
    assert time.seconds == pytest.approx(600, abs=0.2)
    assert len(time.waits) > 500
    assert "lost" in str(commit)
    assert "commit.timeout" in str(commit)


def test_a_given_number_of_retries_ends_the_tries_before() -> None:
    commit = CommitTries({"commit.max-retries": "2"}, Time().clock())
    assert [commit.has_another() for _ in range(3)] == [True, True, False]
    assert str(commit).endswith("raise commit.timeout and commit.max-retries")


def test_a_clock_that_is_set_ends_no_tries() -> None:
    """What has passed is not measured by the clock that dates snapshots."""
    jumping = iter(range(0, 10**15, 10**12))
    clock = CommitClock(now_millis=lambda: next(jumping), seconds=lambda: 0.0, sleep=lambda _: None)
    commit = CommitTries({"commit.timeout": "1 s"}, clock)
    assert all(commit.has_another() for _ in range(50))


@pytest.mark.parametrize(("writers", "try_seconds"), [(16, 0.005), (16, 0.3), (64, 0.02)])
def test_writers_that_race_at_defaults_all_commit(writers: int, try_seconds: float) -> None:
    """And no writer is left behind by those that never lost: as a model, for machines differ."""
    worst, total = race(writers, 50, try_seconds)
    at_best = writers * 50 * try_seconds
    assert total < 1.2 * at_best
    assert worst < total / 2


def race(writers: int, commits: int, try_seconds: float) -> tuple[float, float]:
    """The longest that a commit takes, and all of them, when a try fails that is not made on the newest snapshot."""
    chance = random.Random(5)
    racers = [Racer(chance, commits) for _ in range(writers)]
    newest, worst, now = 0, 0.0, 0.0
    steps: list[tuple[float, int, int | None]] = [(0.0, number, None) for number in range(writers)]
    while steps:
        now, number, base = heapq.heappop(steps)
        racer = racers[number]
        racer.time.seconds = now
        if base is None:  # a try begins
            heapq.heappush(steps, (now + try_seconds * (0.5 + chance.random()), number, newest))
            continue
        if base == newest:
            newest += 1
            worst = max(worst, now - racer.begun)
            racer.next_commit()
        else:
            assert racer.tries.has_another()
        if racer.left:
            heapq.heappush(steps, (racer.time.seconds, number, None))
    assert newest == writers * commits
    return worst, now


class Racer:
    """A writer of the race: its commits one after the other."""

    def __init__(self, chance: random.Random, commits: int) -> None:
        self.time = Time()
        self.left = commits + 1
        self._clock = CommitClock(seconds=lambda: self.time.seconds, sleep=self.time.sleep, chance=chance.random)
        self.next_commit()

    def next_commit(self) -> None:
        self.left -= 1
        self.begun = self.time.seconds
        self.tries = CommitTries({}, self._clock)
