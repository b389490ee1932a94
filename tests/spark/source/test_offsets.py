"""Offsets of the streaming source as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError, InvalidRequestError
from lakelog.streams.reading.offsets import (
    BucketCount,
    FollowOffset,
    LogOffset,
    Offset,
    SnapshotOffset,
    StartOffset,
    TableMark,
    offset_from_json,
    offset_to_json,
)

MARK = TableMark(uuid="u-1", name="db.t")
numbers = st.integers(0, 1 << 60)
commits = st.none() | st.text(min_size=1)
flags = st.none() | st.booleans()
counts = st.builds(BucketCount, records=numbers, size_bytes=numbers)
offsets = st.one_of(
    st.builds(StartOffset, start=st.sampled_from(("full", "latest"))),
    st.builds(SnapshotOffset, snapshot=numbers, split=numbers, commit=commits),
    st.builds(FollowOffset, consumed=numbers, commit=commits, reads_rows=flags),
    st.builds(
        LogOffset,
        topic_id=st.text(),
        offsets=st.dictionaries(numbers, numbers),
        counts=st.dictionaries(numbers, counts),
        consumed=numbers,
        epochs=st.dictionaries(numbers, numbers),
        reads_rows=flags,
    ),
)


@given(offset=offsets)
def test_an_offset_survives_the_checkpoint(offset: Offset) -> None:
    text = json.dumps(offset_to_json(offset, MARK))

    assert offset_from_json(json.loads(text), MARK) == offset
    assert json.dumps(offset_to_json(offset_from_json(json.loads(text), MARK), MARK)) == text


def test_an_offset_of_another_table_is_refused() -> None:
    fields = offset_to_json(FollowOffset(consumed=3), TableMark(uuid="u-2", name="db.other"))

    with pytest.raises(InvalidRequestError, match=r"belongs to table db\.other \(u-2\), the query reads db\.t"):
        offset_from_json(fields, MARK)


MADE = TableMark(uuid="made-77", name="db.t")  # of a table of others


@pytest.mark.parametrize(
    ("named", "mark"),
    [({"table": ""}, MADE), ({"table": "made-77"}, MADE), ({"table": "u-1"}, MARK), ({}, MARK)],
    ids=str,
)
def test_offsets_of_older_versions_are_read(named: dict[str, object], mark: TableMark) -> None:
    assert offset_from_json({"lakelog": 1, "consumed": 3, **named}, mark) == FollowOffset(consumed=3)
    split = offset_from_json({"lakelog": 1, "snapshot": 3, "split": 2, **named}, mark)
    assert split == SnapshotOffset(snapshot=3, split=2)


@pytest.mark.parametrize(
    ("named", "mark"), [({"table": ""}, MARK), ({"table": "made-78"}, MADE), ({"table": None}, MADE)], ids=str
)
def test_older_offsets_of_other_tables_are_refused(named: dict[str, object], mark: TableMark) -> None:
    with pytest.raises(InvalidRequestError, match=r"the query reads db\.t .* Use a new checkpoint location"):
        offset_from_json({"lakelog": 1, "consumed": 3, **named}, mark)


@pytest.mark.parametrize("broken", [{}, {"lakelog": 2, "consumed": 1}, {"lakelog": 1, "log": {"a": 1}}])
def test_another_json_object_is_no_offset(broken: dict[str, object]) -> None:
    with pytest.raises(CorruptDataError, match="not readable"):
        offset_from_json(broken, MARK)
