"""What Spark's state makes of the changes of one key, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pytest

from lakelog.spark.source.streams.normalize import _normalized_key, _numbered

Row = list[str | None]
Change = tuple[int, str, Row]


@dataclass(slots=True)
class OneRow:
    """What Spark keeps of a key between batches."""

    row: Row | None = None

    @property
    def exists(self) -> bool:
        return self.row is not None

    @property
    def get(self) -> tuple[str | None, ...]:
        assert self.row is not None
        return tuple(self.row)

    def update(self, value: tuple[str | None, ...]) -> None:
        self.row = list(value)

    def remove(self) -> None:
        self.row = None


def changes_of(state: OneRow, *frames: Sequence[Change]) -> list[tuple[str, Row]]:
    given = [
        pd.DataFrame(
            {"order": [one[0] for one in frame], "kind": [one[1] for one in frame], "row": [one[2] for one in frame]}
        )
        for frame in frames
    ]
    return [
        (kind, row)
        for found in _normalized_key(("k",), iter(given), state)
        for kind, row in zip(found["kind"], found["row"], strict=True)
    ]


@pytest.mark.parametrize(
    ("before", "changes", "expected", "after"),
    [
        (None, [(1, "+I", ["a"])], [("+I", ["a"])], ["a"]),
        (["a"], [(1, "+I", ["b"])], [("-U", ["a"]), ("+U", ["b"])], ["b"]),
        (["a"], [(1, "+U", ["a"])], [], ["a"]),
        (["a"], [(1, "-D", [None])], [("-D", ["a"])], None),
        (None, [(1, "-D", ["a"])], [], None),
        (["a"], [(1, "-U", ["a"]), (2, "+U", [None])], [("-U", ["a"]), ("+U", [None])], [None]),
        (["a"], [(2, "+I", ["b"]), (1, "-D", ["a"])], [("-D", ["a"]), ("+I", ["b"])], ["b"]),
    ],
)
def test_the_state_of_a_key_is_its_row(
    before: Row | None, changes: list[Change], expected: list[tuple[str, Row]], after: Row | None
) -> None:
    state = OneRow(before)
    assert changes_of(state, changes) == expected
    assert state.row == after


def test_changes_in_several_frames_are_taken_in_their_order() -> None:
    found = changes_of(OneRow(), [(3, "+I", ["c"])], [(1, "+I", ["a"]), (2, "+I", ["b"])])
    assert [row for kind, row in found if kind in ("+I", "+U")] == [["a"], ["b"], ["c"]]


def test_the_rows_of_a_task_are_numbered_over_its_batches() -> None:
    batches = [pa.RecordBatch.from_pydict({"x": [7, 7]}), pa.RecordBatch.from_pydict({"x": [7]})]
    assert [batch["order"].to_pylist() for batch in _numbered(batches)] == [[0, 1], [2]]
