"""Queries of Spark whose records Kafka has deleted go on in the files, each change once, also when they are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table
from tests.support.logs.log_records import await_committed, lose_records
from tests.support.streams.planned_reader import Change, expected, write
from tests.support.streams.streams import keep_batch
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration
JOB_SECONDS_MAX = 240


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka", "log.kafka.bootstrap.servers": bootstrap_servers}
    return catalog.create_table("db.t", schema=SCHEMA, options=options)


def lose(table: Table) -> None:
    for bucket in range(2):
        lose_records(table, bucket)


def kept(folder: Path) -> Change:
    """What the query has kept, signed."""
    rows: Change = Counter()
    for file in sorted((folder / "out").glob("batch-*.parquet")):
        batch = pq.read_table(file)
        for kind, *row in zip(*(batch[name].to_pylist() for name in ("_row_kind", "id", "batch")), strict=True):
            rows[row[0], row[1]] += 1 if kind in ("+I", "+U") else -1
    return rows


def test_a_query_that_runs_reads_deleted_records_from_the_files_and_returns_to_the_log(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    is_slow, may_go_on = threading.Event(), threading.Event()

    def keep(batch: DataFrame, batch_id: int) -> None:
        keep_batch(tmp_path / "out", batch, batch_id)
        if batch_id == 1:
            is_slow.set()
            may_go_on.wait(120)

    write(table, 0)
    rows = spark.readStream.format("lakelog").option("row-kind", "true").option("maxRowsPerTrigger", "5")
    writer = rows.load(table.path).writeStream.foreachBatch(keep)
    query = writer.option("checkpointLocation", str(tmp_path / "reader")).start()
    query.processAllAvailable()
    write(table, 1)
    assert is_slow.wait(120)
    for batch in (2, 3, 4):
        write(table, batch)
    lose(table)
    write(table, 5)
    may_go_on.set()
    query.processAllAvailable()
    write(table, 6)
    await_committed(table)
    query.processAllAvailable()
    query.stop()

    assert query.exception() is None
    assert kept(tmp_path) == expected(0, 1, 2, 3, 4, 5, 6)


def run_job(folder: Path, *arguments: str) -> int:
    command = [sys.executable, "-m", "tests.support.jobs.reading_job", str(folder), *arguments]
    with (folder / "job.log").open("ab") as log:
        job = subprocess.Popen(command, env=os.environ, stdout=log, stderr=log, start_new_session=True)
        return job.wait(JOB_SECONDS_MAX)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("batch", "order"), [("1", "before"), ("1", "after"), ("3", "before")])
def test_a_query_that_is_killed_while_it_reads_the_files_gives_each_change_once(
    table: Table, tmp_path: Path, batch: str, order: str
) -> None:
    tail = partial((tmp_path / "job.log").read_text, encoding="utf-8", errors="replace")
    write(table, 0)
    assert run_job(tmp_path) == 0, tail()[-4000:]
    for number in (1, 2, 3, 4):
        write(table, number)
    lose(table)
    write(table, 5)

    assert run_job(tmp_path, batch, order) == -signal.SIGKILL, tail()[-4000:]
    lose(table)
    write(table, 6)
    assert run_job(tmp_path) == 0, tail()[-4000:]

    assert kept(tmp_path) == expected(0, 1, 2, 3, 4, 5, 6)
