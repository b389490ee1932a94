"""Streaming writes with real Spark and a real broker: each batch once, log and files equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.snapshot import CommitKind
from lakelog.spark import write_stream
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


def test_a_stream_of_a_table_with_a_log_lacks_columns_and_brings_new_ones(
    spark: SparkSession, tmp_path: Path, catalog: Catalog
) -> None:
    table = create(catalog)
    folder = tmp_path / "in"
    folder.mkdir()
    for number, line in enumerate(('{"ID": 1, "extra": 7}', '{"ID": 2, "extra": 8}')):
        (folder / f"{number}.json").write_text(line)
        ddl = "ID BIGINT, extra INT" if number else "ID BIGINT"
        rows = spark.readStream.schema(ddl).json(str(folder))
        query = write_stream(
            rows, table, checkpoint_location=tmp_path / "ck", available_now=True, merge_schema=bool(number)
        )
        query.awaitTermination()
    added = catalog.table("db.t")
    assert added.schema.field_names == (*TABLE_SCHEMA.names, "extra")
    nulls = dict.fromkeys(TABLE_SCHEMA.names)
    found = added.to_arrow().sort_by("id").to_pylist()
    assert found == [{**nulls, "id": 1, "extra": None}, {**nulls, "id": 2, "extra": 8}]
    check_log_equals_files(added)
