"""A table with a log is renamed: its log, its streams and its readers go on under the new name, and nothing is lost."""

from __future__ import annotations

import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import lakelog.spark
from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import ConflictError, InvalidRequestError, LakelogError, NotFoundError
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.protocol.state.steps import Step, StepObserver, silent
from lakelog.protocol.writing.driver import Verdict
from lakelog.spark import error_of, write_stream
from tests.support.logs.changes import TABLE_SCHEMA, ChangeHistory, make_history
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.promises import check_log_equals_files, fold_read_batches, read_headers, snapshot_rows
from tests.support.streams.streams import changes_in, feed, keep_batch, write_changes

pytestmark = pytest.mark.integration

RENAMED = r"was dropped, renamed, or created again, since it was opened.* a renamed one by its new name"


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    options = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all"}
    return catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=options)


@pytest.fixture
def history() -> ChangeHistory:
    return make_history(7, files=3, changes_per_file=40, keys=20)


def start_reading(spark: SparkSession, table: Table, folder: Path, *, available_now: bool) -> StreamingQuery:
    """Keep what a stream of the table reads in `folder/out`."""
    (folder / "out").mkdir(exist_ok=True)
    rows = spark.readStream.format("lakelog").option("row-kind", "true").load(table.path)
    writer = rows.writeStream.foreachBatch(partial(keep_batch, folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "reader"))
    trigger = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="100 milliseconds")
    return trigger.start()


def check_ended_by_the_rename(query: StreamingQuery) -> None:
    with pytest.raises(StreamingQueryException, match=RENAMED) as caught:
        query.awaitTermination(60)
    assert isinstance(error_of(caught.value), ConflictError)


def test_a_renamed_table_is_written_and_read_on_under_its_new_name(
    spark: SparkSession, catalog: Catalog, table: Table, history: ChangeHistory, tmp_path: Path
) -> None:
    feed(tmp_path, history, range(1))
    user = write_changes(spark, tmp_path, table)
    start_reading(spark, table, tmp_path, available_now=True).awaitTermination()
    assert table.log is not None

    renamed = catalog.rename_table("db.t", "geo.u")

    assert renamed.log is not None
    assert (renamed.log.topic, renamed.log.topic_id) == (table.log.topic, table.log.topic_id)
    renamed.log.check_topic()
    rows = changes_in(spark, tmp_path)
    with pytest.raises(NotFoundError, match=r"table db\.t does not exist"):
        write_stream(rows, "db.t", catalog=catalog, checkpoint_location=tmp_path / "job")
    with pytest.raises(NotFoundError, match=r"table db\.t does not exist"):
        lakelog.spark.read(spark, "db.t", catalog=catalog)
    with pytest.raises(PySparkException) as caught:
        spark.read.format("lakelog").load(table.path)
    assert isinstance(error_of(caught.value), NotFoundError)
    with pytest.raises(ConflictError, match=RENAMED):
        write_stream(rows, table, checkpoint_location=tmp_path / "job")

    feed(tmp_path, history, range(1, 3))
    assert write_changes(spark, tmp_path, renamed) == user
    start_reading(spark, renamed, tmp_path, available_now=True).awaitTermination()
    assert fold_read_batches(tmp_path / "out") == Counter(history.truths[-1])
    found = lakelog.spark.read(spark, "geo.u", catalog=catalog).collect()
    assert {tuple(row) for row in found} == history.truths[-1]
    check_log_equals_files(renamed)
    assert not Path(table.path).exists()


@pytest.mark.full
def test_streams_that_run_while_their_table_is_renamed_end_with_that_and_go_on_from_their_checkpoints(
    spark: SparkSession, catalog: Catalog, table: Table, history: ChangeHistory, tmp_path: Path
) -> None:
    feed(tmp_path, history, range(1))
    writing = write_stream(changes_in(spark, tmp_path), table, checkpoint_location=tmp_path / "job")
    writing.processAllAvailable()
    reading = start_reading(spark, table, tmp_path, available_now=False)
    reading.processAllAvailable()

    renamed = catalog.rename_table("db.t", "db.u")

    check_ended_by_the_rename(reading)
    feed(tmp_path, history, range(1, 2))
    check_ended_by_the_rename(writing)
    assert not Path(table.path).exists()
    feed(tmp_path, history, range(2, 3))
    write_changes(spark, tmp_path, renamed)
    start_reading(spark, renamed, tmp_path, available_now=True).awaitTermination()
    assert fold_read_batches(tmp_path / "out") == Counter(history.truths[-1])
    assert snapshot_rows(renamed) == history.truths[-1]
    check_log_equals_files(renamed)


