"""A batch that is planned again from other source offsets is never taken for the one that is in the table already."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.logstore.kafka.clients.offsets import high_watermarks
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.spark import write_stream
from lakelog.spark.sink import batch_write
from tests.support.examples import rest_in_full
from tests.support.logs.changes import TABLE_SCHEMA

pytestmark = pytest.mark.integration
OTHER_OFFSETS = r"batch 0 of .* (was written with|the same batch with) other source offsets"


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "log.system": "kafka"}
    return catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=options)


@pytest.fixture
def plain(tmp_path: Path) -> Table:
    return Catalog(str(tmp_path / "lake")).create_table("db.plain", schema=TABLE_SCHEMA, primary_keys=["id"])


def source(spark: SparkSession, folder: Path, *ids: int) -> DataFrame:
    """A stream of one row an id from the files in a folder, to which one with these is added."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"id": number, "name": "a", "amount": 1}) + "\n" for number in ids]
    if lines:
        (folder / str(ids[0])).write_text("".join(lines))
    return spark.readStream.schema("id BIGINT, name STRING, amount BIGINT").json(str(folder))


def run(rows: DataFrame, table: Table, checkpoint: Path, *, commit_user: str | None = None) -> None:
    write_stream(
        rows, table, checkpoint_location=checkpoint, available_now=True, commit_user=commit_user
    ).awaitTermination()


def die_before_the_snapshot(rows: DataFrame, table: Table, checkpoint: Path, *, commit_user: str | None = None) -> None:
    """Run a batch that is logged, and end the process."""

    def die(*_arguments: object, **_named: object) -> None:
        raise RuntimeError("killed before the snapshot")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_write, "commit_batch", die)
        with pytest.raises(StreamingQueryException, match="killed before"):
            run(rows, table, checkpoint, commit_user=commit_user)


def plan_again(checkpoint: Path) -> None:
    """Lose the offsets of batch 0: the batch will have all files that are there then."""
    (checkpoint / "offsets/0").unlink()
    (checkpoint / "offsets/.0.crc").unlink()


def log_ends(table: Table) -> list[int]:
    assert table.log is not None
    ends = high_watermarks(kafka_topic(table.log), table.store.bucket_count)
    return [ends[bucket].offset for bucket in sorted(ends)]


def ids_of(table: Table) -> list[int]:
    return sorted(table.to_arrow(columns=["id"])["id"].to_pylist())


def test_a_logged_batch_whose_offsets_changed_is_refused_and_the_next_writer_takes_it_in(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    one_bucket = source(spark, tmp_path / "in", 1)
    die_before_the_snapshot(one_bucket, table, tmp_path / "c")
    ends = log_ends(table)
    plan_again(tmp_path / "c")

    with pytest.raises(StreamingQueryException, match=OTHER_OFFSETS):
        run(source(spark, tmp_path / "in", *range(2, 20)), table, tmp_path / "c")

    assert log_ends(table) == ends  # nothing of the changed batch, in no bucket
    assert list(table.snapshots()) == []
    run(source(spark, tmp_path / "other", *range(30, 40)), table, tmp_path / "new")
    assert ids_of(table) == [1, *range(30, 40)]
    with pytest.raises(StreamingQueryException, match=OTHER_OFFSETS):  # by the ledger now
        run(source(spark, tmp_path / "in"), table, tmp_path / "c")


def test_a_user_given_by_name_with_a_new_checkpoint_is_refused_though_its_source_counts_alike(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    die_before_the_snapshot(source(spark, tmp_path / "in", 1), table, tmp_path / "c", commit_user="me")

    with pytest.raises(StreamingQueryException, match=OTHER_OFFSETS):
        run(source(spark, tmp_path / "other", 5, 6), table, tmp_path / "new", commit_user="me")

    run(source(spark, tmp_path / "in"), table, tmp_path / "c", commit_user="me")
    assert ids_of(table) == [1]


def test_a_table_without_a_log_refuses_a_batch_whose_offsets_changed(
    spark: SparkSession, plain: Table, tmp_path: Path
) -> None:
    run(source(spark, tmp_path / "in", 1), plain, tmp_path / "c")
    run(source(spark, tmp_path / "other", 2), plain, tmp_path / "mine", commit_user="me")
    shutil.rmtree(tmp_path / "c/commits")
    plan_again(tmp_path / "c")

    with pytest.raises(StreamingQueryException, match=OTHER_OFFSETS):
        run(source(spark, tmp_path / "in", 8), plain, tmp_path / "c")
    with pytest.raises(StreamingQueryException, match=OTHER_OFFSETS):
        run(source(spark, tmp_path / "another", 9), plain, tmp_path / "new", commit_user="me")

    assert ids_of(plain) == [1, 2]


@pytest.mark.parametrize("way", rest_in_full(["a log", "format"], 1))
def test_a_restored_checkpoint_that_gives_a_batch_more_files_is_refused(
    spark: SparkSession, table: Table, plain: Table, tmp_path: Path, way: str
) -> None:
    checkpoint, written = tmp_path / "c", table if way == "a log" else plain

    def run_next(*ids: int) -> None:
        rows = source(spark, tmp_path / "in", *ids)
        if way == "a log":
            run(rows, table, checkpoint)
            return
        options = {"checkpointLocation": str(checkpoint)}
        writer = rows.writeStream.format("lakelog").trigger(availableNow=True).options(**options)
        writer.start(plain.path).awaitTermination()

    run_next(1)
    shutil.copytree(checkpoint, tmp_path / "backup")
    run_next(2)
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "backup", checkpoint)

    with pytest.raises(StreamingQueryException, match=OTHER_OFFSETS.replace("batch 0", "batch 1")):
        run_next(3)  # Spark calls both files number 1, as the one of 2 alone before

    assert ids_of(written) == [1, 2]


def test_a_stream_by_format_is_not_a_changed_one(spark: SparkSession, plain: Table, tmp_path: Path) -> None:
    def run_format(checkpoint: str, *ids: int) -> None:
        writer = (
            source(spark, tmp_path / f"in-{checkpoint}", *ids).writeStream.format("lakelog").trigger(availableNow=True)
        )
        options = {"checkpointLocation": str(tmp_path / checkpoint), "commit-user": "me"}
        writer.options(**options).start(plain.path).awaitTermination()

    run_format("c", 1)
    (tmp_path / "c/commits/0").unlink()
    (tmp_path / "c/commits/.0.crc").unlink()
    run_format("c", 1)  # a replay
    assert [one.commit_identifier for one in plain.snapshots()] == [0]

    with pytest.raises(StreamingQueryException, match=OTHER_OFFSETS):
        run_format("new", 2)
    assert ids_of(plain) == [1]
