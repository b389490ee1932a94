"""Listeners that are told of the commits of a sink."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.filestore.commit.batches import append_commit
from lakelog.spark import CommitListener, write, write_stream
from lakelog.spark.sink.listeners import whole_in

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
Told = tuple[int, int, str]


class Kept(CommitListener):
    """Keeps what it is told, and fails where it is asked to."""

    def __init__(self, *, fails: bool = False) -> None:
        self.told: list[Told] = []
        self._fails = fails

    def notify_commit_complete(self, identifier: int, snapshot_id: int, kind: str) -> None:
        self.told.append((identifier, snapshot_id, kind))
        if self._fails:
            raise RuntimeError("the listener is broken")


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = Catalog(tmp_path / "lake")
    for name in ("s", "t"):
        catalog.create_table(f"db.{name}", schema=SCHEMA, primary_keys=["id"], options={"write-only": "true"})
    return catalog


def put(catalog: Catalog, number: int) -> None:
    catalog.load_table("db.s").write(pa.table({"id": [number]}, schema=SCHEMA))


def run(spark: SparkSession, catalog: Catalog, folder: Path, *listeners: CommitListener) -> None:
    """Read the source to its end."""
    rows: DataFrame = (
        spark.readStream.format("lakelog").option("stream.align", "snapshot").load(catalog.load_table("db.s").path)
    )
    query = write_stream(
        rows,
        "db.t",
        catalog=catalog,
        checkpoint_location=folder / "checkpoint",
        available_now=True,
        listeners=listeners,
    )
    query.awaitTermination()


def commits(table: Table) -> list[Told]:
    return sorted((one.commit_identifier, one.id, one.commit_kind.value) for one in table.snapshots())


@pytest.mark.full
def test_listeners_are_told_of_each_batch_and_their_errors_change_nothing(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(catalog, 1)
    broken, kept = Kept(fails=True), Kept()
    run(spark, catalog, tmp_path, broken, kept)
    put(catalog, 2)
    put(catalog, 3)
    with caplog.at_level(logging.ERROR, logger="lakelog.filestore"):
        run(spark, catalog, tmp_path, broken, kept)

    assert (
        kept.told
        == broken.told
        == commits(catalog.load_table("db.t"))
        == [(0, 1, "APPEND"), (1, 2, "APPEND"), (2, 3, "APPEND")]
    )
    assert "a listener of the commits of table db.t failed at snapshot 3 (APPEND, identifier 2)" in caplog.text


def test_a_batch_whose_process_died_before_the_call_is_told_of_by_its_replay(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    put(catalog, 1)
    run(spark, catalog, tmp_path)
    put(catalog, 2)
    run(spark, catalog, tmp_path, Kept())
    (tmp_path / "checkpoint" / "commits" / "1").unlink()  # dead before Spark recorded the batch as done
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    kept = Kept()
    run(spark, catalog, tmp_path, kept)

    assert kept.told == [(1, 2, "APPEND")]
    assert len(commits(catalog.load_table("db.t"))) == 2


def test_the_snapshot_of_a_batch_is_found_as_long_as_it_lives(catalog: Catalog) -> None:
    table = catalog.load_table("db.t").store
    for user, identifier in (("a", 0), ("b", 0), ("a", 1), ("b", 1)):
        append_commit(table, user=user, identifier=identifier, digest=None, entries=[])
    found = {(user, number): whole_in(table, user, number) for user in "ab" for number in (0, 1)}

    assert {key: one.id for key, one in found.items() if one is not None} == {
        ("a", 0): 1, ("b", 0): 2, ("a", 1): 3, ("b", 1): 4
    }  # fmt: skip
    assert whole_in(table, "a", 2) is None
    catalog.load_table("db.t").upkeep.expire_snapshots(retain_max=1, retain_min=1, older_than="1 ms")
    assert whole_in(table, "a", 1) is None  # snapshot 4 has it, and may not be the first


@pytest.mark.full
def test_listeners_of_the_catalog_are_told_of_batches_of_streams_compactions_and_batch_writes(
    spark: SparkSession, tmp_path: Path
) -> None:
    kept = Kept()
    catalog = Catalog(tmp_path / "lake", listeners_of={"db.t": [kept]}.get)
    options = {"bucket": "1", "num-sorted-run.compaction-trigger": "2"}
    catalog.create_table("db.s", schema=SCHEMA, primary_keys=["id"], options={"write-only": "true"})
    catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    put(catalog, 0)
    stream = spark.readStream.format("lakelog").option("stream.align", "snapshot").load(catalog.load_table("db.s").path)
    query = write_stream(stream, "db.t", catalog=catalog, checkpoint_location=tmp_path / "checkpoint")
    query.processAllAvailable()
    for number in range(1, 4):
        put(catalog, number)
    query.processAllAvailable()
    query.stop()
    write(spark.createDataFrame([(9,)], "id BIGINT NOT NULL"), "db.t", catalog=catalog)

    assert sorted(kept.told, key=lambda one: one[1]) == sorted(
        commits(catalog.load_table("db.t")), key=lambda one: one[1]
    )
    kinds = [kind for _, _, kind in kept.told]
    assert "COMPACT" in kinds
    assert kinds.count("APPEND") == 5
