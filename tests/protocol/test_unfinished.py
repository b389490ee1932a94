"""Batches that a snapshot holds in part, and abandoned ones."""

from __future__ import annotations

import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.state import Batch, LogState, TableState, TakenBatch
from lakelog.protocol.statements.unfinished import UnfinishedBatch, check_whole, unfinished_batches
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.protocol.writing.driver import take_answers


def log(*, abandoned: dict[str, int] | None = None) -> LogState:
    taken = {"q": TakenBatch(identifier=7, digest="d")}
    return LogState(topic_id="t", ledger={0: taken, 2: taken}, abandoned=abandoned or {})


def header(user: str, identifier: int, watermark_millis: int | None = None) -> CommitHeader:
    return CommitHeader(
        table_uuid="u",
        user=user,
        identifier=identifier,
        source_digest=None,
        schema_id=0,
        base_snapshot_id=0,
        record_count=1,
        size_bytes=1,
        files=(),
        watermark_millis=watermark_millis,
    )


def answer(bucket: int, *headers: CommitHeader) -> BucketAnswer:
    return BucketAnswer(bucket=bucket, base=0, end=1, leader_epoch=None, transactions=headers, has_fenced=True)


def test_the_unfinished_batch_of_a_writer_is_named_with_its_buckets() -> None:
    (found,) = unfinished_batches(log())

    assert found == UnfinishedBatch(user="q", identifier=7, buckets=(0, 2))
    assert str(found) == "batch 7 of 'q' (buckets 0, 2)"
    with pytest.raises(InvalidRequestError, match=r"snapshot 3 of table db\.t holds batch 7 of 'q'"):
        check_whole(log(), snapshot_id=3, table_name="db.t")


def test_an_abandoned_batch_is_not_waited_for_and_a_later_one_is() -> None:
    assert unfinished_batches(log(abandoned={"q": 7})) == ()
    assert [one.identifier for one in unfinished_batches(log(abandoned={"q": 6}))] == [7]


def test_what_is_abandoned_survives_the_file_and_is_no_key_without_it() -> None:
    for one in (log(), log(abandoned={"q": 7})):
        assert LogState.from_json(one.to_json(), where="w") == one
    assert "abandoned" not in log().to_json()


def test_a_batch_stays_abandoned_until_its_writer_completes_it() -> None:
    state = TableState(snapshot_id=4, users={}, log=log(abandoned={"q": 7}))
    other = Batch(user="r", identifier=0, source_digest=None)
    own = Batch(user="q", identifier=7, source_digest="d")

    part = take_answers(state, other, [answer(1, header("q", 7), header("r", 0))], now_millis=1)
    done = take_answers(state, own, [answer(1, header("q", 7))], now_millis=1)

    assert part.log is not None
    assert done.log is not None
    assert part.log.abandoned == {"q": 7}
    assert unfinished_batches(part.log) == ()
    assert (done.log.abandoned, done.log.ledger) == ({}, {})


def test_a_snapshot_has_the_latest_watermark_of_the_batches_that_it_takes_in() -> None:
    state = TableState(snapshot_id=4, users={}, log=LogState(topic_id="t"))
    own = Batch(user="r", identifier=0, source_digest=None, watermark_millis=50)

    found = take_answers(state, own, [answer(0, header("q", 7, 90)), answer(1, header("r", 0, 50))], now_millis=1)

    assert found.watermark_millis == 90
    none = take_answers(state, Batch(user="r", identifier=0, source_digest=None), [answer(0)], now_millis=1)
    assert none.watermark_millis is None
