"""A branch of a table with a log gets a log of its own: neither line writes, fences or reads the other's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import ConflictError, InvalidRequestError, NotFoundError
from lakelog.protocol.table_log import kafka_topic
from lakelog.spark import write_stream
from tests.support.local_writer import LocalWriter
from tests.support.log_records import log_of_table
from tests.support.promises import log_changes
from tests.support.small_tables import SCHEMA

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
    made.create_branch("dev")
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
    assert branch.drop_ended_logs() == []  # its older schemas name the log of the table
    assert table.verify_log().is_equal


def test_lines_with_a_log_each_do_not_meet(table: Table) -> None:
    branch = table.branch("dev").add_log()
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
    assert table.verify_log().is_equal
    assert branch.verify_log().is_equal
    assert content(table).keys() == {0, 1, 2, 3, 4}


def test_a_branch_with_a_log_is_taken_over_by_the_log_alone(table: Table) -> None:
    branch = table.branch("dev").add_log()
    branch.write(rows_of(60))
    for verb in (table.fast_forward, table.merge_branch, table.replace_main):
        with pytest.raises(InvalidRequestError, match="log"):
            verb("dev")
    table.merge_changes("dev")
    assert content(table).keys() == {0, 1, 60, 61}
    assert logged_ids(table) == {0, 1, 60, 61}
    assert table.verify_log().is_equal


def test_a_handle_from_before_is_refused_once_the_branch_has_a_log(table: Table) -> None:
    older = table.branch("dev")
    older.add_log()
    with pytest.raises(ConflictError):
        older.write(rows_of(70))


def test_the_topic_of_a_branch_is_deleted_with_it(table: Table) -> None:
    branch = table.branch("dev").add_log()
    log = log_of_table(branch)
    log.check_topic()
    table.remove_orphan_files(dry_run=False)
    table.delete_branch("dev")
    with pytest.raises(NotFoundError):
        log.check_topic()
    log_of_table(table).check_topic()
    assert kafka_topic(log_of_table(table)).name != log.topic


def test_a_branch_loses_its_log_and_gets_another(table: Table) -> None:
    branch = table.branch("dev").add_log()
    branch.write(rows_of(80))
    without = branch.remove_log()
    assert without.log is None
    without.write(rows_of(90))
    again = without.add_log()
    again.write(rows_of(95))
    assert content(table.branch("dev")).keys() == {0, 1, 80, 81, 90, 91, 95, 96}
    assert logged_ids(again) == {95, 96}
    assert table.verify_log().is_equal


def test_streams_write_and_read_a_branch_by_its_log(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    branch = table.branch("dev").add_log()
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
