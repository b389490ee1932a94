"""What became of a micro-batch: a line of the log, and the progress of its query."""

from __future__ import annotations

import dataclasses
import json
import logging
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from lakelog.catalog import Catalog
from lakelog.spark import LakelogSink, progress_with_commits, write_stream
from lakelog.spark.capture import field_capture
from lakelog.spark.sink.commits import KEPT_COMMITS, BatchCommit, BatchOutcome, KeptCommits

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])
RUN = str(uuid.uuid4())


def commit(batch_id: int, table: str = "db.t", outcome: BatchOutcome = BatchOutcome.COMMITTED) -> BatchCommit:
    return BatchCommit(
        table=table,
        user="q",
        batch_id=batch_id,
        outcome=outcome,
        millis=80,
        row_count=5,
        file_count=2,
        snapshot_id=3,
        commit_millis=1_700_000_000_012,
        log_offsets={1: 7, 0: 12},
    )


def progress_of(batch_id: int) -> StreamingQueryProgress:
    """What Spark makes of a batch of a foreachBatch sink."""
    fields: dict[str, object] = {
        "id": str(uuid.uuid4()),
        "runId": RUN,
        "name": None,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": batch_id,
        "batchDuration": 1,
        "stateOperators": [],
        "sources": [],
        "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
        "observedMetrics": {"mine": {"n": 1}},
    }
    return StreamingQueryProgress.fromJson(fields)


def test_the_progress_of_a_batch_says_what_it_did() -> None:
    KEPT_COMMITS.add(RUN, commit(1), writer_name=None)
    KEPT_COMMITS.add(RUN, commit(1), writer_name="b")

    progress = progress_with_commits(progress_of(1))

    assert progress.sink.numOutputRows == 10
    assert progress.observedMetrics["mine"].n == 1
    row = progress.observedMetrics["lakelog:db.t"]
    assert row.asDict() == {
        "outcome": "committed",
        "rows": 5,
        "files": 2,
        "snapshot_id": 3,
        "commit_time": "2023-11-14T22:13:20.012Z",
        "log_offsets": {"0": 12, "1": 7},
        "millis": 80,
        "lineage_failures": 0,
    }
    assert progress.observedMetrics["lakelog:db.t/b"] == row
    assert json.loads(progress.json)["observedMetrics"]["lakelog:db.t"]["snapshot_id"] == 3


def test_a_commit_time_beyond_the_years_of_dates_is_given_in_milliseconds() -> None:
    later = dataclasses.replace(commit(1), commit_millis=253_402_300_800_000)
    assert later.metrics()["commit_time"] == "253402300800000 ms"


def test_the_progress_of_another_batch_stays_as_it_is() -> None:
    given = progress_of(99)
    assert progress_with_commits(given) is given


def test_a_process_remembers_so_many_batches_and_no_more() -> None:
    kept = KeptCommits(batches_max=3)
    for batch_id in range(5):
        kept.add("r", commit(batch_id), writer_name=None)
    assert [batch_id for batch_id in range(5) if kept.of("r", batch_id)] == [2, 3, 4]


def test_a_batch_on_spark_connect_is_not_remembered() -> None:
    kept = KeptCommits()
    kept.add(None, commit(1), writer_name=None)
    assert kept.of("None", 1) == {}


def test_a_batch_is_one_line_and_an_empty_one_is_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="lakelog"):
        commit(1).log()
        commit(2, outcome=BatchOutcome.EMPTY).log()
    assert caplog.messages == [
        "batch table=db.t batch=1 user=q outcome=committed rows=5 files=2 snapshot=3 log_offsets=0:12,1:7 millis=80"
    ]


def test_a_stream_logs_its_batches_and_shows_them_in_its_progress(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="lakelog")
    table = Catalog(tmp_path / "lake").create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1, "v": "a"}\n{"id": 2, "v": "b"}\n')
    rows = spark.readStream.schema("id BIGINT, v STRING").json(str(tmp_path / "in"))

    query = write_stream(rows, table, checkpoint_location=tmp_path / "c", available_now=True)
    query.awaitTermination()

    (progress,) = query.recentProgress
    assert query.lastProgress == progress
    row = progress.observedMetrics["lakelog:db.t"]
    assert (progress.sink.numOutputRows, row.rows, row.snapshot_id, row.log_offsets) == (2, 2, 1, {})
    assert row.commit_time.endswith("Z")
    (line,) = [one for one in caplog.messages if one.startswith("batch ")]
    assert line.startswith(f"batch table=db.t batch=0 user={query.id} outcome=committed rows=2 files=1 snapshot=1 ")

    def again(batch: DataFrame, batch_id: int) -> None:
        LakelogSink(table)(batch, batch_id)

    for name in ("0", ".0.crc"):  # so that Spark runs the batch again
        (tmp_path / "c" / "commits" / name).unlink()
    writer = rows.writeStream.foreachBatch(again).option("checkpointLocation", str(tmp_path / "c"))
    replay = writer.trigger(availableNow=True).start()
    replay.awaitTermination()

    assert replay.lastProgress is not None
    replayed = progress_with_commits(replay.lastProgress)
    assert replayed.sink.numOutputRows == 0
    assert replayed.observedMetrics["lakelog:db.t"].outcome == "replayed"


def test_the_progress_counts_the_analyses_of_lineage_that_failed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError("no JSON")

    monkeypatch.setattr(field_capture, "fields_of_plan", failing)
    catalog = Catalog(tmp_path / "lake", options={"data-lineage": "true"})
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "1"})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1, "v": "a"}\n')
    rows = spark.readStream.schema("id BIGINT, v STRING").json(str(tmp_path / "in"))

    query = write_stream(rows, table, checkpoint_location=tmp_path / "c", available_now=True)
    query.awaitTermination()

    (progress,) = query.recentProgress
    row = progress.observedMetrics["lakelog:db.t"]
    assert (row.outcome, row.rows) == ("committed", 1)  # the batch is written all the same
    assert row.lineage_failures >= 1
