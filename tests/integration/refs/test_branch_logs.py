"""A branch of a table with a log gets a log of its own: neither line writes, fences or reads the other's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import ConflictError, InvalidRequestError, UnsupportedError
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.life import log_life
from lakelog.protocol.state.steps import Step
from lakelog.spark import write_stream
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_deleted, log_of_table
from tests.support.logs.promises import log_changes
from tests.support.logs.statements import newest, rows_in
from tests.support.streams.planned_reader import reader_of, write_changes
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

UPSERTS = pa.array([0, 0], pa.int8())


def rows_of(batch: int) -> pa.Table:
    """The rows `batch` and `batch` + 1."""
    return pa.table([pa.array([batch, batch + 1]), pa.array([batch] * 2, pa.int32())], schema=SCHEMA)


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Iterator[Table]:
    """A table with a log, in which batch 0 of `job` is, and its branch `dev`."""
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka"}
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    LocalWriter(made, "job").write(0, rows_of(0), UPSERTS)
    made.branches.create("dev")
    yield made
    catalog.drop_table("db.t", if_exists=True)


def content(table: Table) -> dict[int, int]:
    rows = table.to_arrow()
    return dict(zip(rows["id"].to_pylist(), rows["batch"].to_pylist(), strict=True))


def logged_ids(table: Table) -> set[int]:
    return {row["id"][0].as_py() for bucket in range(2) for _, _, _, row in log_changes(table, bucket)}


def test_a_branch_begins_without_a_log_and_is_written_without_kafka(table: Table) -> None:
    branch = table.branch("dev")
    assert branch.log is None
    before = logged_ids(table)
    branch.write(rows_of(40))
    branch.delete("id = 0")
    assert content(branch) == {1: 0, 40: 40, 41: 40}
    assert logged_ids(table) == before
    assert content(table) == {0: 0, 1: 0}
    assert branch.log_store.drop_ended() == []  # its older schemas name the log of the table
    assert table.log_store.verify().is_equal


def test_lines_with_a_log_each_do_not_meet(table: Table) -> None:
    branch = table.branch("dev").log_store.add()
    assert branch.log is not None
    assert table.log is not None
    assert branch.log.topic != table.log.topic
    assert "dev" in branch.log.topic
    assert branch.uuid != table.uuid  # of transactional ids, headers and offsets
    ours, theirs = LocalWriter(table, "job"), LocalWriter(branch, "job")
    for batch in range(1, 4):  # in turns, each with producers that it keeps: a shared identity would fence the other
        ours.write(batch, rows_of(batch), UPSERTS)
        theirs.write(batch, rows_of(10 * batch), UPSERTS)
    assert content(table.branch("dev")).keys() == {0, 1, 10, 11, 20, 21, 30, 31}
    assert content(table).keys() == {0, 1, 2, 3, 4}
    assert logged_ids(branch) == {10, 11, 20, 21, 30, 31}
    assert logged_ids(table) == {0, 1, 2, 3, 4}
    branch.write(rows_of(50))  # a statement
    branch.delete("id = 50")
    assert table.log_store.verify().is_equal
    assert branch.log_store.verify().is_equal
    assert content(table).keys() == {0, 1, 2, 3, 4}


def test_a_branch_with_a_log_is_merged_through_the_log(table: Table) -> None:
    branch = table.branch("dev").log_store.add()
    branch.write(rows_of(60))
    table.branches.merge("dev")
    assert content(table).keys() == {0, 1, 60, 61}
    assert logged_ids(table) == {0, 1, 60, 61}
    assert table.log_store.verify().is_equal


def test_a_table_without_a_log_takes_no_branch_with_one(tmp_path: Path, bootstrap_servers: str) -> None:
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    table.write(rows_of(0))
    table.branches.create("dev")
    branch = table.branch("dev").log_store.add()
    branch.write(rows_of(60))
    branches = table.branches
    for verb in (
        branches.fast_forward,
        partial(branches.replace_newer, force=True),
        partial(branches.replace_main, force=True),
    ):
        with pytest.raises(InvalidRequestError, match=r"end the log of the branch with branch\('dev'\).remove_log\(\)"):
            verb("dev")
    table.branch("dev").log_store.remove(force=True)
    table.branches.fast_forward("dev")
    assert content(catalog.load_table("db.t")).keys() == {0, 1, 60, 61}


def test_a_handle_from_before_is_refused_once_the_branch_has_a_log(table: Table) -> None:
    older = table.branch("dev")
    older.log_store.add()
    with pytest.raises(ConflictError):
        older.write(rows_of(70))


def test_the_topic_of_a_branch_is_deleted_with_it(table: Table) -> None:
    branch = table.branch("dev").log_store.add()
    log = log_of_table(branch)
    log.check_topic()
    table.upkeep.remove_orphan_files(dry_run=False)
    table.branches.delete("dev")
    await_deleted(kafka_topic(log))
    log_of_table(table).check_topic()
    assert kafka_topic(log_of_table(table)).name != log.topic


def test_a_branch_with_a_log_that_a_statement_has_written_is_renamed(table: Table) -> None:
    branch = table.branch("dev").log_store.add()
    branch.write(rows_of(60))
    table.branches.rename("dev", "next")
    renamed = table.branch("next")
    renamed.write(rows_of(70))
    assert content(renamed).keys() == {0, 1, 60, 61, 70, 71}
    assert renamed.log_store.verify().is_equal
    assert [one.name for one in table.branches.list()] == ["next"]


def test_a_branch_loses_its_log_and_gets_another(table: Table) -> None:
    branch = table.branch("dev").log_store.add()
    branch.write(rows_of(80))
    without = branch.log_store.remove(force=True)
    assert without.log is None
    without.write(rows_of(90))
    again = without.log_store.add()
    again.write(rows_of(95))
    assert content(table.branch("dev")).keys() == {0, 1, 80, 81, 90, 91, 95, 96}
    assert logged_ids(again) == {95, 96}
    assert table.log_store.verify().is_equal


@pytest.mark.full
def test_streams_write_and_read_a_branch_by_its_log(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    branch = table.branch("dev").log_store.add()
    (tmp_path / "in").mkdir()
    found: list[tuple[int, int]] = []

    def keep(batch: DataFrame, _: int) -> None:
        found.extend((row["id"], row["batch"]) for row in batch.collect())

    def run(number: int) -> None:
        (tmp_path / "in" / f"{number}.json").write_text(f'{{"id": {number}, "batch": {number}}}\n', "utf-8")
        rows = spark.readStream.schema("id BIGINT, batch INT").json(str(tmp_path / "in"))
        write_stream(rows, branch, checkpoint_location=tmp_path / "write", available_now=True).awaitTermination()
        stream = spark.readStream.format("lakelog").option("branch", "dev").load(table.path)
        query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "read"))
        query.trigger(availableNow=True).start().awaitTermination()

    run(100)
    assert sorted(found) == [(0, 0), (1, 0), (100, 100)]
    LocalWriter(table, "job").write(1, rows_of(1), UPSERTS)
    run(200)
    assert sorted(found) == [(0, 0), (1, 0), (100, 100), (200, 200)]
    assert logged_ids(branch) == {100, 200}
    assert content(table).keys() == {0, 1, 2}


def test_the_log_of_a_branch_is_renewed_and_rescaled_and_its_readers_go_on(table: Table) -> None:
    branch = table.branch("dev").log_store.add()
    before = log_of_table(table).topic
    reader = reader_of(branch)
    write_changes(branch, 1, range(10, 14))
    behind = reader_of(branch)
    assert +reader.read() == rows_in(branch)
    topics = [log_of_table(branch).topic]
    for batch in (2, 4):
        write_changes(branch, batch, range(12, 18))
        branch = branch.log_store.renew(force=True) if batch == 2 else branch.upkeep.rescale(3)
        topics.append(log_of_table(branch).topic)
        write_changes(branch, batch + 1, range(16, 22))
        for one in (reader, behind):
            one.start()
            assert +one.read() == rows_in(branch)
        assert branch.log_store.verify().is_equal
    assert len(set(topics)) == 3
    assert all("dev" in topic for topic in topics)
    assert branch.store.bucket_count == 3
    assert (log_of_table(table).topic, table.store.bucket_count) == (before, 2)
    LocalWriter(table, "job").write(1, rows_of(1), UPSERTS)
    assert content(table).keys() == {0, 1, 2}
    assert table.log_store.verify().is_equal
    table.upkeep.remove_orphan_files(dry_run=False)
    table.branches.merge("dev")
    assert content(table).keys() == {0, 1, 2, *range(10, 22)}


def test_no_branch_begins_at_a_batch_that_is_there_in_part(table: Table) -> None:
    def die(step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if step is Step.BEFORE_SNAPSHOT:
            raise InjectedCrash(step)

    many = pa.table([pa.array(range(20, 28)), pa.array([5] * 8, pa.int32())], schema=SCHEMA)
    with pytest.raises(InjectedCrash):
        LocalWriter(table, "dead", observe=die).write(0, many, None)
    LocalWriter(table, "job").write(1, rows_of(1), UPSERTS)  # takes in what the dead one has logged
    tip = newest(table).id
    for which in (None, tip):
        with pytest.raises(InvalidRequestError, match=r"holds batch 0 of 'dead' .* in part; name an older snapshot"):
            table.branches.create("part", snapshot_id=which)
    assert [branch.name for branch in table.branches.list()] == ["dev"]
    table.branches.create("whole", snapshot_id=1)
    LocalWriter(table, "dead").write(0, many, None)
    table.branches.create("part")
    assert content(table.branch("part")) == content(table)


def test_a_table_whose_log_merges_its_rows_gets_no_branch(tmp_path: Path, bootstrap_servers: str) -> None:
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    summed = {"merge-engine": "aggregation", "fields.batch.aggregate-function": "sum"}
    options = {"bucket": "2", "log.system": "kafka"} | summed
    merged = catalog.create_table("db.sums", schema=SCHEMA, primary_keys=["id"], options=options)
    merged.write(rows_of(3))
    with pytest.raises(UnsupportedError, match="begins without a log, and its files would have to be rewritten"):
        merged.branches.create("dev")
    assert merged.branches.list() == []


JOB_SECONDS_MAX = 120.0
BATCHES = 6


@pytest.mark.full
def test_a_killed_stream_into_a_branch_with_a_log_writes_each_change_once(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    """SIGKILL after some snapshots, then a restart: an append-only branch shows a batch that is there twice."""
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
    options = {"bucket": "2", "bucket-key": "id", "log.system": "kafka"}
    table = catalog.create_table("db.t", schema=schema, options=options)
    table.write(pa.table([pa.array([0]), pa.array(["main"])], schema=schema))
    table.branches.create("dev")
    branch = table.branch("dev").log_store.add()
    (tmp_path / "in").mkdir()
    for batch in range(BATCHES):
        rows = "".join(json.dumps({"id": 100 * batch + at + 1, "name": f"{batch}"}) + "\n" for at in range(20))
        (tmp_path / "in" / f"{batch}.json").write_text(rows, "utf-8")
    command = [sys.executable, "-m", "tests.support.jobs.branch_job", str(tmp_path)]
    first = newest(branch).id
    for kills_at in (first + 1, first + 3, None):
        with subprocess.Popen(command, start_new_session=True) as job:
            until = time.monotonic() + JOB_SECONDS_MAX
            while job.poll() is None and time.monotonic() < until:
                if kills_at is not None and newest(branch).id >= kills_at:
                    break
                time.sleep(0.01)
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
        if kills_at is None:
            assert job.returncode == 0
        table.write(pa.table([pa.array([-1]), pa.array(["while it runs"])], schema=schema))
    written = [100 * batch + at + 1 for batch in range(BATCHES) for at in range(20)]
    assert sorted(branch.to_arrow()["id"].to_pylist()) == sorted([0, *written])
    logged = [row["id"][0].as_py() for bucket in range(2) for _, _, _, row in log_changes(branch, bucket)]
    assert sorted(logged) == sorted(written)
    assert sorted(table.to_arrow()["id"].to_pylist()) == [-1, -1, -1, 0]
    assert branch.log_store.verify().is_equal
    assert table.log_store.verify().is_equal


def test_files_are_cleaned_while_the_log_of_a_branch_is_begun_by_a_call_that_was_cut_off(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(log_life, "begin", died)
        with pytest.raises(InjectedCrash):
            table.branch("dev").log_store.add()
    orphan = Path(table.path, "bucket-0", "data-0.parquet")
    orphan.write_bytes(b"")
    LocalWriter(table, "job").write(1, rows_of(1), UPSERTS)
    table.upkeep.remove_orphan_files(older_than=timedelta(days=-1), dry_run=False, allow_young=True)
    assert not orphan.exists()
    assert content(table.branch("dev").log_store.add()) == {0: 0, 1: 0}
    assert content(table) == {0: 0, 1: 1, 2: 1}


def died(*_: object) -> None:
    raise InjectedCrash
