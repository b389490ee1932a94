"""Streams of Spark that read or write a table with a log while it is restored, and while a branch is merged into it."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.catalog import Table, open_table
from lakelog.common.errors import ConflictError
from lakelog.protocol.stores.table_states import newest_state
from lakelog.spark import write_stream
from lakelog.streams.phases import stream_head
from tests.support.kills.reading_process import run_job, tail_of_log
from tests.support.logs.line_changes import LINE_CHANGES, LineChange, filled_table, rows_in
from tests.support.logs.log_records import await_committed, log_of_table, lose_records
from tests.support.logs.promises import fold_read_batches
from tests.support.streams.planned_reader import Reader, write
from tests.support.streams.streams import keep_batch

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]
STARTS_AGAIN = "Start it again: it continues with its checkpoint"


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    return filled_table(tmp_path, bootstrap_servers)


@pytest.fixture(params=LINE_CHANGES)
def change(request: pytest.FixtureRequest) -> LineChange:
    return LINE_CHANGES[request.param]


def signed(reader: Reader) -> dict[tuple[int, int], int]:
    return {row: count for row, count in reader.rows.items() if count}


# Without Spark's processes.


def test_a_planned_stream_is_fed_with_the_changes_once(
    table: Table, change: LineChange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)
    reader = Reader(table)
    reader.read()
    change.act(table)
    write(open_table(table.path), 4)
    reader.start()
    reader.read()
    assert signed(reader) == rows_in(open_table(table.path))


@pytest.mark.parametrize("is_deleted", [False, pytest.param(True, marks=pytest.mark.full)], ids=["log", "files"])
def test_a_planned_stream_stops_before_the_changes_where_it_was_asked_to(
    tmp_path: Path,
    bootstrap_servers: str,
    change: LineChange,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_deleted: bool,
) -> None:
    table = filled_table(tmp_path, bootstrap_servers, mode="upsert")  # of which files have the changes, too
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)
    reader = Reader(table, **change.stops)
    reader.read()
    before = signed(reader)
    change.act(table)
    if is_deleted:
        for bucket in range(2):
            lose_records(open_table(table.path), bucket)
    write(open_table(table.path), 4)
    reader.start()
    with pytest.raises(ConflictError, match=change.message):
        reader.read()
    assert signed(reader) == before


@pytest.mark.parametrize("name", ["restore", "merge"])
def test_a_normalized_stream_stops_before_the_changes_where_it_was_asked_to(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)
    table, change = filled_table(tmp_path, bootstrap_servers, mode="upsert"), LINE_CHANGES[name]
    readers = [Reader(table, **{"scan.normalize": "true"}, **options) for options in (change.stops, {})]
    for reader in readers:
        reader.read()
    before = signed(readers[0])
    change.act(table)
    await_committed(table)
    with pytest.raises(ConflictError, match=change.message):
        readers[0].read()
    readers[1].read()
    assert signed(readers[0]) == before
    assert signed(readers[1]) == rows_in(table)


# In Spark.


def reading(spark: SparkSession, table: Table, folder: Path, **options: str) -> StreamingQuery:
    (folder / "out").mkdir(exist_ok=True)
    rows = spark.readStream.format("lakelog").options(**{"row-kind": "true"} | options).load(table.path)
    writer = rows.writeStream.foreachBatch(partial(keep_batch, folder / "out"))
    return writer.option("checkpointLocation", str(folder / "reader")).start()


@pytest.mark.full
def test_a_running_query_is_fed_with_the_changes_once(
    spark: SparkSession, table: Table, tmp_path: Path, change: LineChange
) -> None:
    query = reading(spark, table, tmp_path, maxRowsPerTrigger="5")
    query.processAllAvailable()
    change.act(table)
    write(open_table(table.path), 4)
    if change.renews_log:
        with pytest.raises(StreamingQueryException, match=STARTS_AGAIN):
            query.awaitTermination(60)
        query = reading(spark, table, tmp_path, maxRowsPerTrigger="5")
    query.processAllAvailable()
    write(open_table(table.path), 6)
    query.processAllAvailable()
    query.stop()
    assert fold_read_batches(tmp_path / "out") == rows_in(open_table(table.path))


@pytest.mark.full
def test_a_running_query_stops_before_the_changes_where_it_was_asked_to(
    spark: SparkSession, table: Table, tmp_path: Path, change: LineChange
) -> None:
    query = reading(spark, table, tmp_path, **change.stops)
    query.processAllAvailable()
    before = rows_in(table)
    change.act(table)
    write(open_table(table.path), 4)
    if change.renews_log:
        with pytest.raises(StreamingQueryException, match=STARTS_AGAIN):
            query.awaitTermination(60)
        query = reading(spark, table, tmp_path, **change.stops)
    with pytest.raises(StreamingQueryException, match=change.message):
        query.awaitTermination(60)
    assert fold_read_batches(tmp_path / "out") == before
    query = reading(spark, table, tmp_path)
    query.processAllAvailable()
    query.stop()
    assert fold_read_batches(tmp_path / "out") == rows_in(open_table(table.path))


@pytest.mark.full
def test_a_query_that_is_killed_before_and_in_the_changes_gives_each_once(
    table: Table, tmp_path: Path, change: LineChange
) -> None:
    """The first batches are rows of a snapshot; the third has changes of the act, or of the batch before it."""
    assert run_job(tmp_path, "1", "after") == -signal.SIGKILL, tail_of_log(tmp_path)
    change.act(table)
    write(open_table(table.path), 4)
    for kill in (("2", "before"), ("3", "after")):
        assert run_job(tmp_path, *kill) == -signal.SIGKILL, tail_of_log(tmp_path)
    write(open_table(table.path), 6)
    assert run_job(tmp_path) == 0, tail_of_log(tmp_path)
    assert fold_read_batches(tmp_path / "out") == rows_in(open_table(table.path))


def writing(spark: SparkSession, table: Table, folder: Path) -> StreamingQuery:
    rows = spark.readStream.schema("id BIGINT, batch INT").option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    return write_stream(rows, open_table(table.path), checkpoint_location=folder / "writer")


def give(folder: Path, *batches: int) -> None:
    """Two rows a batch, whose ids no other batch has."""
    (folder / "in").mkdir(exist_ok=True)
    for batch in batches:
        lines = "".join(json.dumps({"id": 10 * batch + at, "batch": batch}) + "\n" for at in range(2))
        (folder / f"{batch}.json").write_text(lines, "utf-8")
        (folder / f"{batch}.json").rename(folder / "in" / f"{batch}.json")


def batches_in(table: Table, first: int) -> list[int]:
    """The batches from `first` on of which the table has rows, each whole."""
    found = {batch: count for (_, batch), count in rows_in(table).items() if isinstance(batch, int) and batch >= first}
    rows = [batch for _, batch in rows_in(table) if isinstance(batch, int) and batch >= first]
    assert all(rows.count(batch) == 2 for batch in found), f"parts of batches: {sorted(rows)}"
    return sorted(found)


@pytest.mark.full
@pytest.mark.parametrize("renews_log", [False, True], ids=["through the log", "with a new topic"])
def test_a_stream_that_writes_goes_on_with_its_next_batch_after_a_restore(
    spark: SparkSession, table: Table, tmp_path: Path, *, renews_log: bool
) -> None:
    given = range(100, 108)
    give(tmp_path, *given[:2])
    query = writing(spark, table, tmp_path)
    query.processAllAvailable()
    assert batches_in(table, 100) == [100, 101]

    give(tmp_path, *given[2:5])  # the restore comes between these
    table.restore(tag="t", renew_log=renews_log)
    give(tmp_path, *given[5:])
    if renews_log:
        with pytest.raises(StreamingQueryException, match=STARTS_AGAIN):
            query.processAllAvailable()
        query = writing(spark, table, tmp_path)
    query.processAllAvailable()
    query.stop()

    left = batches_in(open_table(table.path), 100)
    assert left == list(given)[-len(left) :], "what was undone does not come again, what came later is there"
    assert set(left) >= {105, 106, 107}
    assert {row for row in rows_in(open_table(table.path)) if row[1] in (2, 3)} == set()
    state = newest_state(open_table(table.path).store, topic_id=log_of_table(open_table(table.path)).topic_id)
    assert state.users[query.id].identifier == len(given) - 1
    assert open_table(table.path).log_store.verify().is_equal
