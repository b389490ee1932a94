"""Streams of a branch with a log of its own, and a changed job that a branch tries on the changes of the table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog, Table
from lakelog.spark import write_stream
from lakelog.streams.phases import stream_head
from lakelog.streams.reading.admission import Limits
from lakelog.streams.reading.offsets import LogOffset
from tests.support.logs.line_changes import rows_in
from tests.support.logs.local_writer import LocalWriter
from tests.support.streams.planned_reader import Reader, expected, rows_of, write
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    """A table with a log in which batches 0 and 1 are, and its branch `dev`, with the tag `b` of these."""
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka"}
    made = catalog.create_table("db.t", schema=SCHEMA, options=options, primary_keys=["id"])
    write(made, 0)
    write(made, 1)
    made.branches.create("dev")
    made.branch("dev").tags.create("b")
    return made


@pytest.mark.parametrize("rows", [None, 1])
def test_a_stream_from_a_tag_of_a_branch_reads_on_in_its_files_and_then_in_its_log(
    table: Table, rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_head, "HEAD_SECONDS", 0.0)
    table.branch("dev").write(rows_of(10))  # before it has a log
    branch = table.branch("dev").log_store.add()
    writer = LocalWriter(branch, "job")
    writer.write(11, rows_of(11), pa.array([0] * 4, pa.int8()))
    write(table, 2)
    reader = Reader(table, branch="dev", tag="b")
    for _ in range(30):
        reader.start()
        reader.read(Limits(rows=rows), batches=1)
    assert reader.rows == expected(0, 1, 10, 11)
    writer.write(12, rows_of(12), pa.array([0] * 4, pa.int8()))
    reader.start()
    reader.read()
    assert reader.rows == expected(0, 1, 10, 11, 12)
    assert isinstance(reader.offset, LogOffset)
    assert set(reader.changes.values()) == {1}


@pytest.mark.full
def test_a_changed_job_reads_the_log_of_the_table_from_the_fork_on_and_writes_that_of_the_branch(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    branch = table.branch("dev")
    fork = branch.snapshot()
    assert fork is not None
    branch = branch.log_store.add()
    start = {"log.scan": "from-timestamp", "timestamp": str(fork.time_millis), "row-kind": "true"}

    def run() -> None:
        changes = spark.readStream.format("lakelog").options(**start).load(table.path)
        corrected = changes.withColumn("batch", (sf.col("batch") + 100).cast("int"))
        write_stream(corrected, branch, checkpoint_location=tmp_path / "job", available_now=True).awaitTermination()

    write(table, 2)
    run()
    write(table, 3)
    table.delete("id = 20")
    run()
    later = {(row[0], row[1] + 100): 1 for row in expected(2, 3) if row[0] != 20}
    assert rows_in(table.branch("dev")) == expected(0, 1) + Counter(later)
    assert rows_in(table) == expected(0, 1, 2, 3) - Counter([(20, 2)])
    assert table.log_store.verify().is_equal
    assert table.branch("dev").log_store.verify().is_equal
