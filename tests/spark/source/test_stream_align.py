"""Batches that end at snapshots, and how long a stream waits for a writer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import ConflictError
from lakelog.protocol.statements.unfinished import UnfinishedBatch
from lakelog.streams.phases.stream_align import SnapshotPlace, WriterWait
from lakelog.streams.phases.stream_log import snapshot_ends
from lakelog.streams.reading.admission import NO_LIMITS, Limits, advance_to_snapshot
from lakelog.streams.reading.offsets import BucketCount, LogOffset

WRITER = UnfinishedBatch(user="q", identifier=7, buckets=(0, 2))


def position(snapshot_id: int, *offsets: int) -> LogOffset:
    counts = {bucket: BucketCount(records=offset, size_bytes=10 * offset) for bucket, offset in enumerate(offsets)}
    return LogOffset(topic_id="t", offsets=dict(enumerate(offsets)), counts=counts, consumed=snapshot_id)


def place(snapshot_id: int, *offsets: int, unfinished: tuple[UnfinishedBatch, ...] = ()) -> SnapshotPlace:
    return SnapshotPlace(
        position=position(snapshot_id, *offsets), unfinished=unfinished, time_millis=snapshot_id * 1_000
    )


@st.composite
def positions(draw: st.DrawFn) -> list[LogOffset]:
    offsets = [0, 0]
    found = []
    for snapshot_id in range(draw(st.integers(0, 6))):
        offsets = [offset + draw(st.integers(0, 9)) for offset in offsets]
        found.append(position(snapshot_id + 1, *offsets))
    return found


@given(snapshots=positions(), rows=st.integers(1, 20))
def test_every_aligned_batch_ends_at_one_snapshot_and_all_are_passed(snapshots: list[LogOffset], rows: int) -> None:
    reached = position(0, 0, 0)
    for _ in range(len(snapshots) + 1):
        newer = [one for one in snapshots if one.consumed > reached.consumed]
        end = advance_to_snapshot(reached, newer, Limits(rows=rows))
        if end is reached:
            break
        assert end in newer
        passed = sum(end.offsets[bucket] - reached.offsets[bucket] for bucket in end.offsets)
        moved = [one for one in newer if one.offsets != reached.offsets]
        assert passed <= rows or end == next(one for one in moved)
        reached = end
    assert not snapshots or reached.offsets == snapshots[-1].offsets


def test_without_a_limit_the_newest_snapshot_ends_the_batch() -> None:
    snapshots = [position(1, 3, 0), position(2, 3, 4), position(3, 3, 4)]

    assert advance_to_snapshot(position(0, 0, 0), snapshots, NO_LIMITS).offsets == {0: 3, 1: 4}


@given(snapshots=positions(), versions=st.integers(1, 3))
def test_a_batch_passes_no_more_snapshots_of_rows_than_it_may(snapshots: list[LogOffset], versions: int) -> None:
    start = position(0, 0, 0)
    end = advance_to_snapshot(start, snapshots, NO_LIMITS, versions_max=versions)

    passed = {tuple(one.offsets.values()) for one in snapshots if one.consumed <= end.consumed} - {(0, 0)}
    there = {tuple(one.offsets.values()) for one in snapshots} - {(0, 0)}
    assert len(passed) == min(versions, len(there))
    first = next((one for one in snapshots if one.offsets == end.offsets), start)
    assert end is first or end is start  # of those at the same offsets the first


def test_a_snapshot_before_the_start_in_a_bucket_ends_no_batch() -> None:
    start = position(0, 2, 0)

    assert advance_to_snapshot(start, [position(1, 1, 5)], NO_LIMITS) is start


def waiting(times: list[float], *, now_millis: int = 0) -> WriterWait:
    return WriterWait("db.t", 10_000, clock=lambda: times[0], now_millis=lambda: now_millis)


def test_a_writer_that_never_comes_back_ends_the_stream_with_its_name() -> None:
    times = [0.0]
    wait = waiting(times)
    behind = [place(4, 1, 1, unfinished=(WRITER,))]
    wait.waits_behind(behind)
    times[0] = 10.0
    wait.waits_behind(behind)
    wait.check(is_fixed=False)

    times[0] = 11.0
    with pytest.raises(ConflictError) as caught:
        wait.check(is_fixed=False)
    for part in ("db.t from 4 on", "batch 7 of 'q' (buckets 0, 2)", "11 s", "`lakelog log abandon-writer db.t q`"):
        assert part in str(caught.value)


def test_the_wait_begins_anew_when_the_writer_has_come_back() -> None:
    times = [0.0]
    wait = waiting(times)
    wait.waits_behind([place(4, 1, unfinished=(WRITER,))])
    wait.proceeds()
    times[0] = 60.0
    wait.waits_behind([place(9, 1, unfinished=(WRITER,))])

    wait.check(is_fixed=False)


def test_a_run_with_a_fixed_end_fails_by_the_age_of_the_unfinished_batch() -> None:
    behind = [place(4, 1, unfinished=(WRITER,)), place(5, 2, unfinished=(WRITER,))]
    young, old = waiting([0.0], now_millis=14_000), waiting([0.0], now_millis=14_001)
    for wait in (young, old):
        wait.waits_behind(behind)

    young.check(is_fixed=True)
    with pytest.raises(ConflictError, match="has not come back in 10 s"):
        old.check(is_fixed=True)


def test_records_are_of_the_snapshot_that_follows_them() -> None:
    places = [place(1, 2), place(2, 5), place(3, 5), place(6, 9)]

    assert snapshot_ends([(0, 3, 12)], position(1, 3), places)[0] == [(3, 0), (5, 2), (9, 0)]
