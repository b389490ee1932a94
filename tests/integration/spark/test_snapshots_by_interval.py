"""Streams whose batches are in the log alone until one snapshot takes all of them in: real Spark, a real broker."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError, OptionError
from lakelog.filestore.alter import SetOption
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.protocol.writing import logged_batches
from lakelog.spark import LakelogSink, write_stream
from lakelog.spark.sink import batch_run
from tests.support.logs.changes import TABLE_SCHEMA, ChangeHistory, make_history
from tests.support.logs.promises import check_log_equals_files, read_headers, snapshot_rows
from tests.support.streams.streams import changes_in, feed

pytestmark = pytest.mark.integration

NEVER = "10 min"  # while a test runs
LOG = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all"}
HISTORY = make_history(31, files=6, changes_per_file=60, keys=40)


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    return catalog.create_table(
        "db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=LOG | {"snapshot.interval": NEVER}
    )


class Listener:
    """Which batches it has heard of, with their snapshots."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int]] = []

    def notify_commit_complete(self, identifier: int, snapshot_id: int, _kind: str) -> None:
        self.batches.append((identifier, snapshot_id))


def batches_in(table: Table) -> list[dict[str, object]]:
    """The batches whose sources the first snapshot names."""
    snapshot, *_ = table.snapshots()
    found = json.loads(snapshot.properties["lakelog.lineage"])["batches"]
    assert isinstance(found, list)
    return found


def appends(table: Table) -> list[tuple[int, int]]:
    """The number and the last batch of each APPEND snapshot."""
    return [(one.id, one.commit_identifier) for one in table.snapshots() if one.commit_kind is CommitKind.APPEND]


def stream(
    spark: SparkSession,
    folder: Path,
    table: Table,
    *,
    interval: str | None = None,
    listeners: Sequence[Listener] = (),
) -> str:
    """Write what is in the source, a file a batch, to the end of the query."""
    query = write_stream(
        changes_in(spark, folder),
        table,
        checkpoint_location=folder / "job",
        available_now=True,
        snapshot_interval=interval,
        listeners=listeners,
    )
    query.awaitTermination()
    return str(query.id)


