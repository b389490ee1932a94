"""Tables with a log are kept in order: files that the log names stay, and readers lose nothing to expiry."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.cli.main import main
from lakelog.common.arrow import to_arrow_schema
from lakelog.filestore.verbs import remove_orphan_files
from lakelog.logstore.options import TOPIC_ID
from lakelog.protocol.life.orphans import names_in_log
from lakelog.protocol.state.steps import Step
from lakelog.protocol.state.writer_marks import WriterMarks
from tests.support.logs.changes import TABLE_SCHEMA, make_history
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_committed
from tests.support.logs.promises import check_log_equals_files, fold_read_batches
from tests.support.streams.streams import feed, keep_batch, write_changes

pytestmark = pytest.mark.integration


class InjectedCrash(Exception):
    """The process dies here."""


def table_of(folder: Path, bootstrap_servers: str, **options: str) -> Table:
    catalog = Catalog(str(folder / "lake"), bootstrap_servers=bootstrap_servers)
    given = {"bucket": "3", "log.system": "kafka", "log.changelog-mode": "all"} | options
    return catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=given)


def make_old(table: Table) -> None:
    for path in Path(table.path).rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))


def orphans(capsys: pytest.CaptureFixture[str], *arguments: str) -> set[str]:
    """The names that `lakelog table remove-orphan-files` prints."""
    with pytest.raises(SystemExit):
        main(("table", "remove-orphan-files", *arguments, "--json"))
    found = json.loads(capsys.readouterr().out)
    return {Path(one["path"]).name for one in (*found["files"], *found["folders"])}


def test_files_that_only_the_log_names_are_no_orphans(
    tmp_path: Path, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int32())])
    options = {"bucket": "2", "log.system": "kafka"}
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=columns, primary_keys=["id"], options=options)
    schema = to_arrow_schema(table.schema.fields)
    kinds = pa.array([0] * 8, pa.int8())

    def die(at: Step, step: Step, user: str, identifier: int, bucket: int | None) -> None:
        if step is at:
            raise InjectedCrash(step)

    LocalWriter(table, "q").write(0, pa.table({"id": range(8), "v": [0] * 8}, schema=schema), kinds)
    for at in (Step.BEGIN, Step.BEFORE_SNAPSHOT):  # files that nothing names, then files that the log names
        rows = pa.table({"id": range(8), "v": [1] * 8}, schema=schema)
        with pytest.raises(InjectedCrash):
            LocalWriter(table, "q", observe=partial(die, at)).write(1, rows, kinds)
    make_old(table)

    unnamed = {Path(file.path).name for file in remove_orphan_files(table.store, named_elsewhere=frozenset).files}
    assert table.log is not None
    logged = set(names_in_log(table.store, table.log)())
    assert len(logged) == 2
    assert logged < unnamed
    assert orphans(capsys, table.path, "--no-dry-run") == unnamed - logged
    LocalWriter(table, "q").write(1, pa.table({"id": range(8), "v": [1] * 8}, schema=schema), kinds)
    assert table.to_arrow()["v"].to_pylist() == [1] * 8
    assert orphans(capsys, table.path) == set()
    catalog.drop_table("db.t")


def test_a_mark_is_an_orphan_once_its_writer_is_dropped_and_a_snapshot_has_what_it_names(
    tmp_path: Path, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    options = {"bucket": "2", "log.system": "kafka", "users.time-retained": "1 ms"}
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=columns, primary_keys=["id"], options=options)
    rows = pa.table({"id": range(8)}, schema=to_arrow_schema(table.schema.fields))
    gone, waiting = LocalWriter(table, "gone"), LocalWriter(table, "waiting")
    gone.log(0, rows)
    gone.take_in()
    waiting.log(0, rows)
    marks = WriterMarks(table.store, TOPIC_ID.of(table.schema.options))
    make_old(table)
    assert orphans(capsys, table.path) == set()  # the table still knows both

    await_committed(table)
    table.write(rows)  # takes in what waits
    table.write(rows)  # drops the writers
    LocalWriter(table, "new").log(0, rows)
    make_old(table)
    ended = {Path(marks._path(user)).name for user in ("gone", "waiting")}
    assert orphans(capsys, table.path) == ended
    assert orphans(capsys, table.path, "--no-dry-run") == ended
    assert [mark.user for mark in marks.all()] == ["new"]

    renewed = WriterMarks(table.store, "another topic")
    renewed.put(replace(marks.all()[0], topic_id="another topic", user="older"))
    assert orphans(capsys, table.path) == set()  # it is young
    make_old(table)
    assert orphans(capsys, table.path) == {Path(renewed._path("older")).name}
    catalog.drop_table("db.t")


def test_a_writer_that_slept_until_its_files_were_removed_writes_them_anew(
    tmp_path: Path, bootstrap_servers: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=columns, primary_keys=["id"], options={"log.system": "kafka"})
    slept = [0.0]
    removed: set[str] = set()

    class Watch:
        def __init__(self) -> None:
            self.start = slept[0]

        def seconds(self) -> float:
            return slept[0] - self.start

    def sleep(step: Step, user: str, identifier: int, bucket: int | None) -> None:
        if step is Step.PRODUCE and not removed:
            slept[0] += 7200
            make_old(table)
            removed.update(orphans(capsys, table.path, "--no-dry-run"))

    monkeypatch.setattr("lakelog.protocol.stores.task_stores.Stopwatch", Watch)
    rows = pa.table({"id": range(8)}, schema=to_arrow_schema(table.schema.fields))
    LocalWriter(table, "q", observe=sleep).write(0, rows, pa.array([0] * 8, pa.int8()))

    assert [name for name in removed if name.startswith("data-")]
    assert table.to_arrow()["id"].to_pylist() == list(range(8))
    check_log_equals_files(table)
    catalog.drop_table("db.t")


def test_a_batch_with_headers_that_no_record_holds_is_written_and_finished(
    tmp_path: Path, bootstrap_servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys stand in a header four times and more: those of one bucket do not fit, those of the other do."""
    columns = pa.schema([pa.field("id", pa.string(), nullable=False)])
    options = {"bucket": "2", "log.system": "kafka", "log.max-record-size": "20 kb"}
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=columns, primary_keys=["id"], options=options)
    rows = pa.table({"id": ["short", "x" * 8_000, "y" * 8_001, "z"]}, schema=to_arrow_schema(table.schema.fields))
    kinds = pa.array([0] * 4, pa.int8())

    def die(step: Step, user: str, identifier: int, bucket: int | None) -> None:
        if step is Step.BEFORE_SNAPSHOT:
            raise InjectedCrash(step)

    with pytest.raises(InjectedCrash):
        LocalWriter(table, "q", observe=die).write(0, rows, kinds)
    headers = {path.name for path in Path(table.path, "manifest").glob("header-*")}
    assert headers
    make_old(table)
    assert orphans(capsys, table.path, "--no-dry-run") == set()
    LocalWriter(table, "q").write(0, rows, kinds)

    assert sorted(table.to_arrow()["id"].to_pylist()) == sorted(rows["id"].to_pylist())
    check_log_equals_files(table)
    make_old(table)
    assert orphans(capsys, table.path) == headers
    catalog.drop_table("db.t")


@pytest.mark.full
def test_readers_of_a_log_lose_nothing_to_the_expiry_of_writers(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str
) -> None:
    """Every batch lets all but two snapshots expire, while a reader with small batches comes back now and then."""
    retention = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}
    table = table_of(tmp_path, bootstrap_servers, **retention)
    history = make_history(3, files=6, changes_per_file=150, keys=60)
    (tmp_path / "out").mkdir()
    for files in (range(2), range(2, 3), range(3, 6)):
        for number in files:
            feed(tmp_path, history, range(number, number + 1))
            write_changes(spark, tmp_path, table)
        rows = spark.readStream.format("lakelog").options(**{"row-kind": "true", "maxRowsPerTrigger": "40"})
        writer = rows.load(table.path).writeStream.foreachBatch(partial(keep_batch, tmp_path / "out"))
        query = writer.option("checkpointLocation", str(tmp_path / "reader")).trigger(availableNow=True).start()
        query.awaitTermination()
        assert fold_read_batches(tmp_path / "out") == Counter(history.truths[files.stop - 1])
    assert table.store.snapshots.ids()[0] > 1
    check_log_equals_files(table)
