"""Streaming writes with real Spark and a real broker: each batch once, log and files equal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any  # Any: observed metrics are a Row

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

from lakelog.catalog import Catalog, Table
from lakelog.common.timestamps import utc_of
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.logstore.kafka.clients.offsets import high_watermarks
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.spark import progress_with_commits, write_stream
from tests.support.examples import rest_in_full
from tests.support.logs.changes import TABLE_SCHEMA, make_history
from tests.support.logs.promises import check_log_equals_files, snapshot_rows, snapshot_states
from tests.support.streams.streams import changes_in, feed, write_changes

pytestmark = pytest.mark.integration


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)


def create(catalog: Catalog, *, log: bool = True, buckets: int = 3, options: dict[str, str] | None = None) -> Table:
    logged = {"log.system": "kafka", "log.changelog-mode": "all"} if log else {}
    given = {"bucket": str(buckets)} | logged | (options or {})
    return catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=given)


@pytest.mark.parametrize("log", rest_in_full([True, False], 1), ids=["logged", "without log"])
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
    added = catalog.load_table("db.t")
    assert added.schema.field_names == (*TABLE_SCHEMA.names, "extra")
    nulls = dict.fromkeys(TABLE_SCHEMA.names)
    found = added.to_arrow().sort_by("id").to_pylist()
    assert found == [{**nulls, "id": 1, "extra": None}, {**nulls, "id": 2, "extra": 8}]
    check_log_equals_files(added)


class Watcher(StreamingQueryListener):
    """Keeps the progress of every trigger, with what its batch did to tables."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Queue[StreamingQueryProgress] = Queue()

    def onQueryStarted(self, event: object) -> None: ...

    def onQueryProgress(self, event: Any) -> None:
        self.seen.put(progress_with_commits(event.progress))

    def onQueryTerminated(self, event: object) -> None: ...

    def next(self, query_id: str, batch_id: int) -> Any:
        """What the batch of a query did to db.t; waits for it."""
        while True:
            progress = self.seen.get(timeout=60)
            if (str(progress.id), progress.batchId) == (query_id, batch_id):
                return progress.observedMetrics["lakelog:db.t"]


@contextmanager
def watching(spark: SparkSession) -> Iterator[Watcher]:
    watcher = Watcher()
    spark.streams.addListener(watcher)
    try:
        yield watcher
    finally:
        spark.streams.removeListener(watcher)


def test_progress_says_of_each_batch_and_of_a_replay_what_snapshot_and_log_hold(
    spark: SparkSession, tmp_path: Path, catalog: Catalog
) -> None:
    table = create(catalog, buckets=2)
    history = make_history(11, files=2, changes_per_file=50, keys=20)
    feed(tmp_path, history, range(2))
    with watching(spark) as watcher:
        query = write_stream(
            changes_in(spark, tmp_path), table, checkpoint_location=tmp_path / "job", available_now=True
        )
        query.awaitTermination()
        appends = [at for at in snapshot_states(table) if at[0].commit_kind is CommitKind.APPEND]
        assert len(appends) == 2
        for number, (snapshot, state) in enumerate(appends):
            progress = query.recentProgress[number]
            row = progress.observedMetrics["lakelog:db.t"]
            assert (progress.batchId, progress.sink.numOutputRows) == (number, len(history.files[number]))
            assert (row.outcome, row.rows, row.files) == ("committed", len(history.files[number]), 2)
            assert row.snapshot_id == snapshot.id
            assert row.commit_time == f"{utc_of(snapshot.time_millis, separator='T')}Z"
            assert row.log_offsets == {str(at): state.logged.position(at).offset for at in range(2)}
            assert watcher.next(query.id, number) == row
        assert query.lastProgress == query.recentProgress[1]
        assert table.log is not None
        for bucket, end in high_watermarks(kafka_topic(table.log), 2).items():
            assert row.log_offsets[str(bucket)] in (end.offset, end.offset - 1)  # the end mark of a transaction

        for name in ("1", ".1.crc"):  # so that Spark runs the batch again
            (tmp_path / "job" / "commits" / name).unlink()
        replay = write_stream(
            changes_in(spark, tmp_path), table, checkpoint_location=tmp_path / "job", available_now=True
        )
        replay.awaitTermination()
        assert replay.lastProgress is not None
        row = replay.lastProgress.observedMetrics["lakelog:db.t"]
        assert (row.outcome, row.rows, row.snapshot_id, row.log_offsets) == ("replayed", 0, None, {})
        assert replay.lastProgress.sink.numOutputRows == 0
        assert watcher.next(replay.id, 1) == row
    check_log_equals_files(table)
