"""The lineage of fields of a pipeline whose jobs are killed: each committed batch has its own, and no other has one.

Three jobs stream from table to table. Each batch has another program than the batch before, and its rows have its
number: so the rows say which lineage is right.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.record import batches_of
from lakelog.lineage import feed
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_store import find_document
from lakelog.lineage.tables.warehouse_lineage import known_fields
from tests.support.examples import in_full
from tests.support.jobs.field_job import DONE

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(1800)]

TABLES = ("db.raw", "db.one", "db.two", "db.three")
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), *(pa.field(name, pa.int64()) for name in ("a", "b", "v", "batch"))]
)
KILLS = int(os.environ.get("FIELD_KILLS", in_full(20)))
WRITES = 40
SECONDS_MAX = 240  # without progress


@dataclass(slots=True)
class Job:
    """A job that is started again after each of its kills."""

    folder: Path
    number: int
    process: subprocess.Popen[bytes] | None = None
    began_at: int = 0

    @property
    def name(self) -> str:
        return f"job{self.number}"

    def start(self) -> None:
        self.began_at = self.committed()
        command = [sys.executable, "-m", "tests.support.jobs.field_job", str(self.folder), self.name]
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, TABLES[self.number], TABLES[self.number + 1]],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def committed(self) -> int:
        return len(list((self.folder / f"{self.name}-checkpoint" / "commits").glob("[0-9]*")))

    def kill(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, (self.folder / f"{self.name}.log").read_text()[-4000:]
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(folder: Path) -> Iterator[list[Job]]:
    jobs = [Job(folder, number) for number in range(3)]
    try:
        for job in jobs:
            job.start()
        yield jobs
    finally:
        for job in jobs:
            if job.process is not None and job.process.poll() is None:
                os.killpg(job.process.pid, signal.SIGKILL)


def write_raw(raw: Table, number: int) -> None:
    raw.write(pa.table({"id": [number], "a": [number], "b": [1], "v": [0], "batch": [-1]}, schema=SCHEMA))


def check_document(document: FieldDocument | None, source: str, batch: int) -> None:
    assert document is not None
    assert not document.is_approximate
    found = {one.name: {edge.source for edge in one.edges} for one in document.lineage.fields}
    inputs = {name: {source_field.name for source_field in sources} for name, sources in found.items()}
    made = {"a", "b"} if batch % 2 else {"a"}
    assert inputs == {"id": {"id"}, "a": {"a"}, "b": {"b"}, "v": made, "batch": set()}
    assert {one.dataset.name for sources in found.values() for one in sources} == {source.partition(".")[2]}


def check_table(table: Table, source: str) -> dict[str, set[int]]:
    """Each committed batch names its lineage; returns the batches of each checksum."""
    named: dict[str, set[int]] = {}
    for snapshot in table.snapshots():
        for one in batches_of(table.store.snapshots.get(snapshot.id)):
            batch = one.lineage.batch_id
            assert batch is not None
            (checksum,) = one.lineage.fields
            check_document(find_document(table.store, checksum), source, batch)
            named.setdefault(checksum, set()).add(batch)
    for row in table.to_arrow().to_pylist():  # the rows say by which program they were made
        assert row["v"] == (row["a"] + row["b"] if row["batch"] % 2 else row["a"] * 2)
    written = set(table.to_arrow()["batch"].to_pylist())
    assert written <= set().union(*named.values())
    # The number of the batch is a constant in each program: the first form of both, and both without constants.
    assert len(named) <= 4
    assert len(list((Path(table.path) / "lakelog" / "fields").iterdir())) <= 4
    return named


def test_each_committed_batch_has_the_lineage_of_its_program(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path / "lake"), options={"data-lineage": "true"})
    for name in TABLES:
        catalog.create_table(name, schema=SCHEMA, primary_keys=["id"], options={"snapshot.num-retained.min": "100000"})
    raw, chance, written, kills = catalog.load_table("db.raw"), random.Random(7), 0, 0
    with running(tmp_path) as jobs:
        moved = time.monotonic()
        while kills < KILLS or written < WRITES:
            assert time.monotonic() - moved < SECONDS_MAX, f"{kills} kills, {written} writes"
            write_raw(raw, written)
            written += 1
            time.sleep(0.5 + chance.random())
            ready = [job for job in jobs if job.committed() > job.began_at]
            if kills < KILLS and ready:
                job = chance.choice(ready)
                time.sleep(chance.random())
                job.kill()
                job.start()
                kills, moved = kills + 1, time.monotonic()
        (tmp_path / DONE).touch()
        for job in jobs:
            assert job.process is not None
            assert job.process.wait(SECONDS_MAX) == 0, (tmp_path / f"{job.name}.log").read_text()[-4000:]
        for job, name in zip(jobs, TABLES, strict=False):  # those behind a job that ended later have more to read
            command = [sys.executable, "-m", "tests.support.jobs.field_job", str(tmp_path), job.name, name]
            subprocess.run([*command, TABLES[job.number + 1]], check=True, timeout=SECONDS_MAX, capture_output=True)
    named = {name: check_table(catalog.load_table(name), source) for source, name in pairwise(TABLES)}
    assert all(catalog.load_table(name).to_arrow().num_rows == written for name in TABLES)
    known = known_fields(catalog)
    feed(catalog)
    assert known_fields(catalog) == known
    for run in known.runs:
        batches = named[f"db.{run.sink.name}"][run.checksum]
        assert {run.first_batch, run.last_batch} <= batches
    print(f"{kills} kills, {written} writes, {len(known.runs)} runs")
