"""Tables and jobs whose rows say what they were made from, and what the commits have recorded of it.

See `tests.support.jobs.lineage_job` for what a job writes.
"""

from __future__ import annotations

import bisect
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.lineage import known_edges
from lakelog.protocol.state.steps import Step
from tests.support.jobs.lineage_job import DONE, ROWS_PER_WRITE
from tests.support.kills.crash import CrashPlan, Victim

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
Batch = tuple[str, int]
"""A job and the number of its micro-batch."""

Made = tuple[frozenset[int], frozenset[int]]
"""The writes of the source and the versions of the side that a batch was made from."""


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
    """The folder of one case, its tables and its jobs."""

    folder: Path
    catalog: Catalog
    source: Versions
    side: Versions
    jobs: Sequence[str]

    @classmethod
    def create(
        cls, folder: Path, jobs: Sequence[str], options: Mapping[str, str], bootstrap_servers: str | None = None
    ) -> World:
        """Empty tables; `options` are those of the sink."""
        catalog = Catalog(str(folder / "lake"), bootstrap_servers=bootstrap_servers, options={"data-lineage": "true"})
        kept = {"snapshot.num-retained.min": "100000"}
        source = catalog.create_table("db.source", schema=SOURCE, primary_keys=["id"], options=kept)
        side = catalog.create_table("db.side", schema=SIDE, primary_keys=["one"], options=kept)
        catalog.create_table("db.sink", schema=SINK, primary_keys=["job", "id"], options={"bucket": "2", **options})
        return cls(folder, catalog, Versions(source), Versions(side), jobs)

    def write_source(self) -> None:
        """The next rows, which have the number of their write."""
        number = len(self.source.snapshots) + 1
        ids = list(range(number * ROWS_PER_WRITE, (number + 1) * ROWS_PER_WRITE))
        self.source.put(pa.table({"id": ids, "write": [number] * ROWS_PER_WRITE}, schema=SOURCE))

    def write_side(self) -> None:
        """The next version."""
        self.side.put(pa.table({"one": [1], "version": [len(self.side.snapshots) + 1]}, schema=SIDE))

    def start(self, job: str, plan: CrashPlan | None) -> subprocess.Popen[bytes]:
        """Start the process of a job, which dies as the plan says."""
        command = [sys.executable, "-m", "tests.support.jobs.lineage_job", str(self.folder), job]
        env = {**os.environ, **({} if plan is None else plan.to_env())}
        with (self.folder / f"{job}.log").open("ab") as log:
            return subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)

    def plan(self, job: str, step: Step, victim: Victim, *, batch: int) -> CrashPlan:
        """The plan of a kill, whose marker is its own: workers of a killed driver may reach the step later."""
        number = len(list(self.folder.glob(f"{job}.kill-*")))
        marker, release = self.folder / f"{job}.kill-{number}", self.folder / f"{job}.release"
        return CrashPlan(step=step, identifier=batch, victim=victim, marker=marker, release=release)

    def let_end(self) -> None:
        """Let the jobs go on to the end of what is there, and no further."""
        (self.folder / DONE).touch()

    def planned(self, job: str) -> int:
        """How many micro-batches Spark has planned."""
        names = (one.name for one in (self.folder / f"{job}-checkpoint" / "offsets").glob("[0-9]*"))
        return max((int(name) + 1 for name in names if name.isdigit()), default=0)

    def committed(self, job: str) -> int:
        """How many micro-batches Spark has recorded as done."""
        names = (one.name for one in (self.folder / f"{job}-checkpoint" / "commits").glob("[0-9]*"))
        return max((int(name) + 1 for name in names if name.isdigit()), default=0)

    def has_read(self, job: str) -> int:
        """The number of the last write that a planned micro-batch reads."""
        planned = self.planned(job)
        if not planned:
            return 0
        text = (self.folder / f"{job}-checkpoint" / "offsets" / str(planned - 1)).read_text(encoding="utf-8")
        return self.source.at(json.loads(text.splitlines()[-1])["consumed"])

    def query_id(self, job: str) -> str:
        found = json.loads((self.folder / f"{job}-checkpoint" / "metadata").read_text())["id"]
        assert isinstance(found, str)
        return found

    def tail_of_log(self, job: str) -> str:
        return (self.folder / f"{job}.log").read_text(encoding="utf-8", errors="replace")[-6000:]

    def truth(self) -> dict[Batch, Made]:
        """What each batch was made from, by its rows. Each write of the source is in one batch of each job, whole."""
        writes: dict[Batch, set[int]] = defaultdict(set)
        sides: dict[Batch, set[int]] = defaultdict(set)
        rows: Counter[tuple[str, int]] = Counter()
        batches: dict[tuple[str, int], set[int]] = defaultdict(set)
        for row in self.catalog.load_table("db.sink").to_arrow().to_pylist():
            batch = (row["job"], row["batch"])
            writes[batch].add(row["write"])
            sides[batch].add(row["side"])
            rows[row["job"], row["write"]] += 1
            batches[row["job"], row["write"]].add(row["batch"])
        numbers = range(1, len(self.source.snapshots) + 1)
        assert rows == {(job, number): ROWS_PER_WRITE for job in self.jobs for number in numbers}
        assert all(len(found) == 1 for found in batches.values())
        return {batch: (frozenset(writes[batch]), frozenset(sides[batch])) for batch in writes}

    def recorded(self) -> dict[Batch, Made]:
        """What each batch was made from, by what its commits have recorded. Each source of each batch once."""
        jobs = {self.query_id(job): job for job in self.jobs}
        found: dict[Batch, Made] = {}
        edges = [edge for edge in known_edges(self.catalog).to_pylist() if edge["sink_table"] == "db.sink"]
        seen = Counter((edge["user"], edge["identifier"], edge["source_table"], edge["source_to"]) for edge in edges)
        assert max(seen.values()) == 1
        for edge in edges:
            assert (edge["job"], edge["query_id"]) == (jobs[edge["user"]], edge["user"])
            assert edge["barrier_id"] == edge["identifier"]
            assert edge["exact"]
            batch = (edge["job"], edge["barrier_id"])
            writes, sides = found.get(batch, (frozenset[int](), frozenset[int]()))
            if edge["source_table"] == "db.source":
                first, last = self.source.at(edge["source_from"]), self.source.at(edge["source_to"])
                writes |= frozenset(range(first + 1, last + 1))
            else:
                assert edge["source_table"] == "db.side"
                sides |= {self.side.at(edge["source_to"])}
            found[batch] = (writes, sides)
        return {batch: made for batch, made in found.items() if made[0]}  # a batch without rows shows none
