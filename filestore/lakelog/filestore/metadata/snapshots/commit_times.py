"""The times of commits, found even if some of the clocks that dated them were wrong.

A snapshot is dated by the clock of its writer, whichever engine that is. Clocks that differ by seconds do no harm: a
commit is never dated before the one that it follows. But a clock that is a year ahead must not date all later commits,
and a clock that was never set must not date its commit before the table. This module has what writers do against this,
and how the snapshots of a time are found nevertheless.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence

CLOCK_SKEW_MAX_MILLIS = 60_000  # the most by which correct clocks differ
CLOCK_SET_MILLIS = 1_577_836_800_000  # 2020: a clock before it was never set


def committed_by(times: Sequence[int], *, now_millis: int) -> list[int | None]:
    """For the dates of consecutive snapshots, times of their commits that never fall. Pure.

    These dates are wrong: those after now, those of clocks that were never set, and among the others the fewest whose
    removal makes the rest rise. A snapshot with a wrong date was committed by the date of the next one with a right
    date; None if no right date follows.
    """
    right = _longest_rise(_believable(times, now_millis), times)
    known: list[int | None] = [None] * len(times)
    following: int | None = None
    for at in reversed(range(len(times))):
        if at in right:
            following = times[at]
        known[at] = following
    return known


def newest_at(times: Sequence[int], time_millis: int, *, now_millis: int) -> int | None:
    """Among snapshots with these dates, the index of the newest that was committed at or before a timestamp. Pure.

    Snapshots whose time of commit is unknown count as committed now. None if all are younger.
    """
    known = [time for time in committed_by(times, now_millis=now_millis) if time is not None]
    reached = bisect.bisect_right(known, time_millis)
    if reached == len(known) and time_millis >= now_millis - CLOCK_SKEW_MAX_MILLIS:
        reached = len(times)
    return reached - 1 if reached else None


class CommitTimes:
    """The times by which consecutive snapshots were committed, for callers that begin with the oldest.

    While the dates rise, only the requested dates are read, and the one before each; otherwise, and for a date of a
    clock that was never set, all up to the newest are read. So a date that was ahead when it was written, and is past
    by now, counts as right: its snapshot expires a little later.
    """

    def __init__(
        self, date_of: Callable[[int], int | None], *, ids: Callable[[], Iterable[int]], newest_id: int, now_millis: int
    ) -> None:
        """`date_of` gives the date of a snapshot's file; None for a missing one. `ids` lists the existing ones."""
        self._date_of = date_of
        self._ids = ids
        self._newest_id = newest_id
        self._now_millis = now_millis
        self._dates: dict[int, int | None] = {}
        self._times: dict[int, int] | None = None

    def of(self, number: int) -> int:
        """The time by which a snapshot was committed; now if it is unknown, 0 for a missing snapshot."""
        date = self._date(number)
        if date is None:
            return 0
        if self._times is None:
            before = self._date(number - 1)
            is_behind = before is not None and date < before - CLOCK_SKEW_MAX_MILLIS
            if not is_behind and CLOCK_SET_MILLIS <= date <= self._now_millis + CLOCK_SKEW_MAX_MILLIS:
                return date
            self._times = self._all_from(number - 1)
        return self._times.get(number, self._now_millis)

    def _all_from(self, first: int) -> dict[int, int]:
        wanted = range(first, self._newest_id + 1)
        there = sorted(at for at in set(self._ids()) if at in wanted)
        dates = {at: date for at in there if (date := self._date(at)) is not None}
        past = [date for date in dates.values() if date <= self._now_millis + CLOCK_SKEW_MAX_MILLIS]
        if all(date < CLOCK_SET_MILLIS <= self._now_millis for date in past):
            return {}  # the next commit may be the first with a right date
        times = committed_by(list(dates.values()), now_millis=self._now_millis)
        return {at: self._now_millis if time is None else time for at, time in zip(dates, times, strict=True)}

    def _date(self, number: int) -> int | None:
        if number not in self._dates:
            self._dates[number] = self._date_of(number)
        return self._dates[number]


def _believable(times: Sequence[int], now_millis: int) -> list[int]:
    """The indexes of dates that can be right: not after now, not of a clock that was never set."""
    past = [at for at, time in enumerate(times) if time <= now_millis + CLOCK_SKEW_MAX_MILLIS]
    return [at for at in past if times[at] >= CLOCK_SET_MILLIS] or past


def _longest_rise(indexes: Sequence[int], times: Sequence[int]) -> set[int]:
    """The largest set of these indexes whose times never fall; of several such sets the one with the later times."""
    starts: list[int] = []  # from the end: for the rises of each length, the negative of the latest start
    starting: list[int] = []
    behind: dict[int, int | None] = {}
    for at in reversed(indexes):
        length = bisect.bisect_right(starts, -times[at])
        behind[at] = starting[length - 1] if length else None
        starts[length : length + 1] = [-times[at]]
        starting[length : length + 1] = [at]
    rise: set[int] = set()
    one = starting[-1] if starting else None
    while one is not None:
        rise.add(one)
        one = behind[one]
    return rise
