"""Which snapshots and which part of the log a deleted range is: exactly the records that were in it."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from lakelog.protocol.reading.healing import HealedRange, Place, heal_range, is_held


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """The offsets of records, of the ends of transactions, and of places: snapshots, and ends that they name."""

    records: tuple[int, ...]
    ends: tuple[int, ...]
    places: tuple[tuple[Place, int], ...]
    high_watermark: int


@st.composite
def buckets(draw: st.DrawFn) -> Bucket:
    """A log of transactions with their end markers, some aborted, and snapshots that hold one or several of them.

    A snapshot of lakelog names the ends of several, one of an earlier lakelog does not.
    """
    records: list[int] = []
    ends = [0]
    places: list[tuple[Place, int]] = [((0, 0), 0)]
    at = snapshot = 0
    for _ in range(draw(st.integers(1, 8))):
        count = draw(st.integers(1, 3))
        if draw(st.booleans()) or draw(st.booleans()):
            records += range(at, at + count)
            ends.append(at + count)
        at += count + 1
        if draw(st.booleans()):
            new = [end for end in ends[:-1] if end > places[-1][1]] if draw(st.booleans()) else []
            places += [((snapshot, number), end) for number, end in enumerate(new, start=1)]
            snapshot += 1
            places.append(((snapshot, 0), ends[-1]))
    first = draw(st.integers(0, len(places) - 1))
    return Bucket(
        records=tuple(records), ends=tuple(ends), places=tuple(places[first:]), high_watermark=max(at, ends[-1])
    )


def read(bucket: Bucket, one: HealedRange, end: int, log_start: int | None) -> list[int]:
    """The records that such a read gives."""
    position = dict(bucket.places)
    files = [at for at in bucket.records if one.has_files and position[one.after] <= at < position[one.up_to]]
    log = [at for at in bucket.records if one.log_from <= at < end]
    assert log_start is not None or not log
    assert all(at >= (log_start or 0) for at in log)
    return files + log


@st.composite
def lost_ranges(draw: st.DrawFn) -> tuple[Bucket, int, int, int | None]:
    bucket = draw(buckets())
    at = st.sampled_from(bucket.ends)
    start, end = sorted((draw(at), draw(at)))
    start += draw(st.integers(0, 1)) if start else 0
    end += draw(st.integers(0, 1)) if end else 0
    log_start = draw(st.none() | st.integers(0, bucket.high_watermark))
    return bucket, start, max(end, start + 1), log_start


@given(lost_ranges())
def test_what_is_found_are_the_records_of_the_range_and_no_others(case: tuple[Bucket, int, int, int | None]) -> None:
    bucket, start, end, log_start = case
    if log_start is not None and is_held(start, log_start):
        return

    found = heal_range(bucket.places, start, end, log_start)

    wanted = [at for at in bucket.records if start <= at < end]
    assert found is None or read(bucket, found, end, log_start) == wanted
    assert found is None or not found.lost


@given(lost_ranges())
def test_with_losses_each_record_is_read_or_in_a_range_that_is_reported(
    case: tuple[Bucket, int, int, int | None],
) -> None:
    bucket, start, end, log_start = case
    if log_start is not None and is_held(start, log_start):
        return

    found = heal_range(bucket.places, start, end, log_start, accepts_loss=True)

    assert found is not None
    lost = [at for at in bucket.records if any(first <= at < last for first, last in found.lost)]
    assert sorted(read(bucket, found, end, log_start) + lost) == [at for at in bucket.records if start <= at < end]


def at(*snapshots: tuple[int, int]) -> list[tuple[Place, int]]:
    return [((number, 0), offset) for number, offset in snapshots]


def files(after: int, up_to: int, log_from: int, *lost: tuple[int, int]) -> HealedRange:
    return HealedRange(after=(after, 0), up_to=(up_to, 0), log_from=log_from, lost=lost)


def test_each_bucket_has_a_snapshot_of_its_own() -> None:
    places = at((3, 10), (4, 20), (5, 20), (6, 30))
    assert heal_range(places, 20, 30, None) == files(5, 6, 30)
    assert heal_range(places, 11, 40, 12) == files(3, 4, 20)
    assert heal_range(places, 10, 40, 31) == files(3, 6, 31)


def test_an_offset_that_is_no_place_is_not_found_and_with_losses_left_out_up_to_the_next_one() -> None:
    places = at((3, 10), (4, 20), (6, 30))
    assert heal_range(places, 15, 30, None) is None
    assert heal_range(places, 10, 25, None) is None
    assert heal_range(places, 15, 30, None, accepts_loss=True) == files(4, 6, 30, (15, 20))
    assert heal_range(places, 10, 25, None, accepts_loss=True) == files(3, 4, 25, (20, 25))
    assert heal_range(places, 15, 40, 18, accepts_loss=True) == files(0, 0, 18, (15, 18))


def test_the_ends_that_a_snapshot_names_are_places() -> None:
    places = [*at((3, 10)), ((3, 1), 13), ((3, 2), 16), *at((4, 20))]
    assert heal_range(places, 14, 30, 20) == HealedRange(after=(3, 1), up_to=(4, 0), log_from=20)
    assert heal_range(places, 10, 17, None) == HealedRange(after=(3, 0), up_to=(3, 2), log_from=17)
    assert heal_range(places, 13, 16, None) == HealedRange(after=(3, 1), up_to=(3, 2), log_from=16)


def test_positions_that_a_repair_has_set_back_are_not_trusted() -> None:
    assert heal_range(at((3, 10), (4, 20), (5, 15), (6, 30)), 10, 30, None) is None
