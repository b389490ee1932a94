"""Clocks that were wrong: what is committed then, and that the right snapshot is found and expires all the same."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.compact.bucket_work import pick_unit
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.expire.writer_expiry import expire_after_commit
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.commit_times import CommitTimes, committed_by, newest_at
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind
from lakelog.filestore.metadata.snapshots.users import read_users
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import expire_snapshots
from tests.support.tables.small_tables import in_new_process, make_table, prepare_batch

MINUTE = 60_000
HOUR = 60 * MINUTE
YEAR = 365 * 24 * HOUR
START = 1_760_000_000_000
NEVER_SET = 1_000  # 1970


def commit_at(table: FileStoreTable, *times: int) -> None:
    """A snapshot for each of these readings of its writer's clock."""
    for time in times:
        user = str((table.snapshots.latest_id() or 0) + 1)
        clock = CommitClock(now_millis=partial(int, time))
        append_commit(table, user=user, identifier=0, digest=None, entries=[], clock=clock)


def hours(*numbers: float) -> list[int]:
    return [START + int(number * HOUR) for number in numbers]


def dates(table: FileStoreTable) -> list[int]:
    return [table.snapshots.get(number).time_millis for number in table.snapshots.ids()]


def found(table: FileStoreTable, at_millis: int, *, now: int) -> int | None:
    snapshot = in_new_process(table.path).snapshots.at_or_before(at_millis, now_millis=now)
    return None if snapshot is None else snapshot.id


def test_a_clock_that_was_ahead_dates_its_own_commit_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make_table(tmp_path)
    with caplog.at_level(logging.WARNING, "lakelog.filestore"):
        commit_at(table, START, START + YEAR, START + HOUR)
    assert dates(table) == [START, START + YEAR, START + HOUR]
    assert "snapshot 2 is dated 2026-10-09" in caplog.text
    assert "one of the two clocks is wrong" in caplog.text


