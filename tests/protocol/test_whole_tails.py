"""What a fresh read leaves out of the tails of a log, and the tokens of its positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.table_position import TablePosition
from lakelog.protocol.writing.whole_tails import Logged, cut_tails


def header(unit: str) -> CommitHeader:
    """Of a statement, `s1`, or of a batch of a user, `a1`."""
    is_statement = unit.startswith("s")
    return CommitHeader(
        table_uuid="t",
        user=unit if is_statement else unit[0],
        identifier=0 if is_statement else int(unit[1:]),
        source_digest=None,
        schema_id=0,
        base_snapshot_id=0,
        record_count=1,
        size_bytes=1,
        files=(),
        statement=unit if is_statement else None,
    )


def tail(units: str) -> Logged:
    return tuple((header(unit), 10 * (at + 1)) for at, unit in enumerate(units.split()))


def shown(tails: Mapping[int, Logged]) -> list[str]:
    return [" ".join(one.statement or f"{one.user}{one.identifier}" for one, _ in tails[bucket]) for bucket in tails]


@pytest.mark.parametrize(
    ("given", "statements", "whole_up_to", "expected"),
    [
        (["a1 a2", "a1"], {}, None, ["a1 a2", "a1"]),
        (["a1 s1 a2", "s1"], {"s1": frozenset({0, 1})}, None, ["a1 s1 a2", "s1"]),
        (["a1 s1 a2", "a1 a2"], {"s1": frozenset({0, 1})}, None, ["a1", "a1 a2"]),
        (["s1 a1 s2", "s2 a1"], {"s1": frozenset({0, 1}), "s2": frozenset({0, 1})}, None, ["", ""]),
        (["s1", "s2", "s1 s2"], {"s1": frozenset({0, 1, 2}), "s2": frozenset({1, 2})}, None, ["", "", ""]),
        (["a1 s1"], {"s1": None}, None, ["a1"]),
        (["a1 a2", "a1"], {}, {"a": 1}, ["a1", "a1"]),
        (["a1 a2", "a1 a2"], {}, {"a": 2}, ["a1 a2", "a1 a2"]),
        (["a1 b1 a2", "a1 a2"], {}, {"a": 2}, ["a1", "a1"]),
        (["a1", "b1"], {}, {"b": 1}, ["", "b1"]),
        (["a1", "b1"], {}, {}, ["", ""]),
    ],
)
def test_what_is_not_in_all_its_buckets_is_left_out_with_what_is_built_on_it(
    given: Sequence[str],
    statements: Mapping[str, frozenset[int] | None],
    whole_up_to: Mapping[str, int] | None,
    expected: Sequence[str],
) -> None:
    assert shown(cut_tails(dict(enumerate(map(tail, given))), statements, whole_up_to)) == list(expected)


def position(snapshot_id: int, topic_id: str | None = "one", **offsets: int) -> TablePosition:
    return TablePosition(
        table_uuid="t",
        branch="main",
        snapshot_id=snapshot_id,
        topic_id=topic_id,
        offsets={int(bucket[1:]): at for bucket, at in offsets.items()},
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (position(1, b0=5), position(1, b0=5), True),
        (position(1, b0=5, b1=1), position(2, b0=5), True),
        (position(9, b0=5), position(1, b0=5, b1=1), False),
        (position(9, b0=4), position(1, b0=5), False),
        (position(2, "two"), position(1, "one", b0=5), True),
        (position(1, "two"), position(1, "one", b0=5), False),
        (position(2, None), position(2, None), True),
        (position(1, None), position(2, None), False),
        (position(2, "one", b0=1), position(2, None), True),
    ],
)
def test_a_position_covers_another_one(one: TablePosition, other: TablePosition, expected: bool) -> None:
    assert one.covers(other) is expected


def test_a_position_is_a_token() -> None:
    for one in (position(7, b0=5, b11=8), position(0, None)):
        assert TablePosition.parse(str(one)) == one


@pytest.mark.parametrize(
    "token",
    [
        "",
        "7",
        "[]",
        '{"v":2,"table":"t","branch":"main","snapshot":1}',
        '{"v":1,"table":"t","branch":"main","snapshot":-1}',
        '{"v":1,"table":"t","branch":"main","snapshot":1,"topic":"one"}',
        '{"v":1,"table":"t","branch":"main","snapshot":1,"topic":"one","offsets":{"0":-3}}',
        '{"v":1,"table":"t","branch":"main","snapshot":1,"topic":"one","offsets":{"x":3}}',
    ],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidRequestError, match="is not the position of a table"):
        TablePosition.parse(token)


def test_the_position_of_another_table_is_refused() -> None:
    other = TablePosition(table_uuid="u", branch="main", snapshot_id=1)
    with pytest.raises(InvalidRequestError, match="the position is of table u, branch main; this is table t"):
        position(1).covers(other)
