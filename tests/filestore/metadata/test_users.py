"""Users that wrote nothing for long are forgotten, and a stream that comes back all the same is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.metadata.snapshots.users import (
    CommitUser,
    PropertyKey,
    check_not_forgotten,
    forgotten_millis,
    read_users,
    without_old_users,
)
from lakelog.filestore.table import FileStoreTable
from tests.support.tables.small_tables import make_table

DAY = 86_400_000
times = st.integers(0, 1_000)
users = st.dictionaries(
    st.text(max_size=3), st.builds(CommitUser, identifier=times, digest=st.none(), time_millis=times)
)


class Days:
    """A table whose commits are days apart."""

    def __init__(self, table: FileStoreTable) -> None:
        self.table = table
        self.day = 100

    def commit(self, user: str, batch: int) -> None:
        clock = CommitClock(now_millis=lambda: self.day * DAY)
        append_commit(self.table, user=user, identifier=batch, digest=None, entries=[], clock=clock)

    def users(self) -> set[str]:
        return set(read_users(self.table.snapshots.latest(), self.table.snapshots))


@pytest.fixture
def days(tmp_path: Path) -> Days:
    return Days(make_table(tmp_path, options={"users.time-retained": "30 d"}))


def test_a_user_is_forgotten_after_the_time_of_the_option(days: Days) -> None:
    days.commit("old", 4)
    for days.day in (110, 120, 131, 132):
        days.commit("job", days.day)
    assert days.users() == {"job"}
    properties = days.table.snapshots.latest().properties  # type: ignore[union-attr]  # there are commits
    assert forgotten_millis(properties) == 100 * DAY


def test_a_stream_that_was_forgotten_is_refused_and_a_new_one_is_not(days: Days) -> None:
    days.commit("old", 4)
    for days.day in (131, 132):
        days.commit("job", days.day)
    with pytest.raises(InvalidRequestError, match=r"batch 4 of old .* dropped writers .* 1970-04-11 "):
        days.commit("old", 4)
    days.commit("new", 0)
    days.commit("new", 1)
    assert days.users() == {"job", "new"}


def test_a_stream_that_comes_back_in_time_goes_on(days: Days) -> None:
    days.commit("old", 4)
    for days.day in (110, 129):
        days.commit("job", days.day)
    days.commit("old", 5)
    assert days.users() == {"old", "job"}


def test_one_clock_that_is_ahead_makes_the_table_drop_no_user(days: Days) -> None:
    days.commit("job", 1)
    days.day = 400
    days.commit("ahead", 1)
    assert days.users() == {"job", "ahead"}


def test_a_table_that_dropped_no_user_takes_a_stream_in_the_middle(days: Days) -> None:
    days.commit("job", 1)
    days.commit("later", 7)
    assert days.users() == {"job", "later"}


@given(users=users, before=times, in_use=st.sets(st.text(max_size=3)))
def test_what_is_forgotten_is_old_and_not_in_use(users: dict[str, CommitUser], before: int, in_use: set[str]) -> None:
    kept, youngest = without_old_users(users, before_millis=before, in_use=in_use)
    forgotten = {user: last for user, last in users.items() if user not in kept}
    assert kept.items() <= users.items()
    assert not forgotten.keys() & in_use
    assert all(last.time_millis < before for last in forgotten.values())
    assert all(last.time_millis >= before or user in in_use for user, last in kept.items())
    assert youngest == max((last.time_millis for last in forgotten.values()), default=None)


def test_a_first_batch_is_no_batch_of_a_forgotten_stream() -> None:
    check_not_forgotten("new", 0, {}, 5)
    check_not_forgotten("known", 3, {"known": CommitUser(identifier=2, digest=None, time_millis=0)}, 5)
    with pytest.raises(InvalidRequestError):
        check_not_forgotten("new", 3, {}, 5)


def test_an_unreadable_time_is_damage() -> None:
    with pytest.raises(CorruptDataError, match="expected a number"):
        forgotten_millis({PropertyKey.FORGOTTEN: "soon"})
