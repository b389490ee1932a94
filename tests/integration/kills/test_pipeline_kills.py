"""The pipeline of the proposal on Spark: three driver processes of different speeds, killed and started again.

At every moment the consistent snapshots of tables 5, 6 and 7 name versions of 1 to 4 from which the same rows are made
again, digit by digit. Without aligned streams they do not go together.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog
from lakelog.common.errors import NotFoundError
from lakelog.lineage import feed
from lakelog.lineage.answers.consistent import consistent_snapshots
from tests.support.lineage.pipeline import SOURCE, SOURCES, amounts_at, expected, make_tables, rows_at

pytestmark = [pytest.mark.integration, pytest.mark.full]

OPTIONS = {"bucket": "1", "write-only": "true", "snapshot.num-retained.min": "1"}
DERIVED = ("db.t5", "db.t6", "db.t7")
PATIENCE_SECONDS = 300


class Pipeline:
    """The tables, what the sources had at each snapshot, and the processes of the jobs."""

    def __init__(self, folder: Path, *, mode: str) -> None:
        self._folder = folder
        self._mode = mode
        self._chance = random.Random(7)
        self._next_id = 0
        self.catalog = Catalog(folder / "lake", options={"data-lineage": "true"})
        self.tables = make_tables(self.catalog, OPTIONS)
        self.had: dict[tuple[str, int], dict[int, Decimal]] = {}
        self.checked: set[tuple[int, ...]] = set()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, job: str) -> None:
        with (self._folder / f"{job}.out").open("ab") as output:
            command = [sys.executable, "-m", "tests.support.jobs.pipeline_job", str(self._folder), job, self._mode]
            self.processes[job] = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)

    def kill(self, job: str) -> None:
        process = self.processes.pop(job)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def grow(self, name: str | None = None) -> None:
        """A source gets rows with keys of their own: the join of Spark's streams keeps all rows of both sides."""
        name = name or self._chance.choice(SOURCES)
        ids = range(self._next_id, self._next_id + 3)
        self._next_id += 3
        amounts = [Decimal(self._chance.randrange(1 << 40)).scaleb(-4) for _ in ids]
        table = self.tables[name]
        table.write(pa.table({"id": list(ids), "amount": amounts}, schema=SOURCE))
        newest = table.store.snapshots.latest_id()
        assert newest is not None
        self.had[name, newest] = amounts_at(table, newest)

    def check(self) -> bool:
        """Check the consistent snapshots of now; whether they are all there is."""
        for job, process in self.processes.items():
            assert process.poll() is None, f"{job} ended: {(self._folder / f'{job}.out').read_bytes()[-3000:].decode()}"
        try:
            found = consistent_snapshots(self.catalog, DERIVED)
        except NotFoundError:
            assert not self.checked, "tables that had consistent snapshots have some for ever"
            return False
        if tuple(found.values()) not in self.checked:
            self.checked.add(tuple(found.values()))
            again = expected({name: self.had[name, at.snapshot_id] for name, at in found.versions.items()})
            for name in DERIVED:
                assert rows_at(self.tables[name], found[name]) == again[name], name
        newest = {name: self.tables[name].store.snapshots.latest_id() for name in SOURCES}
        return {name: at.snapshot_id for name, at in found.versions.items()} == newest

    def is_joined(self) -> bool:
        """Whether the newest snapshot of table 7 is the join of those of 5 and 6."""
        found = {name: self.tables[name].store.snapshots.latest_id() for name in DERIVED}
        left, right, joined = (rows_at(self.tables[name], number) if number else {} for name, number in found.items())
        return joined == {one: (*left[one], *right[one]) for one in left.keys() & right.keys()}


@pytest.fixture(params=["aligned"])
def pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pipeline]:
    found = Pipeline(tmp_path, mode=request.param)
    yield found
    for job in list(found.processes):
        found.kill(job)


@pytest.mark.timeout(1500)
def test_what_killed_jobs_have_written_is_made_again_from_the_versions_that_are_named(pipeline: Pipeline) -> None:
    for name in SOURCES:
        pipeline.grow(name)
    for job in ("one", "two", "three"):
        pipeline.start(job)
    kills = {4: "one", 6: "three", 9: "two", 11: "three"}
    for number in range(14):
        seen = len(pipeline.checked)
        pipeline.grow()
        pipeline.grow()
        if number in kills:
            pipeline.kill(kills[number])
            pipeline.start(kills[number])
        if number % 5 == 4:
            feed(pipeline.catalog)
            for table in pipeline.tables.values():
                table.upkeep.expire_snapshots(retain_max=4, retain_min=1, older_than="1 ms")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(pipeline.checked) == seen and not pipeline.check():
            assert time.monotonic() < deadline, "the jobs do not come further"
            time.sleep(0.3)  # the jobs need the processor
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not pipeline.check():
        assert time.monotonic() < deadline, "the jobs do not come to the end"
        time.sleep(0.3)

    assert len(pipeline.checked) > 10


@pytest.mark.timeout(900)
@pytest.mark.parametrize("pipeline", ["plain"], indirect=True)
def test_without_alignment_the_newest_snapshots_do_not_go_together(pipeline: Pipeline) -> None:
    for name in SOURCES:
        pipeline.grow(name)
    for job in ("one", "two", "three"):
        pipeline.start(job)
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: list[bool] = []
    while all(found):
        assert time.monotonic() < deadline, "the newest snapshots went together all the time"
        pipeline.grow()
        time.sleep(0.3)
        if pipeline.tables["db.t7"].store.snapshots.latest_id() is not None:
            found.append(pipeline.is_joined())
