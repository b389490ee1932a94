"""Records and the rows before them to full changes: a valid changelog, whatever came before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.arrow import from_arrow_field
from lakelog.common.types import ROW_KIND_TEXTS, DataField
from lakelog.protocol.reading.full_changes import Flags, FullChanges, History, full_changes
from tests.support.logs.valid_changes import Change, follow

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("a", pa.float64()), pa.field("b", pa.string())])
FIELDS = [from_arrow_field(field) for field in SCHEMA]
KEY = FIELDS[:1]
Row = tuple[int, float | None, str | None]
Record = tuple[bool, Row]  # whether the row exists after it

rows_of_key = st.tuples(st.integers(0, 3), st.sampled_from((None, 0.0, 1.0)), st.sampled_from((None, "x", "y")))
records_of = st.lists(st.tuples(st.booleans(), rows_of_key), max_size=12)


def history_of(records: Sequence[Record], *, is_new: bool) -> History:
    rows = pa.Table.from_pylist([dict(zip("kab", row, strict=True)) for _, row in records], SCHEMA)
    exists = np.array([exists for exists, _ in records], np.bool_)
    return History(rows=rows, exists=exists, is_new=np.full(len(records), is_new))


def changes_in(found: FullChanges, batch_rows: int = 3) -> list[Change]:
    return [
        (ROW_KIND_TEXTS[kind], tuple(row.values()))
        for batch, kinds in found.pieces(batch_rows)
        for row, kind in zip(batch.to_pylist(), kinds.to_pylist(), strict=True)
    ]


def state_after(records: Sequence[Record]) -> dict[int, Row]:
    state: dict[int, Row] = {}
    for exists, row in records:
        if exists:
            state[row[0]] = row
        else:
            state.pop(row[0], None)
    return state


@given(before=records_of, old=st.dictionaries(st.integers(0, 3), st.just("old")), records=records_of)
def test_changes_lead_from_the_state_before_to_the_state_after(
    before: list[Record], old: dict[int, str], records: list[Record]
) -> None:
    base: list[Record] = [(True, (key, 5.0, text)) for key, text in old.items()]
    history = (
        history_of(base, is_new=False).then(history_of(before, is_new=False)).then(history_of(records, is_new=True))
    )
    found = changes_in(full_changes(history, key_fields=KEY, shown=FIELDS))
    assert follow(state_after(base + before), found) == state_after(base + before + records)


@given(before=records_of, records=records_of)
def test_a_row_that_does_not_pass_a_filter_does_not_exist(before: list[Record], records: list[Record]) -> None:
    def passes(rows: pa.Table) -> Flags:
        return np.array([value == "x" for value in rows["b"].to_pylist()], np.bool_)

    def passing(records: list[Record]) -> dict[int, Row]:
        return {key: row for key, row in state_after(records).items() if row[2] == "x"}

    history = history_of(before, is_new=False).then(history_of(records, is_new=True))
    found = changes_in(full_changes(history, key_fields=KEY, shown=FIELDS, passes=passes))
    assert follow(passing(before), found) == passing(before + records)


def kinds_of(records: Sequence[Record], shown: Sequence[DataField] = FIELDS) -> list[str]:
    return [kind for kind, _ in changes_in(full_changes(history_of(records, is_new=True), key_fields=KEY, shown=shown))]


@pytest.mark.parametrize(
    ("records", "kinds"),
    [
        ([(True, (1, 1.0, "x"))], ["+I"]),
        ([(True, (1, 1.0, "x")), (True, (1, 2.0, "x"))], ["+I", "-U", "+U"]),
        ([(True, (1, 1.0, "x")), (True, (1, 1.0, "x"))], ["+I"]),
        ([(True, (1, 1.0, "x")), (False, (1, None, None)), (True, (1, 1.0, "x"))], ["+I", "-D", "+I"]),
        ([(False, (1, 1.0, "x"))], []),
        ([(True, (1, 0.0, "x")), (True, (1, -0.0, "x"))], ["+I", "-U", "+U"]),
        ([(True, (1, float("nan"), "x")), (True, (1, float("nan"), "x"))], ["+I"]),
        ([(True, (1, None, "x")), (True, (1, None, None))], ["+I", "-U", "+U"]),
        ([], []),
    ],
)
def test_every_change_has_its_kind_and_none_changes_nothing(records: list[Record], kinds: list[str]) -> None:
    assert kinds_of(records) == kinds


def test_an_update_of_a_column_that_is_not_shown_is_no_change() -> None:
    records: list[Record] = [(True, (1, 1.0, "x")), (True, (1, 1.0, "y")), (True, (1, 2.0, "y"))]
    assert kinds_of(records, FIELDS[:2]) == ["+I", "-U", "+U"]


def test_a_delete_carries_the_row_as_it_was() -> None:
    history = history_of([(True, (1, 1.0, "x"))], is_new=False).then(
        history_of([(False, (1, None, None))], is_new=True)
    )
    assert changes_in(full_changes(history, key_fields=KEY, shown=FIELDS)) == [("-D", (1, 1.0, "x"))]


def test_no_pair_is_cut_in_two() -> None:
    records: list[Record] = [(True, (1, float(number), "x")) for number in range(6)]
    found = full_changes(history_of(records, is_new=True), key_fields=KEY, shown=FIELDS)
    for _, kinds in found.pieces(2):
        texts = pl.Series([ROW_KIND_TEXTS[kind] for kind in kinds.to_pylist()])
        assert (texts == "-U").sum() == (texts == "+U").sum()
