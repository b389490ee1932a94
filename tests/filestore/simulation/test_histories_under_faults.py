"""Random histories of many processes at one table, whose calls fail, are cut off, or are the last they make.

Model, world and actors stand beside. `python -m tests.filestore.simulation SEED` replays a history, call by call.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.filestore.simulation.history import CALM_EVERY, simulate
from tests.filestore.simulation.kinds import KINDS
from tests.filestore.simulation.world import Fault

GATE_SEEDS = (*range(13), 36)  # the last one has an expiry by age
FULL_SEEDS = (*range(13, 263), 532, 686)  # in the last two a snapshot is created behind an expiry
FULL_CRASH_POINTS = 3_000
REPLAYED = 3
ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Faults are logged by the dozen."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run(seeds: Iterable[int]) -> tuple[Counter[str], int]:
    """Run histories that keep all promises; gives what happened, and how many calls were crash points."""
    events: Counter[str] = Counter()
    crash_points = 0
    for seed in seeds:
        history = simulate(seed)
        assert not history.violations, history.report()
        events.update(history.events)
        crash_points += history.crash_points
    return events, crash_points


def check_seen(events: Counter[str], *names: str) -> None:
    for name in names:
        assert events[name] > 0, f"the simulation never saw {name!r}: it proves nothing about it"


def test_every_history_keeps_the_promises() -> None:
    events, crash_points = run(GATE_SEEDS)
    assert crash_points >= 150
    check_seen(events, *Fault, "acknowledged", "compacted", "expired", "read", "unknown, not committed")
    check_seen(events, "batch tried again", "orphans", "clock a year ahead", "clock never set", "expired by age")
    check_seen(events, "expired by another engine", "branch taken over")


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_many_histories_keep_the_promises() -> None:
    events, crash_points = run(FULL_SEEDS)
    print(f"{crash_points} crash points: {dict(sorted(events.items()))}")
    assert crash_points >= FULL_CRASH_POINTS
    check_seen(events, *Fault, "created behind an expiry", "compaction dropped", "read of what is expired")
    check_seen(events, "write refused: ConflictError", "unknown, yet committed")
    check_seen(events, "found out: committed", "found out: not committed")


@pytest.mark.full
def test_races_alone_leave_no_file_behind() -> None:
    """But for those who cannot know: who slept until the snapshot that took its id had expired, or a tag's expired."""
    calm = [run(range(seed, seed + 1)) for seed in range(0, len(KINDS) * CALM_EVERY, CALM_EVERY)]
    assert [crash_points for _, crash_points in calm] == [0] * len(KINDS)
    sure = [events for events, _ in calm if not events["gave up"] and not events["restore refused"]]
    assert len(sure) > len(KINDS) // 2
    assert sum(events["orphans"] for events in sure) == 0


def test_a_seed_gives_the_same_history_in_every_process() -> None:
    first, second = simulate(REPLAYED), simulate(REPLAYED)
    assert first == second
    assert first.crash_points > 0
    replay = subprocess.run(
        [sys.executable, "-m", "tests.filestore.simulation", str(REPLAYED)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert replay.stdout.splitlines() == first.report(lines=len(first.trace)).splitlines()
