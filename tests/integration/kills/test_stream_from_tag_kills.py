"""A Spark query that starts from a tag is killed with its processes, and started again: each change once.

The other cases are a branch with a log of its own, and a tag of that branch.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from tests.support.kills.reading_process import kept, run_job, tail_of_log
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import lose_records
from tests.support.streams.planned_reader import expected, rows_of, write
from tests.support.tables.small_tables import SCHEMA

pytestmark = [pytest.mark.integration, pytest.mark.full, pytest.mark.timeout(900)]
KILLS = [("0", "before"), ("1", "after"), ("2", "before")]


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    """Batches 0 and 1, a tag of these, batches 2 and 3, and no snapshot before the newest."""
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka", "log.kafka.bootstrap.servers": bootstrap_servers}
    table = catalog.create_table("db.t", schema=SCHEMA, options=options, primary_keys=["id"])
    for batch in range(4):
        write(table, batch)
        if batch == 1:
            table.tags.create("t")
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    return table


@pytest.mark.parametrize("is_lost", [False, True], ids=["log", "difference"])
@pytest.mark.parametrize(("batch", "order"), KILLS)
def test_a_query_from_a_tag_that_is_killed_gives_each_change_once(
    table: Table, tmp_path: Path, batch: str, order: str, is_lost: bool
) -> None:
    for bucket in range(2) if is_lost else ():
        lose_records(table, bucket)

    assert run_job(tmp_path, batch, order, "tag=t", "failOnDataLoss=false") == -signal.SIGKILL, tail_of_log(tmp_path)
    write(table, 4)
    assert run_job(tmp_path, "tag=t", "failOnDataLoss=false") == 0, tail_of_log(tmp_path)

    assert kept(tmp_path) == {("+I", *row): 1 for row in expected(0, 1, 2, 3, 4)}


def write_branch(branch: Table, batch: int) -> None:
    """Write the rows of a batch through the log of the branch."""
    LocalWriter(branch, "job").write(batch, rows_of(batch), pa.array([0] * 4, pa.int8()))


@pytest.mark.parametrize("start", ["newest", "tag"])
@pytest.mark.parametrize(("batch", "order"), KILLS)
def test_a_query_of_a_branch_with_a_log_that_is_killed_gives_each_change_of_the_branch_once(
    table: Table, tmp_path: Path, batch: str, order: str, start: str
) -> None:
    table.branches.create("dev")
    branch = table.branch("dev").log_store.add()
    write_branch(branch, 10)
    branch.tags.create("b")
    write_branch(branch, 11)
    write(table, 5)
    options = ["branch=dev", *(["tag=b"] if start == "tag" else [])]
    if (start, batch) == ("newest", "2"):  # the first two batches are the rows of the snapshot
        assert run_job(tmp_path, *options) == 0, tail_of_log(tmp_path)
    write_branch(branch, 12)
    write(table, 6)
    branch.upkeep.expire_snapshots(retain_max=1, retain_min=1)

    assert run_job(tmp_path, batch, order, *options) == -signal.SIGKILL, tail_of_log(tmp_path)
    write(table, 7)
    write_branch(branch, 13)
    assert run_job(tmp_path, *options) == 0, tail_of_log(tmp_path)

    assert kept(tmp_path) == {("+I", *row): 1 for row in expected(0, 1, 2, 3, 10, 11, 12, 13)}
