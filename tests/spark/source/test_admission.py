"""Where micro-batches end, over random logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakelog.streams.reading.admission import NO_LIMITS, Limits, advance_log, take_snapshots, take_splits
from lakelog.streams.reading.offsets import BucketCount, LogOffset

RECORD_BYTES = 10


@dataclass(frozen=True, slots=True)
class Log:
    """Snapshots of a log, the first at its beginning, and the offsets where it ends."""

    snapshots: Sequence[LogOffset]
    ends: dict[int, int]

    def records_between(self, start: LogOffset, end: LogOffset) -> int:
        """Records between two places that are both snapshots' in every bucket."""
        return sum(end.counts[bucket].records - start.counts[bucket].records for bucket in self.ends)


@st.composite
def logs(draw: st.DrawFn) -> Log:
    buckets = draw(st.integers(1, 4))
    offsets = dict.fromkeys(range(buckets), 0)
    counts = dict.fromkeys(range(buckets), BucketCount())
    snapshots = [LogOffset(topic_id="t", offsets=dict(offsets), counts=dict(counts), consumed=0)]
    for snapshot_id in range(1, draw(st.integers(0, 6)) + 1):
        for bucket in range(buckets):
            records, gap = draw(st.integers(0, 20)), draw(st.integers(0, 3))
            before = counts[bucket]
            counts[bucket] = BucketCount(
                records=before.records + records, size_bytes=before.size_bytes + records * RECORD_BYTES
            )
            offsets[bucket] += records + (gap if records else 0)
        snapshots.append(LogOffset(topic_id="t", offsets=dict(offsets), counts=dict(counts), consumed=snapshot_id))
    ends = {bucket: offset + draw(st.integers(0, 5)) for bucket, offset in offsets.items()}
    return Log(snapshots, ends)


def batches(log: Log, limits: Limits) -> list[LogOffset]:
    """The ends of all batches, the start first."""
    reached = [log.snapshots[0]]
    while True:
        newer = [one for one in log.snapshots if one.consumed > reached[-1].consumed]
        end = advance_log(reached[-1], newer, log.ends, limits)
        if end is reached[-1]:
            return reached
        reached.append(end)
        assert len(reached) < 200


@given(log=logs(), rows=st.integers(1, 40))
def test_batches_under_a_limit_reach_the_end_and_never_step_back(log: Log, rows: int) -> None:
    reached = batches(log, Limits(rows=rows))

    assert dict(reached[-1].offsets) == log.ends
    for before, after in pairwise(reached):
        assert all(after.offsets[bucket] >= before.offsets[bucket] for bucket in log.ends)
        assert after.consumed >= before.consumed


@given(log=logs(), rows=st.integers(1, 40))
def test_every_batch_ends_where_transactions_end(log: Log, rows: int) -> None:
    for end in batches(log, Limits(rows=rows)):
        for bucket, offset in end.offsets.items():
            assert offset in {one.offsets[bucket] for one in log.snapshots} | {log.ends[bucket]}


@given(log=logs(), rows=st.integers(1, 40))
def test_a_batch_between_snapshots_exceeds_the_limit_only_by_being_one_transaction(log: Log, rows: int) -> None:
    whole = replace_ends(log)
    reached = batches(whole, Limits(rows=rows))
    for before, after in pairwise(reached):
        moved = [bucket for bucket in whole.ends if after.offsets[bucket] > before.offsets[bucket]]
        assert whole.records_between(before, after) <= rows or len(moved) == 1


def replace_ends(log: Log) -> Log:
    """The log without anything behind its newest snapshot."""
    return replace(log, ends=dict(log.snapshots[-1].offsets))


@given(log=logs())
def test_a_snapshot_counts_as_consumed_when_every_bucket_has_passed_it(log: Log) -> None:
    for end in batches(log, Limits(rows=7)):
        snapshot = log.snapshots[end.consumed]
        assert all(end.offsets[bucket] >= offset for bucket, offset in snapshot.offsets.items())


@given(log=logs())
def test_without_limits_one_batch_reads_everything(log: Log) -> None:
    assert len(batches(log, NO_LIMITS)) <= 2


@given(
    sizes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8),
    rows=st.one_of(st.none(), st.integers(0, 20)),
    size_bytes=st.one_of(st.none(), st.integers(0, 20)),
)
def test_splits_are_taken_while_they_fit_and_at_least_one(
    sizes: list[tuple[int, int]], rows: int | None, size_bytes: int | None
) -> None:
    limits = Limits(rows=rows, size_bytes=size_bytes)
    first = 0
    while first < len(sizes):
        end = take_splits(sizes, first, limits)
        taken = sizes[first:end]
        assert taken
        assert len(taken) == 1 or limits.hold(sum(one[0] for one in taken), sum(one[1] for one in taken))
        first = end


def test_snapshots_are_followed_whole_and_those_without_rows_do_not_make_a_batch() -> None:
    added = [(4, 0, 0), (5, 10, 100), (6, 0, 0), (7, 10, 900), (8, 10, 100)]

    assert take_snapshots(added, 3, NO_LIMITS) == 8
    assert take_snapshots(added, 3, Limits(rows=15)) == 6
    assert take_snapshots(added, 3, Limits(rows=1)) == 6
    assert [take_snapshots(added, 3, Limits(size_bytes=most)) for most in (1, 999, 1000, 1100)] == [6, 6, 7, 8]
    assert take_snapshots([(4, 0, 0)], 3, NO_LIMITS) == 3
    compacted = [(4, 10, 100), (5, 0, 900), (6, 10, 100)]
    assert take_snapshots(compacted, 3, Limits(size_bytes=500)) == 4
    assert take_snapshots(compacted[1:], 4, Limits(size_bytes=500)) == 6


def test_so_many_snapshots_of_rows_are_followed_and_the_last_of_them_ends_the_batch() -> None:
    added = [(4, 0, 0), (5, 10, 100), (6, 0, 0), (7, 10, 900), (8, 10, 100)]

    assert [take_snapshots(added, 3, NO_LIMITS, versions_max=most) for most in (1, 2, 3, 4)] == [5, 7, 8, 8]
    assert take_snapshots(added, 3, Limits(rows=15), versions_max=2) == 6
