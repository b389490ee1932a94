"""Streaming writes with real Spark and a real broker: each batch once, log and files equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.snapshot import CommitKind
from tests.support.changes import TABLE_SCHEMA, make_history
from tests.support.promises import check_log_equals_files, snapshot_rows
from tests.support.streams import feed, write_changes

pytestmark = pytest.mark.integration


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)


def create(catalog: Catalog, *, log: bool = True, buckets: int = 3, options: dict[str, str] | None = None) -> Table:
    logged = {"log.system": "kafka", "log.changelog-mode": "all"} if log else {}
    given = {"bucket": str(buckets)} | logged | (options or {})
    return catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=given)


@pytest.mark.parametrize("log", [True, False], ids=["logged", "without log"])
def test_every_batch_is_one_snapshot_and_a_restart_goes_on(
    log: bool, spark: SparkSession, tmp_path: Path, catalog: Catalog
) -> None:
    history = make_history(5, files=5, changes_per_file=200, keys=80)
    table = create(catalog, log=log, options={"num-sorted-run.compaction-trigger": "3"})
    feed(tmp_path, history, range(3))
    user = write_changes(spark, tmp_path, table)
    feed(tmp_path, history, range(3, 5))
    assert write_changes(spark, tmp_path, table) == user

    appends = [one for one in table.snapshots() if one.commit_kind is CommitKind.APPEND]
    assert [(one.commit_user, one.commit_identifier) for one in appends] == [(user, at) for at in range(5)]
    assert [snapshot_rows(table, one.id) for one in appends] == list(history.truths)
    assert any(one.commit_kind is CommitKind.COMPACT for one in table.snapshots())
    if log:
        check_log_equals_files(table)
