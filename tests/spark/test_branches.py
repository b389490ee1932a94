"""Branches in Spark: read and written in batches and as streams, apart from their table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError
from lakelog.spark import write_stream
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.source.streams.source import LakelogStreamReader
from tests.support.examples import rest_in_full

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
BATCHES = 6
POLL_SECONDS = 0.05
JOB_SECONDS_MAX = 240


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """One snapshot, and the branch `dev` of it."""
    made = Catalog(tmp_path / "lake").create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    put(made, {1: "a", 2: "b"})
    made.branches.create("dev")
    return made


def put(table: Table, rows: dict[int, str]) -> None:
    table.write(pa.table({"id": list(rows), "name": list(rows.values())}, schema=SCHEMA))


def rows_of(table: Table) -> dict[int, str]:
    return {row["id"]: row["name"] for row in table.to_arrow().to_pylist()}


def shown(rows: DataFrame) -> dict[int, str]:
    return {row["id"]: row["name"] for row in rows.collect()}


@pytest.mark.parametrize("key", rest_in_full(["branch", "scan.branch"], 1))
def test_batches_are_read_and_written_in_a_branch(spark: SparkSession, table: Table, key: str) -> None:
    rows = spark.createDataFrame([(3, "c")], "id BIGINT NOT NULL, name STRING")
    rows.write.format("lakelog").option(key, "dev").mode("append").save(table.path)
    assert shown(spark.read.format("lakelog").option(key, "dev").load(table.path)) == {1: "a", 2: "b", 3: "c"}
    assert shown(spark.read.format("lakelog").load(table.path)) == {1: "a", 2: "b"}
    rows.write.format("lakelog").options(table="db.t$branch_dev", warehouse=table.warehouse).mode("overwrite").save()
    assert shown(lakelog.spark.read(spark, "db.t$branch_dev", warehouse=table.warehouse)) == {3: "c"}
    assert rows_of(table) == {1: "a", 2: "b"}


def test_two_names_of_a_branch_are_refused(table: Table) -> None:
    with pytest.raises(InvalidRequestError, match="two branches"):
        LakelogDataSource({"path": table.path, "branch": "dev", "scan.branch": "other"}).schema()


def test_a_stream_writes_and_a_stream_reads_a_branch(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.json").write_text('{"id": 3, "name": "c"}\n', "utf-8")
    found: dict[int, str] = {}

    def keep(batch: DataFrame, _: int) -> None:
        found.update(shown(batch))

    def run() -> None:
        rows = spark.readStream.schema("id BIGINT, name STRING").json(str(tmp_path / "in"))
        write_stream(
            rows, table.branch("dev"), checkpoint_location=tmp_path / "write", available_now=True
        ).awaitTermination()
        stream = spark.readStream.format("lakelog").option("branch", "dev").load(table.path)
        query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "read"))
        query.trigger(availableNow=True).start().awaitTermination()

    run()
    assert found == {1: "a", 2: "b", 3: "c"}
    found.clear()
    put(table, {9: "in main"})
    (tmp_path / "in" / "1.json").write_text('{"id": 4, "name": "d"}\n', "utf-8")
    run()
    assert found == {4: "d"}
    assert rows_of(table) == {1: "a", 2: "b", 9: "in main"}
    assert rows_of(table.branch("dev")) == {1: "a", 2: "b", 3: "c", 4: "d"}


def reader_of(table: Table, **options: str) -> LakelogStreamReader:
    source = LakelogDataSource({"path": table.path, **options})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, LakelogStreamReader)
    return reader


def test_a_checkpoint_of_the_table_is_not_taken_for_one_of_a_branch(table: Table) -> None:
    """Snapshots of both have the same numbers, and other rows."""
    reader = reader_of(table)
    reached = json.loads(json.dumps(reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())))
    for line in (table, table.branch("dev")):
        put(line, {5: "e"})
    again = reader_of(table)
    assert again.latestOffset(reached, again.getDefaultReadLimit()) != reached
    other = reader_of(table, branch="dev")
    with pytest.raises(InvalidRequestError):
        other.latestOffset(reached, other.getDefaultReadLimit())


def test_a_checkpoint_of_a_deleted_branch_is_not_taken_for_one_of_a_new_one(table: Table) -> None:
    reader = reader_of(table, branch="dev")
    reached = json.loads(json.dumps(reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())))
    table.branches.rename("dev", "renamed")
    put(table.branch("renamed"), {5: "e"})
    renamed = reader_of(table, branch="renamed")
    assert renamed.latestOffset(reached, renamed.getDefaultReadLimit()) != reached
    table.branches.create("dev")
    put(table.branch("dev"), {5: "e"})
    other = reader_of(table, branch="dev")
    with pytest.raises(InvalidRequestError):
        other.latestOffset(reached, other.getDefaultReadLimit())


@pytest.mark.full
def test_a_killed_stream_into_a_branch_writes_each_batch_once(table: Table, tmp_path: Path) -> None:
    """SIGKILL after some snapshots, then a restart; an append-only branch would show a batch that is there twice."""
    catalog = Catalog(tmp_path / "lake")
    catalog.drop_table("db.t")
    added = catalog.create_table("db.t", schema=SCHEMA.remove(0).insert(0, pa.field("id", pa.int64())))
    put(added, {0: "main"})
    added.branches.create("dev")
    (tmp_path / "in").mkdir()
    for batch in range(BATCHES):
        rows = "".join(json.dumps({"id": 100 * batch + at, "name": f"{batch}"}) + "\n" for at in range(20))
        (tmp_path / "in" / f"{batch}.json").write_text(rows, "utf-8")
    command = [sys.executable, "-m", "tests.support.jobs.branch_job", str(tmp_path)]
    branch = added.branch("dev")
    for kills_at in (2, 4, None):
        with subprocess.Popen(command, start_new_session=True) as job:
            until = time.monotonic() + JOB_SECONDS_MAX
            while job.poll() is None and time.monotonic() < until:
                newest = branch.snapshot()
                if kills_at is not None and newest is not None and newest.id >= kills_at:
                    break
                time.sleep(POLL_SECONDS)
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
        if kills_at is None:
            assert job.returncode == 0
        put(added, {-1: "while it runs"})
    ids = sorted(branch.to_arrow()["id"].to_pylist())
    assert ids == sorted([0, *(100 * batch + at for batch in range(BATCHES) for at in range(20))])
    assert sorted(added.to_arrow()["id"].to_pylist()) == [-1, -1, -1, 0]
