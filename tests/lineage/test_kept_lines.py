"""Lines that are kept between questions: they are what a new reading gives, and only what is new is read."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.record import LineKey
from lakelog.filestore.metadata.tables.identity import identity_of
from lakelog.lineage import feed
from lakelog.lineage.answers.advancing import ConsistentAdvance
from lakelog.lineage.lines.cached_lines import CachedLines
from lakelog.lineage.lines.line_graph import FoundLines, load_lines
from lakelog.lineage.lines.lines import Step
from tests.support.files.counting_file_io import CountingFileIO
from tests.support.lineage.lineage_jobs import StreamJob
from tests.support.lineage.lineage_records import LINEAGE_ON

SCHEMA = pa.schema({"id": pa.int64()})
Lines = dict[LineKey, tuple[Step, ...]]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


def make(catalog: Catalog, name: str) -> Table:
    return catalog.create_table(f"db.{name}", schema=SCHEMA, options={"bucket": "1", "write-only": "true"})


def grow(table: Table, times: int = 1) -> None:
    for number in range(times):
        table.write(pa.table({"id": pa.array([number], pa.int64())}))


class Pipeline:
    """Two tables that two jobs make from one source; the lines above them, kept and read anew."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.source = make(catalog, "s")
        self.sinks = [make(catalog, name) for name in ("a", "b")]
        self.jobs = [StreamJob(sink, [self.source], user=sink.name) for sink in self.sinks]
        self.kept = CachedLines([catalog])

    def step(self) -> None:
        grow(self.source)
        for job in self.jobs:
            job.run()

    def lines(self, found: FoundLines | None = None) -> Lines:
        graph = load_lines([sink.store for sink in self.sinks], found or self.kept)
        return {key: tuple(line.steps) for key, line in graph.lines.items()}

    def read_anew(self) -> Lines:
        return self.lines(FoundLines([self.catalog]))


def test_a_second_decision_reads_the_newest_snapshot_again_and_what_is_new(catalog: Catalog) -> None:
    pipeline, files = Pipeline(catalog), CountingFileIO()
    for _ in range(5):
        pipeline.step()
    catalog._file_io = files
    tables = {identity_of(sink.store): replace(sink.store, file_io=files) for sink in pipeline.sinks}
    advance = ConsistentAdvance(catalog)

    def decide(behind: object) -> tuple[object, list[str]]:
        files.whole_reads.clear()
        heads = {key: table.snapshots.latest_id() or 0 for key, table in tables.items()}
        found = advance(tables, behind, heads, steps=1)  # type: ignore[arg-type]  # what it gave
        return found, [path for path in files.whole_reads if re.search(r"/(snapshot-\d+|schema-\d+|manifest.*)$", path)]

    first, read_first = decide(None)
    pipeline.step()
    second, read_second = decide(first)
    third, read_third = decide(second)

    assert len([path for path in read_first if "/snapshot-" in path]) >= 15
    expected = [f"{table.path}/snapshot/snapshot-{n}" for table in (pipeline.source, *pipeline.sinks) for n in (5, 6)]
    assert sorted(read_second) == sorted(expected)
    assert second is not None
    assert third is None
    assert sorted(read_third) == sorted(path for path in expected if path.endswith("6"))


def test_the_line_of_a_branch_that_its_table_has_taken_is_what_a_new_reading_gives(catalog: Catalog) -> None:
    pipeline = Pipeline(catalog)
    table = pipeline.sinks[0]
    grow(table)
    table.branches.create("trial")
    branch = pipeline.sinks[0] = table.branch("trial")
    grow(branch, 2)
    assert pipeline.lines() == pipeline.read_anew()
    table.branches.fast_forward("trial")
    grow(branch)

    assert pipeline.lines() == pipeline.read_anew()


def roll_back(pipeline: Pipeline) -> None:
    pipeline.sinks[0].upkeep.rollback(snapshot_id=2, force=True)


def roll_back_and_go_on(pipeline: Pipeline) -> None:
    pipeline.sinks[0].upkeep.rollback(snapshot_id=2, force=True)
    grow(pipeline.sinks[0], 3)


def rename(pipeline: Pipeline) -> None:
    pipeline.catalog.rename_table("db.s", "db.renamed")


def rename_twice(pipeline: Pipeline) -> None:
    rename(pipeline)
    assert pipeline.lines() == pipeline.read_anew()
    pipeline.catalog.rename_table("db.renamed", "db.again")


def make_again(pipeline: Pipeline) -> None:
    pipeline.catalog.drop_table("db.s")
    grow(make(pipeline.catalog, "s"), 5)


def expire(pipeline: Pipeline) -> None:
    for table in (pipeline.source, *pipeline.sinks):
        table.upkeep.expire_snapshots(retain_max=2, retain_min=2)


def expire_all_that_was_read(pipeline: Pipeline) -> None:
    for _ in range(3):
        pipeline.step()
    expire(pipeline)


def take_the_place(pipeline: Pipeline) -> None:
    sink = pipeline.sinks[0]
    sink.branches.create("b", snapshot_id=2)
    grow(sink.branch("b"), 2)
    sink.branches.replace_main("b", force=True)


CHANGES: list[Callable[[Pipeline], None]] = [
    roll_back, roll_back_and_go_on, rename, rename_twice, make_again, expire, expire_all_that_was_read, take_the_place
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_line_that_has_changed_is_what_a_new_reading_gives(
    catalog: Catalog, change: Callable[[Pipeline], None]
) -> None:
    pipeline = Pipeline(catalog)
    for _ in range(4):
        pipeline.step()
    assert pipeline.lines() == pipeline.read_anew()

    change(pipeline)

    assert pipeline.lines() == pipeline.read_anew()
    grow(pipeline.sinks[1])
    assert pipeline.lines() == pipeline.read_anew()


@pytest.mark.parametrize("seed", range(4))
def test_kept_lines_are_what_a_new_reading_gives_after_any_history(catalog: Catalog, seed: int) -> None:
    choose = random.Random(seed)
    pipeline = Pipeline(catalog)
    pipeline.step()
    for _ in range(12):
        table = choose.choice([pipeline.source, *pipeline.sinks])
        newest = table.store.snapshots.ids()
        match choose.choice(["step", "step", "grow", "compact", "roll back", "restore", "expire", "overwrite"]):
            case "step":
                pipeline.step()
            case "grow":
                grow(table, choose.choice([1, 3]))
            case "compact":
                table.compact(full=True)
            case "roll back" if table is not pipeline.source:
                table.upkeep.rollback(snapshot_id=choose.choice(newest), force=True)
            case "restore":
                table.restore(snapshot_id=choose.choice(newest))
            case "expire":
                table.upkeep.expire_snapshots(retain_max=2, retain_min=1)
            case "overwrite":
                table.write(pa.table({"id": [7]}, schema=SCHEMA), mode="overwrite")
        if choose.random() < 0.7:
            assert pipeline.lines() == pipeline.read_anew()


def test_what_expires_between_questions_stays_known_where_it_is_fed(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "lake", options=LINEAGE_ON)
    pipeline = Pipeline(catalog)
    for _ in range(4):
        pipeline.step()
    before = pipeline.lines()
    feed(catalog)
    expire(pipeline)

    for key, steps in pipeline.lines().items():
        assert [step.version for step in steps] == [step.version for step in before[key]]
        assert [step.is_living for step in steps] == [False, False, True, True]
        assert [step.batches for step in steps] == [step.batches for step in before[key]]
