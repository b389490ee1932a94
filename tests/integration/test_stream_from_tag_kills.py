"""A Spark query that starts from a tag is killed with its processes, and started again: each change once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakelog.catalog import Catalog, Table
from tests.support.log_records import lose_records
from tests.support.planned_reader import expected, write
from tests.support.small_tables import SCHEMA

pytestmark = pytest.mark.integration
JOB_SECONDS_MAX = 240


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    """Batches 0 and 1, a tag of these, batches 2 and 3, and no snapshot before the newest."""
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka", "log.kafka.bootstrap.servers": bootstrap_servers}
    table = catalog.create_table("db.t", schema=SCHEMA, options=options, primary_keys=["id"])
    for batch in range(4):
        write(table, batch)
        if batch == 1:
            table.create_tag("t")
    table.expire_snapshots(retain_max=1, retain_min=1)
    return table


def run_job(folder: Path, *arguments: str) -> int:
    command = [sys.executable, "-m", "tests.support.reading_job", str(folder), *arguments]
    with (folder / "job.log").open("ab") as log:
        job = subprocess.Popen(command, env=os.environ, stdout=log, stderr=log, start_new_session=True)
        return job.wait(JOB_SECONDS_MAX)


def kept(folder: Path) -> Counter[tuple[str, int, int]]:
    """The changes that the query has kept, with how often each came."""
    found: Counter[tuple[str, int, int]] = Counter()
    for file in sorted((folder / "out").glob("batch-*.parquet")):
        found.update((row["_row_kind"], row["id"], row["batch"]) for row in pq.ParquetFile(file).read().to_pylist())
    return found


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("is_lost", [False, True], ids=["log", "difference"])
@pytest.mark.parametrize(("batch", "order"), [("0", "before"), ("1", "after"), ("2", "before")])
def test_a_query_from_a_tag_that_is_killed_gives_each_change_once(
    table: Table, tmp_path: Path, batch: str, order: str, is_lost: bool
) -> None:
    tail = partial((tmp_path / "job.log").read_text, encoding="utf-8", errors="replace")
    for bucket in range(2) if is_lost else ():
        lose_records(table, bucket)

    assert run_job(tmp_path, batch, order, "tag=t", "failOnDataLoss=false") == -signal.SIGKILL, tail()[-4000:]
    write(table, 4)
    assert run_job(tmp_path, "tag=t", "failOnDataLoss=false") == 0, tail()[-4000:]

    assert kept(tmp_path) == {("+I", *row): 1 for row in expected(0, 1, 2, 3, 4)}