def in_own_function(spark: SparkSession, folder: Path, write: Callable[[DataFrame, int], None]) -> None:
    """Write what is in the source by a function of the user's own, to the end of the query."""
    query = (
        changes_in(spark, folder)
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "job"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def killed(
    spark: SparkSession,
    folder: Path,
    table: Table,
    history: ChangeHistory,
    files: range,
    *,
    listeners: Sequence[Listener] = (),
) -> None:
    """A run that ends without its snapshot, as where its driver was killed."""
    feed(folder, history, files)
    sink = LakelogSink(table, listeners=listeners)
    in_own_function(spark, folder, sink)
    by_interval = sink._state.by_interval
    assert by_interval is not None
    by_interval.abandon()


def test_one_snapshot_at_the_end_of_a_query_takes_in_its_batches(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    listener = Listener()
    feed(tmp_path, HISTORY, range(3))
    query = write_stream(
        changes_in(spark, tmp_path),
        table,
        checkpoint_location=tmp_path / "job",
        available_now=True,
        listeners=[listener],
    )
    query.awaitTermination()

    assert appends(table) == [(1, 2)]
    assert listener.batches == [(0, 1), (1, 1), (2, 1)]
    progress = [one.observedMetrics["lakelog:db.t"] for one in query.recentProgress if one.numInputRows]
    assert [(one.outcome, one.snapshot_id, one.rows) for one in progress] == [
        ("logged", None, len(file)) for file in HISTORY.files[:3]
    ]
    assert snapshot_rows(table) == HISTORY.truths[2]
    check_log_equals_files(table)
    batches = batches_in(table)
    assert sorted(int(str(one["identifier"])) for one in batches) == [0, 1, 2]
    assert all(one["sources"] for one in batches)


def test_a_snapshot_comes_by_time_and_by_what_waits(spark: SparkSession, tmp_path: Path, catalog: Catalog) -> None:
    options = LOG | {"snapshot.interval": NEVER, "snapshot.pending.max-batches": "2"}
    bounded = catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=options)
    feed(tmp_path, HISTORY, range(5))
    stream(spark, tmp_path, bounded)
    assert [last for _, last in appends(bounded)] == [1, 3, 4]
    assert [snapshot_rows(bounded, at) for at, _ in appends(bounded)] == [HISTORY.truths[at] for at in (1, 3, 4)]

    feed(tmp_path, HISTORY, range(5, 6))
    query = write_stream(
        changes_in(spark, tmp_path), bounded, checkpoint_location=tmp_path / "job", snapshot_interval="200 ms"
    )
    try:
        query.processAllAvailable()
        deadline = 100
        while len(appends(bounded)) < 4 and deadline:
            query.awaitTermination(timeout=0.1)  # type: ignore[arg-type]  # Spark takes parts of a second
            deadline -= 1
        assert [last for _, last in appends(bounded)] == [1, 3, 4, 5], "a quiet stream has got its snapshot"
    finally:
        query.stop()
    check_log_equals_files(bounded)


def test_a_run_takes_in_what_the_one_before_left_in_the_log(
    spark: SparkSession, tmp_path: Path, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    killed(spark, tmp_path, table, HISTORY, range(3))
    assert appends(table) == []
    feed(tmp_path, HISTORY, range(3, 5))
    with caplog.at_level(logging.WARNING):
        user = stream(spark, tmp_path, table)

    assert [one for one in caplog.messages if "has no batch of query" in one] == []
    assert appends(table) == [(1, 4)]
    assert snapshot_rows(table) == HISTORY.truths[4]
    check_log_equals_files(table)
    batches = batches_in(table)
    assert sorted(int(str(one["identifier"])) for one in batches if one["user"] == user) == [0, 1, 2, 3, 4]


def test_a_run_with_a_snapshot_a_batch_takes_in_what_one_by_interval_left(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    killed(spark, tmp_path, table, HISTORY, range(2))
    feed(tmp_path, HISTORY, range(2, 4))
    stream(spark, tmp_path, table, interval="0 s")

    assert [last for _, last in appends(table)] == [2, 3]
    assert [snapshot_rows(table, at) for at, _ in appends(table)] == [HISTORY.truths[2], HISTORY.truths[3]]
    check_log_equals_files(table)


def test_a_statement_between_two_batches_takes_in_what_waits(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    feed(tmp_path, HISTORY, range(2))
    query = write_stream(changes_in(spark, tmp_path), table, checkpoint_location=tmp_path / "job")
    try:
        query.processAllAvailable()
        assert appends(table) == []
        row = dict.fromkeys(TABLE_SCHEMA.names) | {"id": 1_000_000}
        table.write(pa.Table.from_pylist([row], schema=TABLE_SCHEMA))
        assert len(appends(table)) == 2  # what waits is taken in first, so that a condition would see it
        feed(tmp_path, HISTORY, range(2, 4))
        query.processAllAvailable()
    finally:
        query.stop()

    check_log_equals_files(table)
    added = snapshot_rows(table) - HISTORY.truths[3]
    assert len(added) == 1
    assert HISTORY.truths[3] <= snapshot_rows(table)
    logged = [(head.identifier, bucket) for bucket, head in read_headers(table) if head.statement is None]
    assert len(logged) == len(set(logged))


def test_a_sink_in_a_function_of_ones_own_is_closed_by_it(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    feed(tmp_path, HISTORY, range(2))
    sink = LakelogSink(table)

    def write(batch: DataFrame, batch_id: int) -> None:
        sink(batch, batch_id)

    in_own_function(spark, tmp_path, write)
    assert appends(table) == []
    sink.close()
    assert appends(table) == [(1, 1)]
    assert snapshot_rows(table) == HISTORY.truths[1]


def test_what_another_writers_snapshot_lacks_is_in_one_of_its_own_at_the_end(
    spark: SparkSession, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener()
    one, other = LakelogSink(table, listeners=[listener]), LakelogSink(table)
    for folder, sink, files in (("one", one, range(1)), ("other", other, range(1)), ("one", one, range(1, 2))):
        feed(tmp_path / folder, HISTORY, files)
        in_own_function(spark, tmp_path / folder, sink)
    with monkeypatch.context() as away:
        away.setattr(logged_batches, "_read_on", lambda *_given: None)  # Kafka does not answer at that moment
        other.close()
    assert [last for _, last in appends(table)] == [0]

    one.close()

    _, (second, _) = appends(table)
    assert listener.batches == [(0, second), (1, second)]
    check_log_equals_files(table)
    table.log_store.settle()
    assert len(appends(table)) == 2, "nothing was left"


@pytest.mark.parametrize(
    "interval", [None, pytest.param("0 s", marks=pytest.mark.full)], ids=["by interval", "a snapshot a batch"]
)
def test_listeners_hear_of_what_another_writer_has_taken_in_after_a_kill(
    spark: SparkSession, tmp_path: Path, table: Table, interval: str | None
) -> None:
    listener = Listener()
    killed(spark, tmp_path, table, HISTORY, range(2), listeners=[listener])
    assert listener.batches == []
    table.log_store.settle()

    feed(tmp_path, HISTORY, range(2, 4))
    stream(spark, tmp_path, table, interval=interval, listeners=[listener])

    settled, second, *last = [number for number, _ in appends(table)]
    assert listener.batches == [(0, settled), (1, settled), (2, second), (3, *(last or [second]))]
    feed(tmp_path, HISTORY, range(4, 5))
    stream(spark, tmp_path, table, interval=interval, listeners=[listener])
    assert listener.batches[4:] == [(4, appends(table)[-1][0])], "each batch once where no process died"


def test_listeners_hear_of_a_snapshot_behind_which_the_driver_was_killed(
    spark: SparkSession, tmp_path: Path, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener()
    feed(tmp_path, HISTORY, range(2))
    with monkeypatch.context() as dead:
        dead.setattr(batch_run, "report_taken", lambda *_given: None)
        stream(spark, tmp_path, table, listeners=[listener])
    assert appends(table) == [(1, 1)]
    assert listener.batches == []

    feed(tmp_path, HISTORY, range(2, 3))
    stream(spark, tmp_path, table, listeners=[listener])

    assert listener.batches == [(0, 1), (1, 1), (2, appends(table)[-1][0])]


def test_batches_without_rows_wait_for_the_snapshot_of_the_interval_too(
    spark: SparkSession, tmp_path: Path, catalog: Catalog, table: Table
) -> None:
    source = catalog.create_table("db.source", schema=TABLE_SCHEMA, options={"bucket": "1", "bucket-key": "id"})
    rows = spark.readStream.format("lakelog").load(source.path).where("id > 10")
    query = write_stream(rows, table, checkpoint_location=tmp_path / "job")
    for ids in ([1, 2], [11], [3], [4]):
        given = [dict.fromkeys(TABLE_SCHEMA.names) | {"id": one} for one in ids]
        source.write(pa.Table.from_pylist(given, schema=TABLE_SCHEMA))
        query.processAllAvailable()
    assert appends(table) == []
    query.stop()

    assert len(appends(table)) == 1
    assert [row["id"] for row in table.to_arrow().to_pylist()] == [11]
    ends = [one["to"]["snapshot"] for batch in batches_in(table) for one in batch["sources"]]  # type: ignore[attr-defined]
    assert sorted(ends)[-4:] == [1, 2, 3, 4]


def test_what_has_no_transactions_is_refused_by_name(catalog: Catalog) -> None:
    plain = catalog.create_table("db.plain", schema=TABLE_SCHEMA, primary_keys=["id"])
    with pytest.raises(InvalidRequestError, match=r"snapshot_interval='5 s' .* table db.plain has no log"):
        LakelogSink(plain, snapshot_interval="5 s")
    eventual = LOG | {"log.changelog-mode": "upsert", "log.consistency": "eventual"}
    with pytest.raises(InvalidRequestError, match=r"'snapshot.interval' is for transactional logs"):
        catalog.create_table(
            "db.e", schema=TABLE_SCHEMA, primary_keys=["id"], options=eventual | {"snapshot.interval": "5 s"}
        )
    with pytest.raises(InvalidRequestError, match=r"'snapshot.interval' .* has no log"):
        catalog.create_table("db.n", schema=TABLE_SCHEMA, primary_keys=["id"], options={"snapshot.interval": "5 s"})
    with pytest.raises(InvalidRequestError, match=r"'snapshot.interval' .* has no log"):
        plain.alter(SetOption("snapshot.interval", "5 s"))
    logged = catalog.create_table("db.l", schema=TABLE_SCHEMA, primary_keys=["id"], options=LOG)
    logged.alter(SetOption("snapshot.interval", "5 s"))
    with pytest.raises(OptionError, match="10 min at most"):
        LakelogSink(logged, snapshot_interval="11 min")
    logged.log_store.remove(force=True)
    assert "snapshot.interval" not in catalog.load_table("db.l").schema.options


def test_a_snapshot_of_many_batches_is_compacted_as_one_for_each(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    """What is due depends on the files of one batch: six small files in a bucket are more than the trigger."""
    feed(tmp_path / "source", HISTORY, range(6))
    query = write_stream(changes_in(spark, tmp_path / "source"), table, checkpoint_location=tmp_path / "job")
    query.processAllAvailable()
    query.stop()
    assert [one.commit_kind for one in table.snapshots()] == [CommitKind.APPEND, CommitKind.COMPACT]
    live = table.store.live_files.of(table.store.snapshots.latest())
    assert all(len(live.files(bucket)) < 6 for bucket in live.buckets)
    check_log_equals_files(table)
