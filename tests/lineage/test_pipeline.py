"""The pipeline of the proposal, without Spark: tables 1 to 4 into 5 and into 6 by two jobs, their join by a third.

The jobs go at different speeds, die and start again, and snapshots expire. At every moment the consistent snapshots of
5, 6 and 7 name versions of 1 to 4 from which the same rows are made again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog
from lakelog.common.errors import NotFoundError
from lakelog.lineage import feed
from lakelog.lineage.answers.consistent import consistent_snapshots
from lakelog.streams.phases import stream_head
from tests.support.lineage.pipeline import (
    SOURCE,
    SOURCES,
    amounts_at,
    expected,
    make_tables,
    rows_at,
    to_five,
    to_seven,
    to_six,
)
from tests.support.streams.planned_jobs import Death, PlannedJob, Transform

OPTIONS = {"bucket": "1", "write-only": "true", "snapshot.num-retained.min": "1"}
DERIVED = ("db.t5", "db.t6", "db.t7")


JOBS: tuple[tuple[str, Sequence[str], str, Transform], ...] = (
    ("one", SOURCES, "db.t5", to_five),
    ("two", SOURCES, "db.t6", to_six),
    ("three", DERIVED[:2], "db.t7", to_seven),
)


def group(folder: Path, job: str, tables: Sequence[str]) -> dict[str, str]:
    """The options of streams that move together."""
    return {
        "stream.align": "snapshot",
        "stream.align.group": "streams",
        "stream.align.tables": ",".join(tables),
        "stream.align.folder": str(folder / job),
    }


@pytest.fixture(autouse=True)
def _fresh_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)


class Pipeline:
    """The tables, the jobs, and what the sources had at each of their snapshots."""

    def __init__(self, folder: Path, seed: int, *, is_aligned: bool) -> None:
        self.chance = random.Random(seed)
        self.catalog = Catalog(folder / "lake", options={"data-lineage": "true"})
        self.tables = make_tables(self.catalog, OPTIONS)
        self.checked: set[tuple[int, ...]] = set()
        self.had: dict[tuple[str, int], dict[int, Decimal]] = {}
        self.jobs = [
            PlannedJob(
                self.catalog, name, sources, sink, transform, options=group(folder, name, sources) if is_aligned else {}
            )
            for name, sources, sink, transform in JOBS
        ]

    def grow(self) -> None:
        """One of the sources gets new rows, and new amounts of old ones."""
        number = self.chance.randrange(4)
        name, ids = SOURCES[number], [number * 1_000 + self.chance.randrange(12) for _ in range(3)]
        rows = {one: Decimal(self.chance.randrange(1 << 40)).scaleb(-4) for one in ids}
        table = self.tables[name]
        table.write(pa.table({"id": list(rows), "amount": list(rows.values())}, schema=SOURCE))
        self.note(name)

    def note(self, name: str) -> None:
        """Keep what a source has at its newest snapshot: a version may be named by that of a compaction."""
        newest = self.tables[name].store.snapshots.latest_id()
        if newest is not None:
            self.had[name, newest] = amounts_at(self.tables[name], newest)

    def step(self) -> None:
        """Something happens; the jobs go at different speeds."""
        match self.chance.choices(("grow", "one", "two", "three", "upkeep"), (5, 6, 3, 6, 1))[0]:
            case "grow":
                self.grow()
            case "upkeep":
                name = self.chance.choice(sorted(self.tables))
                table = self.tables[name]
                table.compact(full=True)
                if name in SOURCES:
                    self.note(name)
                feed(self.catalog)  # what was read stays known when its snapshots expire
                table.upkeep.expire_snapshots(retain_max=3, retain_min=1, older_than="1 ms")
            case name:
                job = next(job for job in self.jobs if job.name == name)
                job.step(self.chance.choice([None] * 6 + list(Death)))

    def drain(self) -> Iterator[None]:
        """Let the jobs read everything, round by round."""
        while sum(job.step() for job in self.jobs):
            yield

    def check(self) -> None:
        """What consistent snapshots of the derived tables have is what the sources make at the versions they name."""
        try:
            found = consistent_snapshots(self.catalog, DERIVED)
        except NotFoundError:
            assert not self.checked, "tables that had consistent snapshots have some for ever"
            return
        if tuple(found.values()) not in self.checked:
            self.checked.add(tuple(found.values()))
            again = expected({name: self.had[name, at.snapshot_id] for name, at in found.versions.items()})
            for name in DERIVED:
                assert rows_at(self.tables[name], found[name]) == again[name], name

    def is_joined(self) -> bool:
        """Whether the newest snapshot of table 7 is the join of those of 5 and 6."""
        found = {name: self.tables[name].store.snapshots.latest_id() for name in DERIVED}
        left, right, joined = (rows_at(self.tables[name], number) if number else {} for name, number in found.items())
        return joined == {one: (*left[one], *right[one]) for one in left.keys() & right.keys()}


@pytest.mark.parametrize(
    ("seed", "steps"), [(0, 45), *(pytest.param(one, 120, marks=pytest.mark.full) for one in range(30))]
)
def test_consistent_snapshots_are_made_again_from_the_versions_that_they_name(
    seed: int, steps: int, tmp_path: Path
) -> None:
    pipeline = Pipeline(tmp_path, seed, is_aligned=True)
    for _ in range(steps):
        pipeline.step()
        pipeline.check()
    for _ in pipeline.drain():
        pipeline.check()

    last = consistent_snapshots(pipeline.catalog, DERIVED)
    assert not last.reasons  # with nothing left to read, the newest snapshots go together
    assert len(pipeline.checked) > steps // 20


def test_without_alignment_the_newest_snapshots_do_not_go_together(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, 0, is_aligned=False)
    found = []
    for _ in range(60):
        pipeline.step()
        found.append(pipeline.is_joined())

    assert not all(found)
