"""What a batch was made from, where the process that commits it is killed before Spark records it as done."""

from __future__ import annotations

import json
import shutil
import signal
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.origins.record import TableSource
from lakelog.protocol.state.steps import Step
from tests.filestore.processes.zygote import Zygote, zygote
from tests.spark.sink.test_capture import lineages, make, pinned
from tests.support.jobs.lineage_job import write_all
from tests.support.jobs.stream_writing_process import QUERY
from tests.support.kills.crash import Victim
from tests.support.lineage.lineage_world import World

SINK = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("side", pa.int64())])
CHANGES_MAX = 64  # of files, by a write and its commit
CHANGES_MIN = 12


class Kills:
    """A batch that reads the first version of db.side, and the second one where it is run again.

    Each case is a warehouse of its own: one process is killed before a change of a file, and another runs the batch
    again, as Spark does while the checkpoint does not say that it is done.
    """

    def __init__(self, folder: Path, forks: Zygote) -> None:
        self._folder, self._forks = folder, forks
        self._catalog = Catalog(folder / "lake")
        self._source = make(self._catalog, "source", 1)
        self._side = make(self._catalog, "side", 1, 2)
        self._catalog.create_table("db.sink", schema=SINK)
        self._read = pinned(self._source, 1).end
        assert self._read is not None
        of_table = {"lakelog": 1, "table": self._source.store.uuid, "name": "db.source"}
        offset = {**of_table, "consumed": 1, "commit": self._read.commit, "rows": True}
        offsets = folder / "checkpoint" / "offsets" / "0"
        offsets.parent.mkdir(parents=True)
        offsets.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(offset)}')
        self.killed_at: set[int] = set()

    def version_after(self, dies_at: int) -> int:
        """The version that the rows were made from after a kill; what is recorded is checked."""
        of_case = Catalog(shutil.copytree(self._catalog.warehouse, self._folder / str(dies_at)))
        sink = of_case.load_table("db.sink")
        status = self._write(sink, 1, dies_at)
        assert status in (0, signal.SIGKILL)
        if status:
            self.killed_at.add(dies_at)
        assert self._write(sink, 2) == 0

        (row,) = sink.to_arrow().to_pylist()
        (found,) = lineages(sink)
        assert (found.query_id, found.batch_id) == (QUERY, 0)
        streamed, joined = found.sources
        assert isinstance(streamed, TableSource)
        assert (streamed.uuid, streamed.start, streamed.end) == (self._source.store.uuid, None, self._read)
        assert isinstance(joined, TableSource)
        version = int(row["side"])
        assert joined.end == pinned(self._side, version).end
        return version

    def _write(self, sink: Table, version: int, dies_at: int = 10 * CHANGES_MAX) -> int:
        return self._forks.wait(self._forks.fork(sink.path, self._folder / "checkpoint", version, dies_at))


@pytest.fixture
def kills(tmp_path: Path) -> Iterator[Kills]:
    with zygote("tests.support.jobs.stream_writing_process") as forks:
        yield Kills(tmp_path, forks)


def test_a_batch_that_is_killed_around_its_commit_is_recorded_once(
    kills: Kills,
) -> None:
    behind = 1 + bisect_left(range(1, CHANGES_MAX), True, key=lambda dies_at: kills.version_after(dies_at) == 1)

    assert {behind - 1, behind} <= kills.killed_at  # the last one before the commit, and the first one behind it


@pytest.mark.full
def test_a_batch_that_is_killed_anywhere_is_recorded_once(kills: Kills) -> None:
    versions = [kills.version_after(dies_at) for dies_at in range(1, CHANGES_MAX)]

    assert len(kills.killed_at) > CHANGES_MIN
    assert versions == sorted(versions, reverse=True)
    assert len(kills.killed_at) > versions.count(2)


@pytest.mark.full
def test_a_batch_whose_driver_is_killed_behind_its_snapshot_is_recorded_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = World.create(tmp_path, ["one"], {})
    world.write_source()
    world.write_side()
    killed = world.start("one", world.plan("one", Step.AFTER_SNAPSHOT, Victim.DRIVER, batch=0))
    assert killed.wait(120) == -signal.SIGKILL, world.tail_of_log("one")
    assert world.planned("one") == world.committed("one") + 1

    world.write_side()  # the replay reads another version
    world.write_source()
    write_all(spark, tmp_path, "one")

    recorded = world.recorded()
    assert recorded == world.truth()
    assert [recorded[batch] for batch in sorted(recorded)] == [(frozenset({one}), frozenset({one})) for one in (1, 2)]
