"""The driver's decisions, one law each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.snapshots.users import CommitUser, is_same_source
from lakelog.protocol.state.state import Batch, LogPosition, LogState, TableState, TakenBatch, is_committed
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.protocol.writing.driver import (
    AnswerDecision,
    BucketConflictError,
    Verdict,
    check_identity,
    compare_and_set,
    take_answers,
)


def table_with(user: str, identifier: int, digest: str | None) -> TableState:
    entry = CommitUser(identifier=identifier, digest=digest, time_millis=0)
    return TableState(snapshot_id=5, users={user: entry}, log=LogState(topic_id="t"))


def answer(base: int, end: int) -> BucketAnswer:
    return BucketAnswer(bucket=0, base=base, end=end, leader_epoch=None, transactions=(), has_fenced=True)


def undecided(base: int, end: int) -> BucketAnswer:
    return replace(answer(base, end), is_decided=False)


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


@pytest.mark.parametrize("found", [("d2", "d1"), ("d.q2", "d.q1")])
def test_a_batch_of_the_ledger_with_another_source_is_an_error(found: tuple[str, str]) -> None:
    log = LogState(topic_id="t", ledger={3: {"q": TakenBatch(identifier=5, digest=found[0])}})
    state = TableState(snapshot_id=7, users={}, log=log)
    with pytest.raises(InvalidRequestError, match=r"bucket 3 of snapshot 7 holds batch 5 .*new checkpoint location"):
        check_identity(state, batch(5, found[1]))
    assert check_identity(state, batch(5, found[0])) is Verdict.NEW
    assert check_identity(state, batch(6, found[1])) is Verdict.NEW


def test_a_batch_that_another_run_committed_from_another_source_is_an_error_at_the_commit() -> None:
    with pytest.raises(InvalidRequestError, match=r"snapshot: 5\) .* other source offsets"):
        is_committed(table_with("q", 5, "other"), batch(5))
    assert is_committed(table_with("q", 5, "d"), batch(5))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (None, "a", True),
        ("a", "a", True),
        ("a", "b", False),
        ("a", "a.q", True),
        ("a.p", "a.q", False),
        ("a..f", "a", True),
        ("a..f", "a..g", False),
        ("a..f", "a.q.f", True),
    ],
)
def test_digests_are_compared_as_far_as_both_are_known(one: str | None, other: str | None, is_same: bool) -> None:
    assert is_same_source(one, other) is is_same_source(other, one) is is_same


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
    if verdict is AnswerDecision.TAKE:
        assert offset == base
        assert length > 0
    else:
        assert length == 0 or offset >= end


@given(offset=st.integers(0, 20), base=st.integers(0, 20), length=st.integers(1, 5))
def test_records_that_decide_nothing_are_taken_in_on_their_base_alone_and_never_dropped(
    offset: int, base: int, length: int
) -> None:
    try:
        verdict = compare_and_set(LogPosition(offset=offset), undecided(base, base + length))
    except BucketConflictError:
        assert offset != base
        return
    assert (verdict, offset) == (AnswerDecision.TAKE, base)


def test_an_empty_batch_still_moves_its_user() -> None:
    change = take_answers(table_with("q", 4, "c"), batch(5), [answer(3, 3)], now_millis=77)
    assert change.users["q"] == CommitUser(identifier=5, digest="d", time_millis=77)
    assert change.files == []


def test_a_batch_of_a_forgotten_user_is_an_error() -> None:
    state = TableState(snapshot_id=5, users={}, log=None, forgotten_millis=7)
    with pytest.raises(InvalidRequestError, match="has dropped writers"):
        check_identity(state, batch(5))
    assert check_identity(state, batch(0)) is Verdict.NEW
