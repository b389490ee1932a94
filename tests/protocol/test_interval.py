"""When batches that are in the log alone get their snapshot: interval, bounds, end of a query, errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from lakelog.common.errors import UnavailableError
from lakelog.protocol.state.state import Batch
from lakelog.protocol.writing import interval
from lakelog.protocol.writing.driver import BucketConflictError
from lakelog.protocol.writing.interval import IntervalBounds, IntervalSnapshots
from lakelog.protocol.writing.lost_batches import LostBatchesError
from tests.protocol.test_pending import Snapshots, answer, header

SOON = 0.05
LATE = 3600.0


class Writer:
    """A writer of batches in bucket 0, and the snapshots that it has made."""

    def __init__(self, seconds: float, *, batches_max: int = 100, fails: Callable[[], None] = lambda: None) -> None:
        bounds = IntervalBounds(seconds=seconds, batches_max=batches_max, files_max=100, bytes_max=1 << 20)
        self.snapshots = IntervalSnapshots(bounds)
        self.made: list[int] = []
        self.came = threading.Event()
        self.fails = fails
        self.snapshots.take = self._take

    def write(self, identifier: int) -> bool:
        """Write a batch; whether its snapshot is due."""
        pending = self.snapshots.pending
        with self.snapshots.batch():
            logged = [(header(number), number + 1) for number in range(identifier + 1)]
            pending.add(
                Batch(user="stream", identifier=identifier, source_digest=None), [answer(0, 0, logged)], Snapshots()
            )
            if self.snapshots.is_due():
                self._take()
                return True
        return False

    def _take(self) -> None:
        self.fails()
        self.made.append(self.snapshots.pending.batches[-1].identifier)
        self.snapshots.pending.forget()
        self.came.set()


def test_a_quiet_stream_gets_its_snapshot_when_the_interval_is_over() -> None:
    writer = Writer(SOON)
    assert not writer.write(0)
    assert writer.came.wait(10)
    assert writer.made == [0]

    writer.came.clear()
    assert not writer.write(1), "the interval begins with the first batch that has no snapshot"
    assert writer.came.wait(10)
    assert writer.made == [0, 1]
    writer.snapshots.close()


def test_a_batch_that_comes_when_the_interval_is_over_makes_the_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IntervalSnapshots, "_watch", lambda _self: None)  # else the thread may come first
    now = [0.0]
    writer = Writer(LATE)
    writer.snapshots.clock = lambda: now[0]
    assert not writer.write(0)
    now[0] = LATE - 1
    assert not writer.write(1)
    now[0] = LATE
    assert writer.write(2)
    assert writer.made == [2]


def test_bounds_make_the_snapshot_before_the_interval_is_over() -> None:
    writer = Writer(LATE, batches_max=3)
    assert [writer.write(number) for number in range(4)] == [False, False, True, False]


def test_the_end_of_a_query_makes_the_snapshot_once() -> None:
    writer = Writer(LATE)
    writer.write(0)
    writer.snapshots.close()
    writer.snapshots.close()
    assert writer.made == [0]


def test_a_batch_right_behind_the_close_gets_its_snapshot_by_the_timer_too() -> None:
    writer = Writer(SOON)
    writer.snapshots.clock = lambda: 0.0  # the thread waits
    writer.write(0)
    with writer.snapshots._turn:  # the thread has not ended yet
        writer.snapshots.close()
        writer.came.clear()
        writer.snapshots.clock = time.monotonic
        writer.write(1)
    assert writer.came.wait(10)
    assert writer.made == [0, 1]


def test_the_timer_waits_for_the_batch_that_runs() -> None:
    writer = Writer(SOON)
    writer.write(0)
    with writer.snapshots.batch():
        time.sleep(4 * SOON)
        assert writer.made == []
    assert writer.came.wait(10)


def test_a_store_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interval, "RETRY_SECONDS", SOON)
    errors = [UnavailableError("the store is away"), UnavailableError("the store is away")]

    def fail() -> None:
        if errors:
            raise errors.pop()

    writer = Writer(SOON, fails=fail)
    writer.write(0)
    assert writer.came.wait(10)
    assert errors == []


def test_after_a_conflict_the_next_batch_takes_in_what_is_in_the_log() -> None:
    writer = Writer(SOON)
    gone = threading.Event()

    def conflict() -> None:
        writer.snapshots.pending.forget()
        gone.set()
        raise BucketConflictError("another writer came first")

    writer.fails = conflict
    writer.write(0)
    assert gone.wait(10)
    with writer.snapshots.batch():
        assert writer.snapshots.pending.is_blind
    assert writer.made == []
    writer.snapshots.close()


def test_a_loss_that_the_timer_finds_is_raised_to_the_next_batch() -> None:
    found = threading.Event()

    def lose() -> None:
        found.set()
        raise LostBatchesError("the log of bucket 0 no longer has batch 0")

    writer = Writer(SOON, fails=lose)
    writer.write(0)
    assert found.wait(10)
    with pytest.raises(LostBatchesError, match="bucket 0"):
        writer.write(1)
    with pytest.raises(LostBatchesError, match="bucket 0"):
        writer.snapshots.close()


def test_an_attempt_that_failed_leaves_what_was_whole_and_visits_all_buckets() -> None:
    writer = Writer(LATE)
    writer.write(0)
    with pytest.raises(UnavailableError), writer.snapshots.batch():
        raise UnavailableError("the broker is away")
    assert writer.snapshots.pending.is_blind
    writer.snapshots.close()
    assert writer.made == [0]


def test_a_run_that_is_over_makes_no_snapshot() -> None:
    writer = Writer(SOON)
    writer.write(0)
    writer.snapshots.abandon()
    assert not writer.came.wait(4 * SOON)
    assert writer.made == []
