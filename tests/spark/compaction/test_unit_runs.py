"""Compaction beside a stream on a cluster: Spark's tasks merge, and what Spark cannot do is left to the next batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lakelog.common.errors import UnavailableError
from lakelog.filestore.metadata.manifests.levels import runs_of
from lakelog.filestore.table import FileStoreTable
from lakelog.protocol.state.state import Batch
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots
from lakelog.spark.compaction import compaction, unit_runs
from lakelog.spark.compaction.compaction import BackgroundCompaction
from lakelog.spark.session import is_on_cluster
from tests.support.tables.small_tables import commit_batch, content, content_after, make_table, prepare_batch

TRIGGERS = {"num-sorted-run.compaction-trigger": "3", "num-sorted-run.settling-trigger": "8"}


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FileStoreTable:
    """A table whose buckets this process does not merge, since its sessions count as those of a cluster."""

    def refuse(*_: object) -> None:
        raise AssertionError("the driver merges")

    monkeypatch.setattr(compaction, "is_on_cluster", lambda _: True)
    monkeypatch.setattr(compaction, "compact_in_threads", refuse)
    return make_table(tmp_path, options=TRIGGERS)


def write(beside: BackgroundCompaction, number: int, spark: SparkSession, *, is_settled_later: bool) -> None:
    table = beside.snapshots.table
    assert isinstance(table, FileStoreTable)
    files = Counter(entry.bucket_id for entry in prepare_batch(table, number))
    live = table.live_files.of(commit_batch(table, number))
    batch = Batch(user="job", identifier=number, source_digest=None)
    beside.after_batch(batch, files, live, is_settled_later=is_settled_later, spark=spark)
    beside.wait()


def run_counts(table: FileStoreTable) -> list[int]:
    live = table.live_files.of(table.snapshots.latest())
    return [len(runs_of(live.files(bucket), table.key_types)) for bucket in sorted(live.buckets)]


def test_a_session_of_one_process_is_no_cluster(spark: SparkSession) -> None:
    assert not is_on_cluster(spark)


def test_tasks_merge_beside_a_stream_and_at_its_end(spark: SparkSession, table: FileStoreTable) -> None:
    beside = BackgroundCompaction(DriverSnapshots(table, None))
    for number in range(4):
        write(beside, number, spark, is_settled_later=False)
        assert max(run_counts(table)) <= 3
    for number in range(4, 7):
        write(beside, number, spark, is_settled_later=True)
    beside.settle()
    assert run_counts(table) == [1, 1]
    assert content(table) == content_after(7)


def test_a_bucket_whose_task_fails_leaves_the_others_merged(spark: SparkSession, table: FileStoreTable) -> None:
    beside = BackgroundCompaction(DriverSnapshots(table, None))
    for number in range(5):
        write(beside, number, spark, is_settled_later=True)
    live = table.live_files.of(table.snapshots.latest())
    lost = sorted(live.buckets)[0]
    path = Path(table.data_path(lost, live.files(lost)[0]))
    kept = path.read_bytes()
    path.unlink()
    beside.settle()
    path.write_bytes(kept)
    assert run_counts(table) == [5, 1]
    assert content(table) == content_after(5)


def test_a_job_that_spark_cannot_run_leaves_the_files_to_the_next_batch(
    spark: SparkSession, table: FileStoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = BackgroundCompaction(DriverSnapshots(table, None))

    def lose(*_: object) -> None:
        raise Py4JError("Job aborted: ExecutorLostFailure")

    with monkeypatch.context() as failing:
        failing.setattr(SparkSession, "range", lose)
        for number in range(3):
            write(beside, number, spark, is_settled_later=False)
        with pytest.raises(UnavailableError, match="Spark could not run a compaction: Job aborted"):
            unit_runs.compact_in_tasks(spark, table, [])
    assert run_counts(table) == [3, 3]
    write(beside, 3, spark, is_settled_later=False)
    assert max(run_counts(table)) <= 3
    assert content(table) == content_after(4)
