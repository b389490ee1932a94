"""What a log that is renewed takes in of a tail, where another bucket cannot be read."""

from __future__ import annotations

from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.ports import BucketTail, LoggedTransaction
from lakelog.protocol.state.state import LogState, TableState
from lakelog.protocol.statements.readable_tails import ReadableTail, UnreadablePart, without_statements

NEWEST = TableState(snapshot_id=1, users={}, log=LogState(topic_id="t"))


def transaction(offset: int, user: str, statement: str | None = None) -> LoggedTransaction:
    header = CommitHeader(
        table_uuid="u",
        user=user,
        identifier=1,
        source_digest=None,
        schema_id=0,
        base_snapshot_id=0,
        record_count=1,
        size_bytes=1,
        files=(),
        statement=statement,
    )
    return LoggedTransaction(header=header, first_offset=offset, end_offset=offset + 1, record_count=1)


def tail(bucket: int, *found: LoggedTransaction, left: UnreadablePart | None = None) -> ReadableTail:
    whole = BucketTail(transactions=found, high_watermark=20, leader_epoch=0)
    return ReadableTail(bucket=bucket, tail=whole, left=left)


def test_a_statement_that_cannot_be_finished_is_taken_in_by_no_bucket() -> None:
    stranger = tail(0, transaction(3, "job"), left=UnreadablePart(bucket=0, offset=5, end=20, reason="a stranger"))
    begun = tail(1, transaction(2, "job"), transaction(4, "s", "prepared-1"), transaction(6, "job"))

    first, second = without_statements(NEWEST, [stranger, begun])

    assert first == stranger
    assert [one.first_offset for one in second.tail.transactions] == [2]
    assert second.left is not None
    assert str(second.left) == (
        "offsets 4 to 20 (exclusive) of bucket 1: they belong to the unfinished batch statement 'prepared-1', "
        "which cannot be finished"
    )


def test_tails_without_a_statement_stay_whole() -> None:
    found = [tail(0, transaction(3, "job")), tail(1)]

    assert without_statements(NEWEST, found) == found
