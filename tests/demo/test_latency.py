from __future__ import annotations

from pathlib import Path

import pytest

from demo.latency import MicroBatch, Offsets, Spread, log_to_reader_seconds, read_batches


def read(identifier: int, read_at: float, offsets: Offsets | None) -> MicroBatch:
    return MicroBatch(identifier=identifier, row_count=1, seconds=0.5, read_at=read_at, log_offsets=offsets)


STARTED = (read(0, 8.0, {0: 10, 1: 10}), read(1, 9.0, {0: 12, 1: 12}))  # the snapshot, then what it lacked


def test_a_batch_arrives_when_all_its_buckets_have() -> None:
    batches = [*STARTED, read(2, 12.0, {0: 20, 1: 12}), read(3, 15.0, {0: 20, 1: 20})]
    assert log_to_reader_seconds({5: 11.5}, {5: {0: 20, 1: 20}}, batches) == {5: 3.5}


@pytest.mark.parametrize("end", [{0: 10, 1: 10}, {0: 12, 1: 12}])
def test_what_the_reader_started_with_did_not_come_fresh_from_the_log(end: Offsets) -> None:
    batches = [*STARTED, read(2, 15.0, {0: 20, 1: 20})]
    assert log_to_reader_seconds({5: 1.0}, {5: end}, batches) == {}


def test_a_batch_that_has_not_arrived_has_no_time() -> None:
    batches = [*STARTED, read(2, 15.0, {0: 20, 1: 20})]
    assert log_to_reader_seconds({5: 1.0}, {5: {0: 30}}, batches) == {}


def test_micro_batches_are_read_as_they_are_written(tmp_path: Path) -> None:
    batches = [read(0, 1.5, None), read(1, 2.5, {0: 7, 3: 9})]
    path = tmp_path / "batches.jsonl"
    path.write_text("".join(f"{batch.to_json()}\n" for batch in batches) + '{"batch": 2, "ro', encoding="utf-8")
    assert read_batches(path) == batches


@pytest.mark.parametrize(("count", "p95"), [(1, 1), (20, 19), (40, 38), (100, 95)])
def test_the_95th_percentile_is_a_figure_that_was_measured(count: int, p95: int) -> None:
    spread = Spread.of(range(1, count + 1))
    assert spread is not None
    assert (spread.count, spread.p95, spread.max) == (count, p95, count)


def test_nothing_has_no_spread() -> None:
    assert Spread.of([]) is None
