"""The driver's decisions, one law each."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.users import CommitUser
from lakelog.protocol.driver import (
    BucketConflictError,
    Take,
    Verdict,
    check_identity,
    compare_and_set,
    take_answers,
)
from lakelog.protocol.state import Batch, LogPosition, LogState, TableState
from lakelog.protocol.task import BucketAnswer


def table_with(user: str, identifier: int, digest: str | None) -> TableState:
    entry = CommitUser(identifier=identifier, digest=digest, time_millis=0)
    return TableState(snapshot_id=5, users={user: entry}, log=LogState(topic_id="t"))


def answer(base: int, end: int) -> BucketAnswer:
    return BucketAnswer(bucket=0, base=base, end=end, leader_epoch=None, transactions=(), has_fenced=True)


def batch(identifier: int, digest: str | None = "d") -> Batch:
    return Batch(user="q", identifier=identifier, source_digest=digest)


def test_the_next_batch_of_a_user_is_new() -> None:
    assert check_identity(table_with("q", 4, "c"), batch(5)) is Verdict.NEW


def test_the_last_batch_with_the_same_source_is_a_replay() -> None:
    assert check_identity(table_with("q", 5, "d"), batch(5)) is Verdict.REPLAY


@pytest.mark.parametrize(("identifier", "digest"), [(5, "other"), (3, "d"), (0, None)])
def test_a_passed_identifier_is_an_error_that_names_the_way_out(identifier: int, digest: str | None) -> None:
    with pytest.raises(InvalidRequestError, match="new checkpoint location"):
        check_identity(table_with("q", 5, "d"), batch(identifier, digest))


@given(offset=st.integers(0, 20), base=st.integers(0, 20), length=st.integers(0, 5))
def test_an_answer_is_taken_only_on_its_base_and_dropped_only_when_it_is_in(
    offset: int, base: int, length: int
) -> None:
    end = base + length
    try:
        verdict = compare_and_set(LogPosition(offset=offset), answer(base, end))
    except BucketConflictError:
        assert offset != base
        assert offset < end
        return
    if verdict is Take.TAKE:
        assert offset == base
        assert length > 0
    else:
        assert length == 0 or offset >= end


def test_an_empty_batch_still_moves_its_user() -> None:
    change = take_answers(table_with("q", 4, "c"), batch(5), [answer(3, 3)], now_millis=77)
    assert change.users["q"] == CommitUser(identifier=5, digest="d", time_millis=77)
    assert change.files == []
