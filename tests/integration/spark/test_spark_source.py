"""Hybrid streaming reads with real Spark and a real broker: snapshot, then log, exactly once."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any  # Any: lineage is JSON

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.catalog import Catalog, Table
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.protocol.state.log_leases import LogLeases
from lakelog.spark import write_stream
from tests.support.logs.changes import TABLE_SCHEMA, ChangeHistory, Row, make_history
from tests.support.logs.log_records import log_of_table, lose_records
from tests.support.logs.promises import check_log_equals_files, fold_read_batches
from tests.support.streams.streams import feed, keep_batch, write_changes

pytestmark = pytest.mark.integration

BUCKETS = 3


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    options = {"bucket": str(BUCKETS), "log.system": "kafka", "log.changelog-mode": "all"}
    return catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=options)


def changes_of(spark: SparkSession, table: Table, **options: str) -> DataFrame:
    return spark.readStream.format("lakelog").options(**{"row-kind": "true"} | options).load(table.path)


def start(rows: DataFrame, folder: Path, *, available_now: bool) -> StreamingQuery:
    (folder / "out").mkdir(exist_ok=True)
    writer = rows.writeStream.foreachBatch(partial(keep_batch, folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "reader"))
    return (
        writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="200 milliseconds")
    ).start()


def read_now(spark: SparkSession, table: Table, folder: Path, **options: str) -> int:
    """Read what is there; how many batches are there now."""
    start(changes_of(spark, table, **options), folder, available_now=True).awaitTermination()
    return len(list((folder / "out").glob("batch-*.parquet")))


def history_of(files: int) -> ChangeHistory:
    return make_history(3, files=files, changes_per_file=150, keys=60)


def test_restarts_and_limits_change_nothing_in_what_is_read(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    history = history_of(6)
    batches = [0]
    for files in (range(2), range(2, 3), range(3, 6)):
        feed(tmp_path, history, files)
        write_changes(spark, tmp_path, table)
        batches.append(read_now(spark, table, tmp_path, maxRowsPerTrigger="40"))
        assert fold_read_batches(tmp_path / "out") == Counter(history.truths[files.stop - 1])

    # A batch holds one bucket's part of one writer's batch at least: three of those are no batch of 40 records.
    assert batches[3] - batches[2] > 3
    check_log_equals_files(table)
    rest = read_now(spark, table, tmp_path)
    assert rest == batches[3]


def test_a_stream_that_is_up_to_date_loses_nothing_when_the_log_is_deleted_behind_it(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    history = history_of(2)
    feed(tmp_path, history, range(1))
    write_changes(spark, tmp_path, table)
    read_now(spark, table, tmp_path)
    for bucket in range(BUCKETS):
        lose_records(table, bucket)

    feed(tmp_path, history, range(1, 2))
    write_changes(spark, tmp_path, table)
    read_now(spark, table, tmp_path)

    assert fold_read_batches(tmp_path / "out") == Counter(history.truths[1])
    leases = LogLeases(table.store, log_of_table(table).topic_id).held(now_millis=0)
    assert {bucket for lease in leases for bucket in lease} == set(range(BUCKETS))  # what has not run for a day counts


def test_a_reader_that_runs_beside_the_writer_sees_every_change_once(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    history = history_of(5)
    feed(tmp_path, history, range(1))
    write_changes(spark, tmp_path, table)
    reader = start(changes_of(spark, table), tmp_path, available_now=False)
    reader.processAllAvailable()  # a snapshot taken later would hold no change to see
    feed(tmp_path, history, range(1, 5))
    write_changes(spark, tmp_path, table)
    reader.processAllAvailable()
    reader.stop()
    assert fold_read_batches(tmp_path / "out") == Counter(history.truths[-1])

    kinds = Counter(
        kind
        for file in (tmp_path / "out").glob("*.parquet")
        for kind in pq.read_table(file, columns=["_row_kind"])["_row_kind"].to_pylist()
    )
    assert kinds["-U"] == kinds["+U"] > 0 < kinds["-D"]


@pytest.mark.full
def test_a_stream_between_tables_records_its_source_and_upserts_an_aggregation(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    history = history_of(3)
    target = _counts_table(tmp_path)
    for files in (range(2), range(2, 3)):
        feed(tmp_path, history, files)
        write_changes(spark, tmp_path, table)
        sign = sf.when(sf.col("_row_kind").isin("+I", "+U"), 1).otherwise(-1)
        counts = changes_of(spark, table).groupBy((sf.col("id") % 7).alias("rest")).agg(sf.sum(sign).alias("count"))
        kind = sf.when(sf.col("count") == 0, "-D").otherwise("+U")
        query = write_stream(
            counts.withColumn("_row_kind", kind),
            target,
            checkpoint_location=tmp_path / "counts",
            output_mode="update",
            available_now=True,
        )
        query.awaitTermination()

    truth = Counter(row[0] % 7 for row in history.truths[-1])
    assert dict(zip(*(target.to_arrow()[name].to_pylist() for name in ("rest", "count")), strict=True)) == dict(truth)
    newest = appends_of(target)[-1]
    source = _source_of(newest.properties["lakelog.lineage"])
    assert (source["table"], source["uuid"]) == ("db.t", table.store.uuid)
    assert source["to"]["snapshot"] >= appends_of(table)[-1].id
    assert source["exact"]
    assert source["from"]["snapshot"] < source["to"]["snapshot"]
    (whole,) = [one for one in table.snapshots() if one.id == source["to"]["snapshot"]]
    held = {bucket: at[0] for bucket, at in json.loads(whole.properties["lakelog.log"])["positions"].items()}
    assert source["log"]["to"] == held


def _counts_table(folder: Path) -> Table:
    schema = pa.schema([pa.field("rest", pa.int64(), nullable=False), pa.field("count", pa.int64())])
    return Catalog(str(folder / "lake")).create_table("db.counts", schema=schema, primary_keys=["rest"])


def appends_of(table: Table) -> list[Snapshot]:
    """The snapshots of batches, without those of compactions."""
    return [one for one in table.snapshots() if one.commit_kind is CommitKind.APPEND]


def _source_of(lineage: str) -> dict[str, Any]:
    (batch,) = json.loads(lineage)["batches"]
    (source,) = batch["sources"]
    assert isinstance(source, dict)
    return source


@pytest.mark.full
def test_a_stream_may_begin_with_changes_from_a_point_on(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    history = history_of(3)
    for at in range(3):
        feed(tmp_path, history, range(at, at + 1))
        write_changes(spark, tmp_path, table)
    first, second = appends_of(table)[:2]
    starts = {
        "from snapshot": {"log.scan": "from-snapshot", "scan.snapshot-id": str(second.id)},
        "from timestamp": {"log.scan": "from-timestamp", "scan.timestamp-millis": str(first.time_millis)},
        "latest": {"log.scan": "latest"},
    }
    for name, options in starts.items():
        (tmp_path / name).mkdir()
        read_now(spark, table, tmp_path / name, **options)

    changes = fold_changes(history, range(1, 3))
    assert fold_read_batches(tmp_path / "from snapshot/out") == changes
    assert fold_read_batches(tmp_path / "from timestamp/out") == changes
    assert fold_read_batches(tmp_path / "latest/out") == Counter()


def fold_changes(history: ChangeHistory, files: range) -> Counter[Row]:
    """What these files change in the rows: new ones plus, old ones minus."""
    changed: Counter[Row] = Counter()
    for at in files:
        for kind, row in history.files[at]:
            changed[row] += 1 if kind in ("+I", "+U") else -1
    return Counter({row: count for row, count in changed.items() if count})
