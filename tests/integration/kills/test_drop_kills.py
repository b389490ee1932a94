"""The drop of a table with logs that is killed between its topics, its files and its lineage."""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog
from lakelog.catalog.refs.branching import logs_of_lines
from lakelog.lineage import feed, known_edges, made_from
from lakelog.protocol.access.table_log import kafka_topic
from tests.filestore.processes.zygote import zygote
from tests.support.jobs.dropping_process import AFTER_TOPIC
from tests.support.lineage.lineage_records import LINEAGE_ON, make_sink, system_rows
from tests.support.logs.log_records import await_deleted

pytestmark = [pytest.mark.integration, pytest.mark.full]

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
BEFORE_FILES = "1"
AT_FILES = "30"


@pytest.mark.parametrize("dies_at", [AFTER_TOPIC, BEFORE_FILES, AT_FILES])
def test_a_killed_drop_of_a_table_with_logs_is_finished(tmp_path: Path, bootstrap_servers: str, dies_at: str) -> None:
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers, options=LINEAGE_ON)
    make_sink(catalog, "db.a").write(pa.table({"id": [1]}))
    options = {"log.system": "kafka", "bucket": "1"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    made_from(table, "db.a@1", job="nightly").write(pa.table({"id": [1]}, schema=SCHEMA))
    table.branches.create("dev")
    table.branch("dev").log_store.add()
    feed(catalog)
    assert system_rows(catalog, "sink_job_lineage", "job", "table") == [("nightly", "t")]
    topics = [kafka_topic(log) for _, log in logs_of_lines(table)]
    assert len(topics) == 2

    with zygote("tests.support.jobs.dropping_process") as forks:
        status = forks.wait(forks.fork(catalog.warehouse, "db.t", dies_at))
    assert status == signal.SIGKILL
    if "t" in catalog.list_tables("db"):  # it is there whole, but for topics
        feed(catalog)
        assert known_edges(catalog)["sink_table"].to_pylist() == ["db.t"]
    catalog.drop_table("db.t", if_exists=True)

    for topic in topics:
        await_deleted(topic)
    assert catalog.list_tables("db") == ["a"]
    assert known_edges(catalog).num_rows == 0
    for name in ("sink_job_lineage", "source_job_lineage", "sink_snapshot_lineage", "source_snapshot_lineage"):
        assert [row for row in system_rows(catalog, name, "table") if row == ("t",)] == []
