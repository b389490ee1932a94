"""What a write task does before it touches log or files."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import FencedError, InvalidRequestError
from lakelog.spark.task import (
    BUCKET_COLUMN,
    ORDER_COLUMN,
    SORT_PREFIX,
    TaskMessage,
    check_owned,
    in_order,
    parse_messages,
    split_by_bucket,
)


@given(rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1000)), max_size=30))
def test_rows_of_a_bucket_are_in_the_order_of_their_places(rows: list[tuple[int, int]]) -> None:
    table = pa.table(
        {
            "v": pa.array(range(len(rows)), pa.int64()),
            ORDER_COLUMN: pa.array([place for _, place in rows], pa.int64()),
            BUCKET_COLUMN: pa.array([bucket for bucket, _ in rows], pa.int32()),
        }
    )
    parts = split_by_bucket(table) if rows else {}

    assert sorted(parts) == sorted({bucket for bucket, _ in rows})
    for bucket, part in parts.items():
        assert part.column_names == ["v"]
        mine = [(place, at) for at, (owner, place) in enumerate(rows) if owner == bucket]
        assert part["v"].to_pylist() == [at for _, at in sorted(mine)]


def test_the_users_order_comes_first_and_nulls_are_oldest() -> None:
    table = pa.table(
        {
            "v": [1, 2, 3, 4],
            f"{SORT_PREFIX}0": [5, None, 4, 5],
            ORDER_COLUMN: [3, 2, 1, 0],
        }
    )

    assert in_order(table)["v"].to_pylist() == [2, 3, 4, 1]


def test_rows_of_another_tasks_bucket_are_refused_and_the_helper_is_named() -> None:
    check_owned([1, 3, 5], task_count=2, task_number=1, table_name="db.t")

    with pytest.raises(InvalidRequestError, match=r"bucket 4 of table db\.t.*lakelog\.spark\.write_stream"):
        check_owned([1, 4], task_count=2, task_number=1, table_name="db.t")


def test_the_driver_raises_what_a_task_met() -> None:
    messages = [TaskMessage(row_count=1), TaskMessage(error=FencedError("another stream"))]

    with pytest.raises(FencedError, match="another stream"):
        parse_messages(pickle.dumps(message) for message in messages)
