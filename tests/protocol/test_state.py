"""What snapshots and headers say of the log survives the way to disk and back."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.filestore.metadata.snapshots.users import CommitUser
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.protocol.state.header import BucketFile, CommitHeader
from lakelog.protocol.state.moved_parts import rows_left, written_parts
from lakelog.protocol.state.state import Batch, LogPosition, LogState, MovedParts, TakenBatch, prune_ledger
from tests.simulation.world import World
from tests.support.tables.small_tables import SCHEMA

counts = st.integers(0, 2**62)
positions = st.builds(
    LogPosition,
    offset=counts,
    leader_epoch=st.none() | st.integers(0, 2**31 - 1),
    records=counts,
    size_bytes=counts,
    sequence=counts,
    epoch_offset=counts,
)
taken_batches = st.builds(TakenBatch, identifier=counts, digest=st.none() | st.text())
ledgers = st.dictionaries(
    st.integers(0, 64), st.dictionaries(st.text(min_size=1), taken_batches, min_size=1, max_size=3), max_size=4
)
moved_parts = st.builds(MovedParts, bucket_count=st.integers(1, 64), ledger=ledgers.filter(bool))
states = st.builds(
    LogState,
    topic_id=st.text(),
    positions=st.dictionaries(st.integers(0, 64), positions),
    ledger=ledgers,
    abandoned=st.dictionaries(st.text(), counts, max_size=2),
    moved=st.lists(moved_parts, max_size=2).map(tuple),
)


@given(states)
def test_a_log_state_is_read_back_as_written(state: LogState) -> None:
    assert LogState.from_json(state.to_json(), where="snapshot 1") == state


def test_a_position_of_an_older_snapshot_is_read_without_an_epoch_offset() -> None:
    text = '{"topicId": "t", "positions": {"3": [7, 2, 5, 50, 9]}, "ledger": {}}'
    at = LogState.from_json(text, where="snapshot 1").position(3)
    assert at == LogPosition(offset=7, leader_epoch=2, records=5, size_bytes=50, sequence=9, epoch_offset=0)


def test_a_ledger_of_an_older_snapshot_is_read_without_digests() -> None:
    state = LogState.from_json('{"topicId": "t", "positions": {}, "ledger": {"3": {"q": 5}}}', where="snapshot 1")
    assert state.ledger == {3: {"q": TakenBatch(identifier=5, digest=None)}}


@pytest.mark.parametrize("taken", ['"5"', "[5]", "[5, 6]", "null"])
def test_a_ledger_of_another_form_is_an_error(taken: str) -> None:
    text = f'{{"topicId": "t", "positions": {{}}, "ledger": {{"3": {{"q": {taken}}}}}}}'
    with pytest.raises(CorruptDataError, match="snapshot 7"):
        LogState.from_json(text, where="snapshot 7")


@pytest.mark.parametrize("moved", ["{}", "[5]", '[{"buckets": 0, "ledger": {}}]', '[{"buckets": 2}]'])
def test_moved_parts_of_another_form_are_an_error(moved: str) -> None:
    text = f'{{"topicId": "t", "positions": {{}}, "ledger": {{}}, "moved": {moved}}}'
    with pytest.raises(CorruptDataError, match="snapshot 7"):
        LogState.from_json(text, where="snapshot 7")


def test_parts_of_a_batch_are_dropped_with_all_that_names_them_once_it_has_its_snapshot() -> None:
    ledger = {0: {"q": TakenBatch(identifier=5), "other": TakenBatch(identifier=1)}}
    older = MovedParts(bucket_count=2, ledger={1: {"q": TakenBatch(identifier=5)}})
    state = LogState(topic_id="t", ledger=ledger, moved=(older,), abandoned={"q": 5, "other": 1})

    pruned = state.pruned({"q": CommitUser(identifier=5, digest=None, time_millis=0)})

    assert pruned.ledger == {0: {"other": TakenBatch(identifier=1)}}
    assert (pruned.moved, pruned.abandoned) == ((), {"other": 1})
    unfinished = state.pruned({"q": CommitUser(identifier=4, digest=None, time_millis=0)})
    assert unfinished == state
    assert not replace(state, ledger={}).is_whole()


def test_rows_of_parts_that_are_in_the_table_are_left_out() -> None:
    schema = build_schema(SCHEMA, primary_keys=["id"], options={"bucket": "5"})
    rows = pa.table([pa.array(range(50)), pa.array([0] * 50, pa.int32())], schema=SCHEMA)
    batch = Batch(user="q", identifier=5, source_digest=None)
    halves = MovedParts(bucket_count=2, ledger={1: {"q": TakenBatch(identifier=5)}, 0: {"q": TakenBatch(identifier=4)}})
    thirds = MovedParts(bucket_count=3, ledger={0: {"q": TakenBatch(identifier=5)}, 2: {"r": TakenBatch(identifier=5)}})

    written = written_parts(LogState(topic_id="t", moved=(halves, thirds)), batch)

    assert written == ((2, frozenset({1})), (3, frozenset({0})))
    by_two, by_three = (bucket_of(rows, schema.bucket_fields, count, schema.bucket_function) for count in (2, 3))
    assert rows_left(schema, rows, written).to_pylist() == [
        two == 0 and three != 0 for two, three in zip(by_two, by_three, strict=True)
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"topicId": "t", "positions": {"0": [1]}, "ledger": {}}'])
def test_an_unreadable_log_state_is_an_error_that_names_its_snapshot(text: str) -> None:
    with pytest.raises(CorruptDataError, match="snapshot 7"):
        LogState.from_json(text, where="snapshot 7")


def test_a_header_is_read_back_as_written() -> None:
    meta = World(1, bucket_count=1).write_file([("k", 7, "v")])
    header = CommitHeader(
        table_uuid="t",
        user="query ü",
        identifier=9_223_372_036_854_775_806,
        source_digest=None,
        schema_id=3,
        base_snapshot_id=0,
        record_count=1,
        size_bytes=42,
        files=(BucketFile(partition=b"\0\0\0\0\xff", meta=meta),),
        changelog=(BucketFile(partition=b"", meta=meta),),
        lineage={"sources": [{"table": "db.t", "snapshot": 4}]},
    )
    assert CommitHeader.from_bytes(header.to_bytes(), where="here") == header
    assert header.next_sequence == 8


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"v": 2}'])
def test_an_unreadable_header_is_an_error_that_names_its_place(data: bytes) -> None:
    with pytest.raises(CorruptDataError, match="topic t, partition 3, offset 5"):
        CommitHeader.from_bytes(data, where="topic t, partition 3, offset 5")


@given(ledgers, st.dictionaries(st.text(min_size=1), counts))
def test_a_pruned_ledger_names_exactly_the_batches_without_a_snapshot(
    ledger: dict[int, dict[str, TakenBatch]], last: dict[str, int]
) -> None:
    users = {user: CommitUser(identifier=i, digest=None, time_millis=0) for user, i in last.items()}
    pruned = prune_ledger(ledger, users)
    left = {(b, u, i) for b, taken in ledger.items() for u, i in taken.items() if last.get(u, -1) < i.identifier}
    assert {(b, u, i) for b, taken in pruned.items() for u, i in taken.items()} == left
    assert all(pruned.values())