def test_clocks_that_differ_by_seconds_keep_the_order(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make_table(tmp_path)
    commit_at(table, START, START - MINUTE)
    assert dates(table) == [START, START]
    assert caplog.text == ""


def test_a_clock_that_was_never_set_dates_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make_table(tmp_path)
    with caplog.at_level(logging.WARNING, "lakelog.filestore"):
        commit_at(table, START, NEVER_SET)
    assert dates(table) == [START, START]
    assert "was never set" in caplog.text


@pytest.mark.parametrize("wrong", [START + YEAR, START - YEAR, *hours(3.5)])
def test_a_snapshot_with_a_wrong_date_hides_no_other(tmp_path: Path, wrong: int) -> None:
    table = make_table(tmp_path)
    commit_at(table, *hours(0, 1), wrong, *hours(2, 3, 4))
    now = START + 5 * HOUR
    times = {START - 1: None, START: 1, START + HOUR: 2, START + 2 * HOUR: 4, START + 3 * HOUR: 5, now: 6}
    assert {at_millis: found(table, at_millis, now=now) for at_millis in times} == times


@pytest.mark.parametrize("wrong", [START + YEAR, START - YEAR])
def test_a_newest_snapshot_with_a_wrong_date_is_there_now(tmp_path: Path, wrong: int) -> None:
    table = make_table(tmp_path)
    commit_at(table, *hours(0, 1, 2), wrong)
    now = START + 10 * HOUR
    assert found(table, now, now=now) == 4
    assert found(table, now - HOUR, now=now) == 3  # since when it has been there is unknown: not found as of before


def test_many_snapshots_of_a_clock_that_was_ahead_hide_none_behind_them(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_at(table, START, *(START + YEAR + number for number in range(20)), *hours(1, 2))
    now = START + 3 * HOUR
    assert [found(table, at_millis, now=now) for at_millis in (START, START + HOUR, now)] == [1, 22, 23]


def test_a_table_of_which_no_date_can_be_right_is_read_as_of_now(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_at(table, START + YEAR, START + YEAR + 1)
    assert found(table, START, now=START) == 2


def test_snapshots_of_other_engines_are_found_too(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_at(table, START)
    own = table.snapshots.get(1)
    for number, date in enumerate((START + HOUR, START + YEAR, START + 2 * HOUR, START - YEAR, START + 3 * HOUR), 2):
        foreign = replace(
            own, id=number, uuid=None, writer_version="flink", properties={}, commit_kind=CommitKind.COMPACT,
            time_millis=date,
        )  # fmt: skip
        assert table.snapshots.create_new(foreign)
    now = START + 4 * HOUR
    assert [found(table, at_millis, now=now) for at_millis in (*hours(1, 1.5, 2, 2.5), now)] == [2, 2, 4, 4, 6]


def test_time_travel_reads_more_snapshots_than_one_reader_takes(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_at(table, *(START + number for number in range(70)))
    assert found(table, START + 66, now=START + HOUR) == 67


def by_age(age_millis: int) -> Retention:
    return Retention(count_min=1, count_max=1_000, age_millis=age_millis, limit=1_000)


@pytest.mark.parametrize("wrong", [START + YEAR, START - YEAR, NEVER_SET])
def test_expiry_by_age_goes_past_a_wrong_date(tmp_path: Path, wrong: int) -> None:
    table = make_table(tmp_path)
    commit_at(table, *hours(0, 1), wrong, *hours(2, 3, 4))
    expire_snapshots(table, retention=by_age(90 * MINUTE), now_millis=START + 4 * HOUR)
    assert table.snapshots.ids() == [4, 5, 6]  # 4 was the newest until an hour ago


@pytest.mark.parametrize("wrong", [START + YEAR, NEVER_SET])
def test_what_was_the_newest_until_a_wrong_date_does_not_expire_early(tmp_path: Path, wrong: int) -> None:
    """The first snapshot was the newest until half an hour ago, whatever the second is dated."""
    table = make_table(tmp_path)
    commit_at(table, START)
    assert table.snapshots.create_new(replace(table.snapshots.get(1), id=2, uuid="2", time_millis=wrong))
    commit_at(table, START + 3 * HOUR)
    expire_snapshots(table, retention=by_age(HOUR), now_millis=START + 3 * HOUR + 30 * MINUTE)
    assert table.snapshots.ids() == [1, 2, 3]
    expire_snapshots(table, retention=by_age(HOUR), now_millis=START + 4 * HOUR + MINUTE)
    assert table.snapshots.ids() == [3]


def test_the_first_snapshots_of_a_clock_that_was_never_set_do_not_expire_early(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 h"})
    commit_at(table, NEVER_SET, NEVER_SET + MINUTE, START)
    assert dates(table) == [NEVER_SET, NEVER_SET + MINUTE, START]
    expire_after_commit(table, 3, now_millis=START + HOUR - MINUTE)
    expire_snapshots(table, retention=by_age(HOUR), now_millis=START + HOUR - MINUTE)
    assert table.snapshots.ids() == [1, 2, 3]
    expire_snapshots(table, retention=by_age(HOUR), now_millis=START + HOUR + MINUTE)
    assert table.snapshots.ids() == [3]


def test_changelogs_expire_past_a_wrong_date(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"changelog.time-retained": "5 h", "changelog.num-retained.max": "100"})
    commit_at(table, *hours(0, 1), START + YEAR, *hours(2, 3))
    retention = replace(by_age(0), count_max=1)
    expire_snapshots(table, retention=retention, now_millis=START + 3 * HOUR)
    changelogs = ChangelogManager(table.file_io, table.paths)
    assert changelogs.ids() == [1, 2, 3, 4]
    commit_at(table, *hours(7.5))
    expire_snapshots(table, retention=replace(by_age(0), count_max=1), now_millis=START + 7 * HOUR + 30 * MINUTE)
    assert changelogs.ids() == [4, 5]


def test_writers_expire_past_a_wrong_date(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 h"})
    commit_at(table, START, START + YEAR, *hours(1, 2))
    expire_after_commit(table, 4, now_millis=START + HOUR + 30 * MINUTE)
    assert table.snapshots.ids() == [1, 2, 3, 4]
    expire_after_commit(table, 4, now_millis=START + 2 * HOUR + MINUTE)
    assert table.snapshots.ids() == [3, 4]


def test_a_writer_whose_clock_was_set_back_expires_again(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 h"})
    commit_at(table, START + YEAR, START + YEAR + 1)
    expire_after_commit(table, 2, now_millis=START + YEAR + 1)  # remembers the date of snapshot 2
    commit_at(table, *hours(0, 1))
    expire_after_commit(table, 4, now_millis=START + 90 * MINUTE)
    assert table.snapshots.ids() == [3, 4]


def test_files_of_a_clock_that_was_ahead_keep_no_full_compaction_away(tmp_path: Path) -> None:
    table = make_table(tmp_path, options={"compaction.optimization-interval": "1 h"})
    first, second = ((entry.file, entry.bucket) for entry in prepare_batch(table, 0)[:2])
    merged = replace(first[0], level=5, creation_time_millis=START + YEAR)
    files = [merged, second[0]]
    assert pick_unit(table, files, is_full=False, now_millis=START) is not None
    assert (
        pick_unit(table, [replace(merged, creation_time_millis=START), second[0]], is_full=False, now_millis=START)
        is None
    )


@pytest.mark.parametrize("wrong", [START + YEAR, START - YEAR])
def test_a_wrong_clock_forgets_no_writer(tmp_path: Path, wrong: int) -> None:
    table = make_table(tmp_path)
    commit_at(table, START, wrong, *hours(1, 2))
    newest = table.snapshots.latest()
    assert newest is not None
    assert set(read_users(newest, table.snapshots)) == {"1", "2", "3", "4"}


TIMES = st.lists(st.integers(0, 9).map(lambda hour: START + hour * HOUR), max_size=7)


@given(TIMES)
def test_dates_that_rise_are_believed(times: list[int]) -> None:
    rising = sorted(times)
    assert committed_by(rising, now_millis=START + 9 * HOUR) == rising
    at_millis = START + 4 * HOUR
    reached = [at for at, time in enumerate(rising) if time <= at_millis]
    assert newest_at(rising, at_millis, now_millis=START + 9 * HOUR) == (max(reached) if reached else None)


@given(TIMES, st.integers(0, 9))
def test_the_fewest_dates_are_taken_for_wrong(times: list[int], hour: int) -> None:
    now = START + hour * HOUR
    known = committed_by(times, now_millis=now)
    told = [time for time in known if time is not None]
    assert told == sorted(told)
    assert known[len(told) :] == [None] * (len(times) - len(told))
    believed = sum(time == one for time, one in zip(times, known, strict=True))
    assert believed >= most_that_rise([time for time in times if time <= now])


def most_that_rise(times: Sequence[int]) -> int:
    """The length of the longest part of the list, in its order, that does not fall; by looking at all."""
    return max(
        length
        for length in range(len(times) + 1)
        for part in itertools.combinations(times, length)
        if list(part) == sorted(part)
    )


@given(TIMES, st.integers(0, 9))
def test_who_reads_few_dates_knows_what_all_of_them_say(times: list[int], hour: int) -> None:
    """Asked from the oldest on, as an expiry asks: the answer is that of all dates, or the date itself in a rise."""
    now = START + hour * HOUR
    rising = sorted(time for time in times if time <= now)
    asked: list[int] = []

    def date_of(number: int) -> int | None:
        asked.append(number)
        return rising[number - 1] if 0 < number <= len(rising) else None

    lazy = CommitTimes(date_of, ids=lambda: range(1, len(rising) + 1), newest_id=len(rising), now_millis=now)
    assert [lazy.of(number) for number in range(2, len(rising) + 1)] == rising[1:]
    assert len(asked) == len(set(asked))


def test_a_table_of_clocks_that_were_never_set_alone_keeps_its_snapshots_until_one_has_a_date(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    commit_at(table, NEVER_SET, NEVER_SET + 1)
    retention = Retention(count_min=1, count_max=1_000, age_millis=HOUR, limit=100)
    assert expire_snapshots(table, retention=retention, now_millis=START).snapshot_ids == ()
    commit_at(table, START)
    assert expire_snapshots(table, retention=retention, now_millis=START + 2 * HOUR).snapshot_ids == (1, 2)


def test_a_clock_that_is_ahead_does_not_date_the_snapshots_of_clocks_that_were_never_set() -> None:
    """Found by the simulation, seed 1209: a date that is yet to come had made the dates before it right."""
    dates = {1: NEVER_SET, 2: NEVER_SET + 1, 3: START + 24 * 365 * HOUR}
    times = CommitTimes(dates.get, ids=lambda: dates, newest_id=3, now_millis=START)
    assert [times.of(number) for number in (2, 3)] == [START, START]
