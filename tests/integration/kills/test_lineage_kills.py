"""Lineage is the truth: two jobs on one table are killed at each step, and their rows say what is so.

Both stream into the table all the time, each with its own kills, and is started again: a job dies while the other one
writes, and where it took in a part of the other's batch. Compaction and expiry run beside; what has expired is in the
system tables. `LINEAGE_ROUNDS` is how many kills there are, for fewer than it takes for all steps, with few batches.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.lineage import feed, known_edges, rebuild
from lakelog.protocol.state.steps import Step
from tests.support.examples import in_full, spread
from tests.support.kills.crash import CrashPlan, Victim
from tests.support.lineage.lineage_records import sorted_rows, system_rows
from tests.support.lineage.lineage_world import World

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(5400)]

JOBS = ("one", "two")
BATCHES_MIN = in_full(300)
FILES_ROUNDS = in_full(30)
UNREAD_WRITES = 3  # of the source, that wait for a job
SECONDS_MAX = 600  # without a kill
POLL_SECONDS = 0.1
Kill = tuple[Step, Victim]
OF_DRIVER = tuple((step, Victim.DRIVER) for step in (Step.BEFORE_SNAPSHOT, Step.AFTER_SNAPSHOT))
COMPACTING = (Step.BETWEEN_APPEND_AND_COMPACT, Victim.DRIVER)
TASK_STEPS = (Step.AFTER_COMMIT, Step.COMMIT, Step.PRODUCE, Step.BEGIN, Step.PREPARE, Step.LOOK, Step.FENCE)
OF_TASKS = tuple((step, victim) for victim in (Victim.DRIVER, Victim.WORKER) for step in TASK_STEPS)
EXPIRING = {
    "num-sorted-run.compaction-trigger": "3",
    "snapshot.num-retained.min": "4",
    "snapshot.num-retained.max": "8",
}


@dataclass(slots=True)
class Job:
    """A job that is started again after each of its kills."""

    world: World
    name: str
    kills: Sequence[Kill]
    batches_per_run: int
    struck: int = 0
    process: subprocess.Popen[bytes] | None = None
    plan: CrashPlan | None = None
    began_at: int = 0  # so many micro-batches were done when its process began

    def start(self) -> None:
        """Start it, with the next kill in view; after the last one to go on."""
        self.plan = None
        if self.struck < len(self.kills):
            step, victim = self.kills[self.struck]
            self.began_at = self.world.committed(self.name)
            # A bucket is fenced in the first batch of a run alone.
            batch = 0 if step is Step.FENCE else self.began_at + self.batches_per_run
            self.plan = self.world.plan(self.name, step, victim, batch=batch)
        self.process = self.world.start(self.name, self.plan)

    @property
    def is_streaming(self) -> bool:
        """Whether its process has committed a batch, and lives."""
        lives = self.process is not None and self.process.poll() is None
        return lives and self.world.committed(self.name) > self.began_at

    def has_died(self) -> bool:
        """Whether its process was killed as planned. It has no other end."""
        assert self.process is not None
        ended = self.process.poll()
        if ended is None:
            return False
        assert self.plan is not None, self.world.tail_of_log(self.name)
        assert self.plan.marker.exists(), self.world.tail_of_log(self.name)
        self.struck += 1
        return True


@dataclass(slots=True)
class Course:
    """Both jobs from their first start to their end; `beside` counts the kills of one while the other one streamed."""

    world: World
    jobs: Sequence[Job]
    beside: int = 0
    last_kill: float = field(default_factory=time.monotonic)

    def run(self) -> None:
        """Kill the jobs as often as planned, then let them go on to the end of what is there."""
        for job in self.jobs:
            job.start()
        while any(job.struck < len(job.kills) for job in self.jobs):
            assert time.monotonic() - self.last_kill < SECONDS_MAX, self._where()
            self._write_on()
            for job, other in (self.jobs, reversed(self.jobs)):
                was_streaming = other.is_streaming
                if job.has_died():
                    self.beside += was_streaming
                    self.last_kill = time.monotonic()
                    self.world.write_side()  # what is planned again may read another version
                    job.start()
            time.sleep(POLL_SECONDS)  # the jobs need the processor
        self.world.let_end()
        for job in self.jobs:
            assert job.process is not None
            assert job.process.wait(SECONDS_MAX) == 0, self.world.tail_of_log(job.name)

    def stop(self) -> None:
        """End what still runs."""
        for job in self.jobs:
            if job.process is not None and job.process.poll() is None:
                os.killpg(job.process.pid, signal.SIGKILL)

    def _write_on(self) -> None:
        """Write the source as long as the job that has read the most has something to do."""
        unread = len(self.world.source.snapshots) - max(self.world.has_read(job.name) for job in self.jobs)
        for _ in range(UNREAD_WRITES - unread):
            self.world.write_source()

    def _where(self) -> str:
        return "\n".join(f"{job.name}: kill {job.struck} of {len(job.kills)}, {job.kills}" for job in self.jobs)


def stored(world: World) -> dict[str, list[tuple[object, ...]]]:
    """What the system tables of snapshots hold."""
    names = ("snapshot_edges", "source_snapshot_lineage", "sink_snapshot_lineage")
    return {name: system_rows(world.catalog, name) for name in names}


def check_system_tables(world: World, batches: set[tuple[str, int]]) -> None:
    """The system tables have each batch once, and a rebuild gives the same."""
    before = sorted_rows(known_edges(world.catalog))
    feed(world.catalog)
    fed = stored(world)
    assert sorted_rows(known_edges(world.catalog)) == before
    rows: pa.Table = world.catalog.system_table("sys.sink_snapshot_lineage").to_arrow(columns=["job", "barrier_id"])
    found = [tuple(row.values()) for row in rows.to_pylist()]
    assert len(found) == len(set(found))
    assert batches <= set(found)
    rebuild(world.catalog)
    assert stored(world) == fed


@pytest.mark.parametrize("is_logged", [True, False], ids=["with a log", "without a log"])
def test_lineage_is_the_truth_after_kills_at_each_step(
    tmp_path: Path, bootstrap_servers: str, *, is_logged: bool
) -> None:
    log = {"log.system": "kafka", "log.kafka.bootstrap.servers": bootstrap_servers} if is_logged else {}
    world = World.create(tmp_path, JOBS, {**EXPIRING, **log}, bootstrap_servers)
    feed(world.catalog)  # from here on snapshots of the warehouse are fed before they expire
    world.write_side()
    world.write_source()
    steps = (OF_TASKS[0], *OF_DRIVER, *OF_TASKS[1:], COMPACTING) if is_logged else OF_DRIVER
    is_whole = "LINEAGE_ROUNDS" not in os.environ
    rounds = (in_full(3 * len(steps)) if is_logged else FILES_ROUNDS) if is_whole else int(os.environ["LINEAGE_ROUNDS"])
    each = [steps[at] for at in spread(len(steps), (rounds + 1) // 2)]
    turned = [steps[(at + len(steps) // 2) % len(steps)] for at in spread(len(steps), rounds // 2)]
    per_run = 2 + (BATCHES_MIN // rounds if is_whole else 2)
    course = Course(world, [Job(world, name, kills, per_run) for name, kills in zip(JOBS, (each, turned), strict=True)])
    began = time.monotonic()
    try:
        course.run()
    finally:
        course.stop()

    made = world.truth()
    assert world.recorded() == made
    print(f"{len(made)} batches, {rounds} kills, {course.beside} beside, {time.monotonic() - began:.0f} s")
    check_system_tables(world, set(made))
    if is_whole:
        assert course.beside >= rounds // 3, f"the other job streamed at {course.beside} of {rounds} kills"
        assert len(made) >= BATCHES_MIN
