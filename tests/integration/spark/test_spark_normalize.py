"""Normalized streams with real Spark and a real broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog, Table
from lakelog.spark import write_stream
from tests.support.logs.changes import TABLE_SCHEMA, ChangeHistory, make_history
from tests.support.logs.valid_changes import Change, follow
from tests.support.streams.streams import feed, keep_batch, write_changes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

JOB_SECONDS_MAX = 240


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    """Two buckets, an upsert log; snapshots expire at once."""
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    options = {
        "bucket": "2",
        "log.system": "kafka",
        "num-sorted-run.compaction-trigger": "2",
        "snapshot.num-retained.min": "1",
        "snapshot.num-retained.max": "1",
        "log.kafka.bootstrap.servers": bootstrap_servers,
    }
    return catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=options)


def history_of(files: int) -> ChangeHistory:
    return make_history(5, files=files, changes_per_file=150, keys=60)


def normalized(spark: SparkSession, table: Table, **options: str) -> DataFrame:
    given = {"row-kind": "true", "scan.normalize": "true"} | options
    return spark.readStream.format("lakelog").options(**given).load(table.path)


def read_now(rows: DataFrame, folder: Path) -> None:
    (folder / "out").mkdir(exist_ok=True)
    writer = rows.writeStream.foreachBatch(partial(keep_batch, folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "reader")).trigger(availableNow=True)
    writer.start().awaitTermination()


def changes_in(folder: Path) -> list[Change]:
    """The rows of all batches, in their order."""
    found: list[Change] = []
    for file in sorted((folder / "out").glob("batch-*.parquet")):
        for row in pq.read_table(file).to_pylist():
            found.append((row.pop("_row_kind"), tuple(row.values())))
    return found


@pytest.mark.full
def test_restarts_and_limits_leave_a_valid_changelog(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    history = history_of(6)
    for files in (range(2), range(2, 3), range(3, 6)):
        feed(tmp_path, history, files)
        write_changes(spark, tmp_path, table)
        read_now(normalized(spark, table, maxRowsPerTrigger="40"), tmp_path)
        state = follow({}, changes_in(tmp_path))
        assert set(state.values()) == history.truths[files.stop - 1]
    kinds = Counter(kind for kind, _ in changes_in(tmp_path))
    assert kinds["-U"] == kinds["+U"] > 0 < kinds["-D"]


@pytest.mark.full
def test_counts_with_retractions_are_right_where_ids_repeat(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    history = history_of(4)
    schema = pa.schema([pa.field("rest", pa.int64(), nullable=False), pa.field("count", pa.int64())])
    target = Catalog(str(tmp_path / "lake")).create_table("db.counts", schema=schema, primary_keys=["rest"])
    for files in (range(2), range(2, 4)):
        feed(tmp_path, history, files)
        write_changes(spark, tmp_path, table)
        sign = sf.when(sf.col("_row_kind").isin("+I", "+U"), 1).otherwise(-1)
        rest = (sf.coalesce(sf.col("amount"), sf.lit(0)) % 3).alias("rest")
        counts = normalized(spark, table, maxRowsPerTrigger="50").groupBy(rest).agg(sf.sum(sign).alias("count"))
        write_stream(
            counts, target, checkpoint_location=tmp_path / "counts", output_mode="update", available_now=True
        ).awaitTermination()
        truth = Counter((row[2] or 0) % 3 for row in history.truths[files.stop - 1])
        found = target.to_arrow()
        assert dict(zip(found["rest"].to_pylist(), found["count"].to_pylist(), strict=True)) == dict(truth)


@pytest.mark.full
def test_a_reader_that_is_killed_in_the_middle_of_a_batch_gives_every_change_once(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    history = history_of(5)
    feed(tmp_path, history, range(1))
    write_changes(spark, tmp_path, table)
    assert run_reader(tmp_path) == 0
    before = len(list((tmp_path / "out").iterdir()))
    feed(tmp_path, history, range(1, 5))
    write_changes(spark, tmp_path, table)
    for kill_at in (before, before + 2):
        assert run_reader(tmp_path, kill_at) == -signal.SIGKILL
        assert len(list((tmp_path / "out").iterdir())) == kill_at
        table.upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than=timedelta(0))
    assert run_reader(tmp_path) == 0
    assert set(follow({}, changes_in(tmp_path)).values()) == history.truths[-1]


def run_reader(folder: Path, kill_at: int | None = None) -> int:
    command = [sys.executable, "-m", "tests.support.jobs.normalize_job", str(folder)]
    command += [] if kill_at is None else [str(kill_at)]
    with (folder / "job.log").open("ab") as log:
        job = subprocess.Popen(command, env=dict(os.environ), stdout=log, stderr=log, start_new_session=True)
    return job.wait(JOB_SECONDS_MAX)
