"""Released Paimon opens the stored system tables of lineage, and joins them as the proposal does."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.catalog import Catalog
from lakelog.lineage import feed
from tests.support.lineage.lineage_records import LINEAGE_ON, commit_job, make_sink, table_source
from tests.support.servers.flink import running_flink

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(900)]


def test_flink_joins_sources_and_sinks_by_job_and_barrier(tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "lake", options=LINEAGE_ON)
    table = make_sink(catalog)
    for batch in range(3):
        commit_job(table, batch, table_source("db.a", end=batch + 9), job="job_name")
        feed(catalog)
    (tmp_path / "flink").mkdir()
    with running_flink(tmp_path / "flink", is_batch=True) as flink:
        flink.run(f"CREATE CATALOG lake WITH ('type' = 'paimon', 'warehouse' = 'file://{tmp_path}/lake')")
        flink.run("USE CATALOG lake")
        flink.run("USE lakelog_sys")
        found = flink.run(
            "SELECT k.snapshot_id FROM sink_snapshot_lineage k JOIN source_snapshot_lineage s "
            "ON s.job = k.job AND s.barrier_id = k.barrier_id WHERE s.job = 'job_name' AND s.snapshot_id = 10"
        )
        keys = {
            str(row[0]): str(row[3])
            for _kind, row in flink.run("DESCRIBE source_snapshot_lineage")
            if row[3] is not None
        }
        jobs = flink.run("SELECT job, `database`, `table` FROM source_job_lineage")

    assert [row[0] for _kind, row in found] == ["2"]
    assert keys.keys() == {"job", "barrier_id", "database", "table"}
    assert [tuple(map(str, row)) for _kind, row in jobs] == [("job_name", "db", "a")]
