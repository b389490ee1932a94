"""Another engine keeps a table with a log in order: what it cannot know of the log is an error with a way out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from tests.support.logs.local_writer import LocalWriter
from tests.support.tables.foreign_engine import foreign_snapshot
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration


@dataclass
class Job:
    """A stream whose batch n has the rows n and n + 1."""

    table: Table

    def run(self, batch: int) -> None:
        rows = pa.table([pa.array([batch, batch + 1]), pa.array([batch] * 2, pa.int32())], schema=SCHEMA)
        LocalWriter(self.table, "job").write(batch, rows, pa.array([0, 0], pa.int8()))

    def content(self) -> dict[int, int]:
        rows = self.table.to_arrow()
        assert len(set(rows["id"].to_pylist())) == rows.num_rows
        return dict(zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True))


@pytest.fixture
def job(tmp_path: Path, bootstrap_servers: str) -> Job:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "upsert"}
    return Job(catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options))


def test_a_rollback_by_another_engine_is_an_error_and_a_new_identity_goes_on(job: Job) -> None:
    for batch in range(4):
        job.run(batch)
    for snapshot_id in (3, 4):  # as Paimon's rollback does, which deletes the hint's snapshot too
        Path(job.table.store.paths.snapshot(snapshot_id)).unlink()
    job.table.store.snapshots.write_latest_hint(2)
    rolled_back = Job(open_table(job.table.path))
    with pytest.raises(CorruptDataError, match=r"rolled back by other means than lakelog.* table new-identity PATH"):
        rolled_back.run(4)
    rolled_back.table.upkeep.new_identity()
    renewed = Job(open_table(job.table.path))
    assert renewed.content() == {0: 0, 1: 1, 2: 1}
    renewed.run(4)
    assert renewed.content() == {0: 0, 1: 1, 2: 1, 4: 4, 5: 4}


def test_a_stream_goes_on_behind_an_empty_commit_of_another_engine_and_not_behind_its_rows(job: Job) -> None:
    job.run(0)
    foreign_snapshot(job.table.store, CommitKind.APPEND)
    job.run(1)
    assert job.content() == {0: 0, 1: 1, 2: 1}
    foreign_snapshot(job.table.store, CommitKind.APPEND, index_manifest="index-manifest-1")
    with pytest.raises(UnsupportedError, match="not by lakelog: its rows are not in the log"):
        job.run(2)
