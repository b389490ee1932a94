from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql.streaming.listener import SourceProgress, StreamingQueryProgress

from demo.jobs import has_read_all, to_micro_batch
from demo.latency import MicroBatch


def progress(end_offset: object, **phases: int) -> StreamingQueryProgress:
    """A report as Spark makes it, of a batch that began a second after 2026 did."""
    source = SourceProgress.fromJson(
        {
            "description": "lakelog",
            "startOffset": None,
            "endOffset": end_offset,
            "latestOffset": None,
            "numInputRows": 30,
            "inputRowsPerSecond": 1.0,
            "processedRowsPerSecond": 1.0,
        }
    )
    report = StreamingQueryProgress.__new__(StreamingQueryProgress)
    report.update(timestamp="2026-01-01T00:00:01.000Z", batchId=7, durationMs=phases, sources=[source], numInputRows=30)
    return report


def test_a_batch_is_handed_to_the_sink_after_its_planning() -> None:
    report = progress(
        {"log": {"0": 5, "1": 9}, "consumed": 3}, latestOffset=40, walCommit=60, addBatch=700, triggerExecution=900
    )
    assert to_micro_batch(report) == MicroBatch(
        identifier=7, row_count=30, seconds=0.9, read_at=1767225601.1, log_offsets={0: 5, 1: 9}
    )


@pytest.mark.parametrize("offset", [{"snapshot": 3, "split": 2}, {"logOffset": 4}])
def test_a_batch_that_read_no_log_has_no_log_offsets(offset: object) -> None:
    batch = to_micro_batch(progress(offset, addBatch=1, triggerExecution=2))
    assert batch is not None
    assert batch.log_offsets is None


def test_a_report_of_having_no_data_is_no_batch() -> None:
    assert to_micro_batch(progress({"log": {"0": 5}}, latestOffset=40, triggerExecution=41)) is None


def test_the_reader_is_done_at_the_end_of_the_log_and_not_before(tmp_path: Path) -> None:
    log_end = tmp_path / "log-end.json"
    batch = MicroBatch(identifier=1, row_count=1, seconds=1.0, read_at=1.0, log_offsets={0: 5, 1: 9})
    assert not has_read_all(batch, log_end)

    log_end.write_text(json.dumps({"0": 5, "1": 10}), encoding="utf-8")
    assert not has_read_all(batch, log_end)

    log_end.write_text(json.dumps({"0": 5, "1": 8}), encoding="utf-8")
    assert has_read_all(batch, log_end)
