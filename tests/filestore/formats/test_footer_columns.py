"""A footer of some columns describes these columns as the whole footer does, at the same places."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.filestore.formats.parquet.footer_columns import footer_of_columns

FOOT_BYTES = 8
ROWS = 70
NESTED = pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string()), ("id", pa.bool_())]))])
COLUMNS = {
    "id": pa.array(range(ROWS)),
    "text": pa.array([None if number % 7 == 0 else f"text {number % 5}" for number in range(ROWS)]),
    "list": pa.array([[number, None] for number in range(ROWS)], pa.list_(pa.int32())),
    "nested": pa.array([{"x": number, "y": {"z": "a", "id": True}} for number in range(ROWS)], NESTED),
    "map": pa.array([[("k", [number])] for number in range(ROWS)], pa.map_(pa.string(), pa.list_(pa.int8()))),
    "empty": pa.nulls(ROWS, pa.float64()),
    **{f"c{number}": pa.array([number * 1_000] * ROWS) for number in range(20)},  # lists of more than 14 columns
}


def written(rows: pa.Table, **options: object) -> tuple[bytes, bytes]:
    """The data of a file of row groups of 16 rows, and its footer."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, row_group_size=16, store_schema=False, **options)
    content = sink.getvalue()
    length = int.from_bytes(content[-FOOT_BYTES:-4], "little")
    return content[: -FOOT_BYTES - length], content[-FOOT_BYTES - length : -FOOT_BYTES]


def opened(data: bytes, footer: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(data + footer + len(footer).to_bytes(4, "little") + b"PAR1"))


TABLE = pa.table(COLUMNS)
DATA, FOOTER = written(TABLE)


@given(names=st.lists(st.sampled_from(TABLE.column_names), min_size=1, unique=True))
def test_the_columns_are_read_as_with_the_whole_footer(names: Sequence[str]) -> None:
    short = footer_of_columns(FOOTER, names)
    assert short is not None
    assert len(short) < len(FOOTER)
    whole, found = opened(DATA, FOOTER), opened(DATA, short)
    kept = [name for name in TABLE.column_names if name in names]
    assert found.schema_arrow.names == kept
    assert found.read().equals(whole.read(columns=kept))
    left = [
        leaf
        for leaf in range(whole.metadata.num_columns)
        if whole.metadata.schema.column(leaf).path.split(".")[0] in names
    ]
    for group in range(whole.num_row_groups):
        for at, leaf in enumerate(left):
            one, other = whole.metadata.row_group(group).column(leaf), found.metadata.row_group(group).column(at)
            assert one.to_dict() == other.to_dict()
            assert one.statistics == other.statistics


def test_a_footer_without_statistics_keeps_its_columns() -> None:
    data, footer = written(
        TABLE.select(["id", "text"]), write_statistics=False, column_encoding={"id": "PLAIN"}, use_dictionary=False
    )
    short = footer_of_columns(footer, ["id"])
    assert short is not None
    assert opened(data, short).read().equals(TABLE.select(["id"]))


def test_a_footer_that_refers_to_columns_by_number_is_left() -> None:
    _, footer = written(TABLE.select(["id", "text"]), sorting_columns=[pq.SortingColumn(0)])
    assert footer_of_columns(footer, ["id"]) is None


@pytest.mark.parametrize("length", [0, 1, 100, len(FOOTER) - 1])
def test_a_footer_that_ends_too_soon_is_an_error(length: int) -> None:
    with pytest.raises((IndexError, ValueError)):
        footer_of_columns(FOOTER[:length], ["id"])
