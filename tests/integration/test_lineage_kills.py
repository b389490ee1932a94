"""Lineage is the truth: two jobs on one table are killed at each step, and their rows say what is so.

Compaction and expiry run beside; what has expired is in the system tables. `LINEAGE_ROUNDS` is how many kills there
are, fewer than it takes for all steps, and `LINEAGE_WRITES` about how many micro-batches they make together.
"""

from __future__ import annotations

import bisect
import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.lineage import feed, known_edges
from lakelog.protocol.steps import Step
from tests.support.crash import CrashPlan, Victim
from tests.support.lineage_job import ROWS_PER_WRITE

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(5400)]

JOBS = ("one", "two")
WRITES_PER_ROUND = 8  # snapshots of the source, at least
WRITES = int(os.environ.get("LINEAGE_WRITES", "240"))  # each job makes a micro-batch of one or two of them
BATCHES_MIN = 200
JOB_SECONDS_MAX = 1500
POLL_SECONDS = 0.05
OF_DRIVER = tuple((step, Victim.DRIVER) for step in (Step.BEFORE_SNAPSHOT, Step.AFTER_SNAPSHOT))
COMPACTING = (Step.BETWEEN_APPEND_AND_COMPACT, Victim.DRIVER)
TASK_STEPS = (Step.AFTER_COMMIT, Step.COMMIT, Step.PRODUCE, Step.BEGIN, Step.PREPARE, Step.LOOK, Step.FENCE)
OF_TASKS = tuple((step, victim) for victim in (Victim.DRIVER, Victim.WORKER) for step in TASK_STEPS)
SOURCE = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("write", pa.int64())])
SIDE = pa.schema([pa.field("one", pa.int64(), nullable=False), pa.field("version", pa.int64())])
SINK = pa.schema(
    [
        pa.field("job", pa.string(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("write", pa.int64()),
        pa.field("side", pa.int64()),
        pa.field("batch", pa.int64()),
    ]
)


@dataclass(slots=True)
class Versions:
    """Which snapshot of a table is which of its writes; snapshots of compactions show the write before them."""

    table: Table
    snapshots: list[int] = field(default_factory=list)

    def put(self, rows: pa.Table) -> None:
        self.snapshots.append(self.table.write(rows).id)

    def at(self, snapshot_id: int | None) -> int:
        """The number of the last write that a snapshot shows, from 1 on; 0 for none."""
        return 0 if snapshot_id is None else bisect.bisect_right(self.snapshots, snapshot_id)


@dataclass(slots=True)
class World:
    """The folder of one case and its tables."""

    folder: Path
    catalog: Catalog
    source: Versions
    side: Versions

    @classmethod
    def create(cls, folder: Path, options: Mapping[str, str], bootstrap_servers: str) -> World:
        catalog = Catalog(str(folder / "lake"), bootstrap_servers=bootstrap_servers, options={"data-lineage": "true"})
        kept = {"snapshot.num-retained.min": "100000"}
        source = catalog.create_table("db.source", schema=SOURCE, primary_keys=["id"], options=kept)
        side = catalog.create_table("db.side", schema=SIDE, primary_keys=["one"], options=kept)
        expiring = {
            "bucket": "2",
            "num-sorted-run.compaction-trigger": "3",
            "snapshot.num-retained.min": "4",
            "snapshot.num-retained.max": "8",
        }
        catalog.create_table("db.sink", schema=SINK, primary_keys=["job", "id"], options={**expiring, **options})
        feed(catalog)  # from here on snapshots of the warehouse are fed before they expire
        return cls(folder, catalog, Versions(source), Versions(side))

    def write_source(self, writes: int) -> None:
        """So many writes of rows that have the number of their write."""
        for _ in range(writes):
            number = len(self.source.snapshots) + 1
            ids = list(range(number * ROWS_PER_WRITE, (number + 1) * ROWS_PER_WRITE))
            self.source.put(pa.table({"id": ids, "write": [number] * ROWS_PER_WRITE}, schema=SOURCE))

    def write_side(self) -> None:
        """The next version."""
        self.side.put(pa.table({"one": [1], "version": [len(self.side.snapshots) + 1]}, schema=SIDE))

    def start(self, job: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.support.lineage_job", str(self.folder), job]
        with (self.folder / f"{job}.log").open("ab") as log:
            return subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=log, start_new_session=True)

    def finish(self, job: str) -> None:
        assert self.start(job, {}).wait(JOB_SECONDS_MAX) == 0, self.tail_of_log(job)

    def kill(self, job: str, step: Step, victim: Victim) -> bool:
        """Run a job until it is killed at the step; whether it was: it may have ended before."""
        offsets = self.folder / f"{job}-checkpoint" / "offsets"
        done = len([one for one in offsets.glob("[0-9]*") if one.name.isdigit()])
        plan = CrashPlan(
            step=step,
            identifier=0 if step is Step.FENCE else done + 2,
            victim=victim,
            marker=self.folder / f"{job}.marker",
            release=self.folder / f"{job}.release",
        )
        plan.marker.unlink(missing_ok=True)
        process = self.start(job, plan.to_env())
        process.wait(JOB_SECONDS_MAX)
        return plan.marker.exists()

    def query_id(self, job: str) -> str:
        found = json.loads((self.folder / f"{job}-checkpoint" / "metadata").read_text())["id"]
        assert isinstance(found, str)
        return found

    def tail_of_log(self, job: str) -> str:
        return (self.folder / f"{job}.log").read_text(encoding="utf-8", errors="replace")[-6000:]


Made = tuple[frozenset[int], frozenset[int]]
"""The writes of the source and the versions of the side that a batch was made from."""


def truth(world: World) -> dict[tuple[str, int], Made]:
    """What each batch was made from, by its rows. Each write of the source is in one batch of each job, whole."""
    writes: dict[tuple[str, int], set[int]] = defaultdict(set)
    sides: dict[tuple[str, int], set[int]] = defaultdict(set)
    rows: Counter[tuple[str, int]] = Counter()
    batches: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row in world.catalog.table("db.sink").to_arrow().to_pylist():
        batch = (row["job"], row["batch"])
        writes[batch].add(row["write"])
        sides[batch].add(row["side"])
        rows[row["job"], row["write"]] += 1
        batches[row["job"], row["write"]].add(row["batch"])
    numbers = range(1, len(world.source.snapshots) + 1)
    assert rows == {(job, number): ROWS_PER_WRITE for job in JOBS for number in numbers}
    assert all(len(found) == 1 for found in batches.values())
    return {batch: (frozenset(writes[batch]), frozenset(sides[batch])) for batch in writes}


def recorded(world: World) -> dict[tuple[str, int], Made]:
    """What each batch was made from, by what its commits have recorded. Each source of each batch once."""
    jobs = {world.query_id(job): job for job in JOBS}
    found: dict[tuple[str, int], Made] = {}
    edges = [edge for edge in known_edges(world.catalog).to_pylist() if edge["sink_table"] == "db.sink"]
    seen = Counter((edge["user"], edge["identifier"], edge["source_table"], edge["source_to"]) for edge in edges)
    assert max(seen.values()) == 1
    for edge in edges:
        assert (edge["job"], edge["query_id"]) == (jobs[edge["user"]], edge["user"])
        assert edge["barrier_id"] == edge["identifier"]
        assert edge["exact"]
        batch = (edge["job"], edge["barrier_id"])
        writes, sides = found.get(batch, (frozenset[int](), frozenset[int]()))
        if edge["source_table"] == "db.source":
            first, last = world.source.at(edge["source_from"]), world.source.at(edge["source_to"])
            writes |= frozenset(range(first + 1, last + 1))
        else:
            assert edge["source_table"] == "db.side"
            sides |= {world.side.at(edge["source_to"])}
        found[batch] = (writes, sides)
    return {batch: made for batch, made in found.items() if made[0]}  # a batch without rows shows none


def kills(steps: Sequence[tuple[Step, Victim]], rounds: int) -> Iterator[tuple[str, Step, Victim]]:
    """The jobs in turns, and each step for each job."""
    jobs = (JOBS[(turn + at) % 2] for turn in range(rounds) for at in range(len(steps)))
    return islice(((job, *step) for job, step in zip(jobs, cycle(steps), strict=False)), rounds)


@pytest.mark.parametrize("is_logged", [True, False], ids=["with a log", "without a log"])
def test_lineage_is_the_truth_after_kills_at_each_step(
    tmp_path: Path, bootstrap_servers: str, *, is_logged: bool
) -> None:
    log = {"log.system": "kafka", "log.kafka.bootstrap.servers": bootstrap_servers} if is_logged else {}
    world = World.create(tmp_path, log, bootstrap_servers)
    steps = (OF_TASKS[0], *OF_DRIVER, *OF_TASKS[1:], COMPACTING) if is_logged else OF_DRIVER
    rounds = int(os.environ.get("LINEAGE_ROUNDS", "0")) or 2 * len(steps)
    struck = 0
    for job, step, victim in kills(steps, rounds):
        world.write_side()
        world.write_source(max(WRITES_PER_ROUND, WRITES // rounds))
        struck += world.kill(job, step, victim)
        world.write_side()  # what is planned again may read another version
    began = time.monotonic()
    for job in JOBS:
        world.finish(job)

    made = truth(world)
    assert recorded(world) == made
    assert struck >= rounds // 2, f"{struck} of {rounds} jobs were killed"
    print(f"{len(made)} batches, {struck} kills, {time.monotonic() - began:.0f} s after the last")
    if "LINEAGE_ROUNDS" not in os.environ:
        assert len(made) >= BATCHES_MIN