def test_a_batch_in_the_log_whose_table_is_renamed_before_its_snapshot_is_taken_in_under_the_new_name(
    spark: SparkSession,
    catalog: Catalog,
    table: Table,
    history: ChangeHistory,
    tmp_path: Path,
) -> None:
    feed(tmp_path, history, range(1))
    with pytest.MonkeyPatch.context() as patch:
        observer = renaming_at(catalog, Step.BEFORE_SNAPSHOT)
        patch.setattr("lakelog.spark.sink.batch_write.process_observer", lambda: observer)
        check_ended_by_the_rename(
            write_stream(changes_in(spark, tmp_path), table, checkpoint_location=tmp_path / "job", available_now=True)
        )
    renamed = catalog.load_table("db.u")
    assert [snapshot for snapshot in renamed.snapshots() if snapshot.commit_identifier == 0] == []
    write_changes(spark, tmp_path, renamed)
    assert snapshot_rows(renamed) == history.truths[0]
    check_logged_once(renamed)


def renaming_at(catalog: Catalog, at: Step) -> StepObserver:
    """An observer that renames db.t to db.u, once."""
    renamed: list[Table] = []

    def observe(step: Step, user: str, identifier: int, bucket: int | None) -> None:
        if step is at and not renamed:
            renamed.append(catalog.rename_table("db.t", "db.u"))

    return observe


def check_logged_once(table: Table) -> None:
    logged = Counter((bucket, header.user, header.identifier) for bucket, header in read_headers(table))
    assert set(logged.values()) == {1}
    appends = [one for one in table.snapshots() if one.commit_kind is CommitKind.APPEND and one.commit_identifier >= 0]
    by_batch = Counter((one.commit_user, one.commit_identifier) for one in appends if one.delta_record_count)
    assert set(by_batch.values()) == {1}
    check_log_equals_files(table)


STEPS = [
    Step.FENCE,
    Step.LOOK,
    Step.PREPARE,
    Step.BEGIN,
    Step.PRODUCE,
    Step.COMMIT,
    Step.AFTER_COMMIT,
    Step.BEFORE_SNAPSHOT,
    Step.AFTER_SNAPSHOT,
]


@pytest.mark.parametrize("at", STEPS)
def test_a_rename_at_any_step_of_a_batch_writes_nothing_at_the_old_place_and_the_batch_once(
    catalog: Catalog, at: Step
) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table = catalog.create_table("db.t", schema=schema, primary_keys="id", options={"log.system": "kafka"})
    write = partial(write_ids, schema=schema)
    write(table, 0, silent)
    ended: LakelogError | None = None
    try:
        write(table, 1, renaming_at(catalog, at))
    except LakelogError as error:
        ended = error
    assert (ended is None) == (at is Step.AFTER_SNAPSHOT)
    assert ended is None or "renamed" in str(ended)
    assert not Path(table.path).exists()

    renamed = catalog.load_table("db.u")
    assert write(renamed, 1, silent) is (Verdict.REPLAY if ended is None else Verdict.NEW)
    write(renamed, 2, silent)
    assert renamed.to_arrow()["id"].to_pylist() == [0, 1, 2]
    check_logged_once(renamed)
    catalog.drop_table("db.u")


def write_ids(table: Table, identifier: int, observe: StepObserver, *, schema: pa.Schema) -> Verdict:
    rows = pa.table({"id": [identifier]}, schema=schema)
    return LocalWriter(table, "q", observe=observe).write(identifier, rows, pa.array([0], pa.int8()))


def test_a_copy_made_before_the_rename_is_refused_a_stream(
    spark: SparkSession, catalog: Catalog, table: Table, history: ChangeHistory, tmp_path: Path
) -> None:
    feed(tmp_path, history, range(1))
    write_changes(spark, tmp_path, table)
    copied = open_table(shutil.copytree(table.path, tmp_path / "copy"))
    renamed = catalog.rename_table("db.t", "db.u")
    with pytest.raises(InvalidRequestError, match=rf"copy is a copy of {renamed.path}, whose log it would share"):
        write_stream(changes_in(spark, tmp_path), copied, checkpoint_location=tmp_path / "other")
