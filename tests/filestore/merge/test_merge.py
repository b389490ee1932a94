"""Columnar merging: the format's order, winners, key ranges within a budget."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakelog.common.arrow import to_arrow_type
from lakelog.common.types import DataField, RowKind, parse_type
from lakelog.filestore.encoding.binary_row import stored_row
from lakelog.filestore.encoding.key_order import comparable
from lakelog.filestore.merge.deduplicate import (
    Slice,
    are_absent,
    merge_ordered,
    merge_unordered,
    newest_rows,
    without_deletes,
)
from lakelog.filestore.merge.order import key_at as key_of_row
from lakelog.filestore.merge.order import key_frame, rows_before, rows_up_to, to_series
from lakelog.filestore.merge.runs import RunCursor, aligned_slices, are_ranked, piece_sizes
from lakelog.filestore.metadata.manifests.levels import SortedRun
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND
from tests.support.examples import examples
from tests.support.files.data_files import plain_file
from tests.support.tables.strategies import arrow_rows, key_types, storable_values

CALM = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
ID = DataField(id=0, name="id", type=parse_type("INT"))


@st.composite
def key_tables(draw: st.DrawFn) -> tuple[list[DataField], pa.Table]:
    """Key columns of any type, with nulls, and rows that repeat."""
    kinds = draw(st.lists(key_types, min_size=1, max_size=3))
    fields = [DataField(id=index, name=f"k{index}", type=kind) for index, kind in enumerate(kinds)]
    pool = draw(st.lists(st.tuples(*(storable_values(kind) for kind in kinds)), min_size=1, max_size=4))
    keys = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=10))
    return fields, arrow_rows(fields, {field.name: [key[i] for key in keys] for i, field in enumerate(fields)})


def comparables(fields: list[DataField], rows: pa.Table) -> list[tuple[object, ...]]:
    kinds = [field.type for field in fields]
    return [comparable(kinds, stored_row(kinds, rows.columns, row)) for row in range(rows.num_rows)]


@CALM
@given(case=key_tables())
def test_keys_sort_as_the_format_sorts_them(case: tuple[list[DataField], pa.Table]) -> None:
    fields, rows = case
    keys = key_frame(rows, fields)
    positions = keys.with_row_index("row").sort(keys.columns, maintain_order=True)["row"].to_list()
    order = comparables(fields, rows)
    assert positions == sorted(range(rows.num_rows), key=lambda row: order[row])
    assert [key_of_row(keys, row) <= key_of_row(keys, 0) for row in range(rows.num_rows)] == [
        order[row] <= order[0] for row in range(rows.num_rows)
    ]


@pytest.mark.parametrize("text", ["FLOAT", "DOUBLE"])
def test_floats_sort_as_java_sorts_them(text: str) -> None:
    field = DataField(id=0, name="k", type=parse_type(text))
    ordered = [None, -math.inf, -1.5, -1e-40, -0.0, 0.0, 1e-40, 1.5, math.inf, math.nan]
    shuffled = [ordered[index] for index in (9, 4, 0, 8, 5, 2, 7, 1, 3, 6)]
    rows = pa.table({"k": pa.array(shuffled, to_arrow_type(field.type))})
    positions = newest_rows(key_frame(rows, [field])).to_arrow()
    assert str(rows["k"].take(positions).to_pylist()) == str(pa.array(ordered, rows["k"].type).to_pylist())


@pytest.mark.parametrize("few_rows", [0, 100], ids=["by polars", "without polars"])
@CALM
@given(case=key_tables())
def test_the_last_row_of_each_key_is_the_newest(few_rows: int, case: tuple[list[DataField], pa.Table]) -> None:
    fields, rows = case
    last = {key: row for row, key in enumerate(comparables(fields, rows))}
    with patch("lakelog.filestore.merge.deduplicate._FEW_ROWS", few_rows):
        found = newest_rows(key_frame(rows, fields))
    assert found.to_list() == [last[key] for key in sorted(last)]
    assert found.dtype == pl.UInt32


@CALM
@given(case=key_tables(), data=st.data())
def test_rows_up_to_a_key_are_those_that_are_not_above_it(
    case: tuple[list[DataField], pa.Table], data: st.DataObject
) -> None:
    fields, rows = case
    keys = key_frame(rows, fields)
    bound = key_of_row(keys, data.draw(st.integers(0, rows.num_rows - 1)))
    ordered = keys.sort(keys.columns).slice(
        data.draw(st.integers(0, rows.num_rows - 1))
    )  # as a merge takes parts of it
    found = [key_of_row(ordered, row) for row in range(ordered.height)]
    assert rows_up_to(ordered, bound) == sum(key <= bound for key in found)
    assert rows_before(ordered, bound) == sum(key < bound for key in found)


@CALM
@given(case=key_tables(), data=st.data())
def test_absent_keys_are_those_that_the_others_lack(
    case: tuple[list[DataField], pa.Table], data: st.DataObject
) -> None:
    fields, rows = case
    keys = key_frame(rows, fields)
    others = keys.head(data.draw(st.integers(0, rows.num_rows)))
    known = set(others.rows())
    assert are_absent(keys, others).to_list() == [key not in known for key in keys.rows()]


Row = tuple[int | None, int, int]  # id, sequence number, kind
runs_of_rows = st.lists(
    st.dictionaries(st.none() | st.integers(0, 12), st.tuples(st.integers(0, 5), st.sampled_from(RowKind)), max_size=8),
    min_size=1,
    max_size=5,
)


def stored(rows: list[Row], *, has_kinds: bool = True, has_numbers: bool = True) -> pa.Table:
    columns: dict[str, pa.Array] = {"id": pa.array([row[0] for row in rows], pa.int32())}
    columns["value"] = pa.array([row[1] for row in rows], pa.int64())
    if has_numbers:
        columns[SEQUENCE_NUMBER] = columns["value"]
    if has_kinds:
        columns[VALUE_KIND] = pa.array([row[2] for row in rows], pa.int8())
    return pa.table(columns)


def slice_of(table: pa.Table) -> Slice:
    return Slice(keys=key_frame(table, [ID]), rows=table)


def in_order(rows: dict[int | None, tuple[int, RowKind]], offset: int = 0) -> list[Row]:
    ordered = sorted(rows, key=lambda key: (key is not None, key))
    return [(key, rows[key][0] + offset, int(rows[key][1])) for key in ordered]


def expected_rows(runs: list[list[Row]], *, keeps_deletes: bool) -> list[tuple[int | None, int]]:
    """The winner of each key: highest number, then an add, then the younger run; `runs` is youngest first."""
    best: dict[int | None, tuple[int, bool, int]] = {}
    for rank, run in enumerate(runs):
        for key, number, kind in run:
            rival = (number, RowKind(kind).is_add, -rank)
            best[key] = max(best.get(key, rival), rival)
    ordered = sorted(best, key=lambda key: (key is not None, key))
    return [(key, best[key][0]) for key in ordered if best[key][1] or keeps_deletes]


def pairs(table: pa.Table) -> list[tuple[int | None, int]]:
    return list(zip(table["id"].to_pylist(), table["value"].to_pylist(), strict=True))


@CALM
@given(given_runs=runs_of_rows, keeps_deletes=st.booleans())
def test_sequence_numbers_decide_where_runs_are_not_ranked(
    given_runs: list[dict[int | None, tuple[int, RowKind]]], keeps_deletes: bool
) -> None:
    runs = [run for run in map(in_order, given_runs) if run] or [[(1, 1, 0)]]
    slices = [slice_of(stored(run)) for run in runs]
    merged = merge_ordered(slices, is_ranked=False, keeps_deletes=keeps_deletes)
    assert pairs(merged) == expected_rows(runs, keeps_deletes=keeps_deletes)


@CALM
@given(given_runs=runs_of_rows, keeps_deletes=st.booleans(), is_ranked=st.booleans())
def test_ranked_runs_merge_the_same_with_and_without_numbers(
    given_runs: list[dict[int | None, tuple[int, RowKind]]], keeps_deletes: bool, is_ranked: bool
) -> None:
    count = len(given_runs)
    runs = [in_order(run, offset=10 * (count - rank)) for rank, run in enumerate(given_runs)]
    runs = [run for run in runs if run] or [[(1, 1, 0)]]
    slices = [slice_of(stored(run, has_numbers=not is_ranked)) for run in runs]
    merged = merge_ordered(slices, is_ranked=is_ranked, keeps_deletes=keeps_deletes)
    assert pairs(merged) == expected_rows(runs, keeps_deletes=keeps_deletes)


@CALM
@given(given_runs=runs_of_rows, has_deletes=st.booleans())
def test_a_long_oldest_run_is_masked_to_the_same_rows(
    given_runs: list[dict[int | None, tuple[int, RowKind]]], has_deletes: bool
) -> None:
    bottom = [(key, 0, 0 if not has_deletes or key % 3 else 3) for key in range(60)]
    count = len(given_runs)
    younger = [in_order(run, offset=10 * (count - rank)) for rank, run in enumerate(given_runs)]
    runs: list[list[Row]] = [*(run for run in younger if run), list(bottom)]
    slices = [slice_of(stored(run, has_kinds=has_deletes or rank + 1 < len(runs))) for rank, run in enumerate(runs)]
    parts = merge_unordered(slices, is_ranked=True)
    found = [pair for part in parts for pair in pairs(part)]
    assert len(found) == len(set(found))
    assert sorted(found, key=str) == sorted(expected_rows(runs, keeps_deletes=False), key=str)


@CALM
@given(given_runs=runs_of_rows, data=st.data())
def test_aligned_slices_hold_every_row_of_their_key_range(
    given_runs: list[dict[int | None, tuple[int, RowKind]]], data: st.DataObject
) -> None:
    runs = [in_order(run) for run in given_runs]
    cursors = []
    for run in runs:
        size = data.draw(st.integers(1, 4))
        pieces = [stored(run[start : start + size]) for start in range(0, len(run), size)]
        cursors.append(RunCursor(tables=iter(pieces), key_fields=[ID], rows_left=len(run)))
    seen: list[int | None] = []
    count = 0
    for slices in aligned_slices(cursors, data.draw(st.integers(1, 500))):
        keys = [key for part in slices for key in part.rows["id"].to_pylist()]
        count += len(keys)
        fresh = sorted(set(keys), key=lambda key: (key is not None, key))
        assert not seen or seen[-1] is None or (fresh[0] is not None and fresh[0] > seen[-1])
        assert not (seen and fresh[0] is None)
        seen += fresh
    assert count == sum(len(run) for run in runs)


def test_runs_are_ranked_when_their_sequence_numbers_do_not_mix() -> None:
    def run(low: int, high: int) -> SortedRun:
        file = replace(plain_file("a"), min_sequence_number=low, max_sequence_number=high)
        return SortedRun(level=0, files=(file,))

    assert are_ranked([run(10, 12), run(5, 9), run(0, 4)])
    assert not are_ranked([run(10, 12), run(5, 10)])
    assert not are_ranked([run(0, 4), run(5, 9)])


def runs_of_numbers(count: int, rows: int, seed: int) -> list[pa.Table]:
    """Runs of random keys, all from the same range."""
    random = np.random.default_rng(seed)
    return [
        pa.table({"id": np.sort(random.choice(100_000, rows, replace=False).astype(np.int32))}) for _ in range(count)
    ]


def cursors_of(runs: list[pa.Table], sizes: list[int]) -> list[RunCursor]:
    return [
        RunCursor(
            tables=iter([run.slice(start, size // 4) for start in range(0, run.num_rows, size // 4)]),
            key_fields=[ID],
            rows_left=run.num_rows,
        )
        for run, size in zip(runs, sizes, strict=True)
    ]


def test_runs_of_the_same_keys_are_merged_in_few_ranges() -> None:
    runs = [*runs_of_numbers(40, 250, seed=1), *runs_of_numbers(1, 10_000, seed=2)]
    total = sum(run.nbytes for run in runs)
    sizes = piece_sizes([run.nbytes for run in runs], total // 4)
    ranges = list(map(len, aligned_slices(cursors_of(runs, sizes), total // 4)))
    assert 4 <= len(ranges) <= 8, "one of each run's pieces a range would be more than 40"


def test_runs_behind_each_other_are_merged_in_few_ranges() -> None:
    runs = [pa.table({"id": np.arange(at * 250, (at + 1) * 250, dtype=np.int32)}) for at in range(40)]
    total = sum(run.nbytes for run in runs)
    ranges = list(aligned_slices(cursors_of(runs, piece_sizes([run.nbytes for run in runs], total // 4)), total // 4))
    assert len(ranges) <= 8


@pytest.mark.parametrize("percent", [5, 20, 60])
def test_what_is_loaded_of_runs_stays_within_the_budget(percent: int) -> None:
    runs = [*runs_of_numbers(20, 500, seed=3), *runs_of_numbers(1, 8_000, seed=4)]
    budget = sum(run.nbytes for run in runs) * percent // 100
    cursors = cursors_of(runs, piece_sizes([run.nbytes for run in runs], budget))
    loaded = [sum(run.held_bytes for run in cursors) + rows_in(slices) for slices in aligned_slices(cursors, budget)]
    assert max(loaded) <= budget * 1.5, "a piece that is handed out in part is held as a whole"


def rows_in(slices: list[Slice]) -> int:
    return sum(int(part.rows.nbytes) for part in slices)


@given(wanted=st.lists(st.integers(1, 1_000), min_size=1, max_size=8), budget=st.integers(1, 4_000))
def test_first_pieces_take_half_of_the_budget_or_all_that_is_wanted(wanted: list[int], budget: int) -> None:
    sizes = piece_sizes(wanted, budget)
    if sum(wanted) <= budget:
        assert sizes == wanted
    else:
        assert sum(sizes) <= budget // 2 + len(wanted)  # at least one byte each
    assert all(size <= wish for wish, size in zip(wanted, sizes, strict=True))
    ordered = [size for _, size in sorted(zip(wanted, sizes, strict=True))]
    assert all(size <= more + 1 for size, more in itertools.pairwise(ordered))


@given(wanted=st.lists(st.integers(100_000, 100_000_000), min_size=2, max_size=40), percent=st.integers(5, 90))
def test_there_are_no_more_pieces_than_of_equal_sizes(wanted: list[int], percent: int) -> None:
    budget = sum(wanted) * percent // 100
    sizes = piece_sizes(wanted, budget)
    pieces = sum(wish / size for wish, size in zip(wanted, sizes, strict=True))
    equal = sum(max(1.0, wish / (budget / 2 / len(wanted))) for wish in wanted)
    assert pieces <= equal * 1.001


def test_one_large_run_gets_more_than_many_small_ones() -> None:
    assert piece_sizes([100, 100, 100, 10_000], 2_600) == [100, 100, 100, 1_000]


def test_rows_without_deletes_are_not_copied() -> None:
    rows = stored([(1, 1, 0), (2, 2, 2)])
    assert without_deletes(rows) is rows
    assert pairs(without_deletes(stored([(1, 1, 0), (2, 2, 1), (3, 3, 3)]))) == [(1, 1)]


def test_nested_columns_in_pieces_are_compared() -> None:
    """polars panics where they stay in pieces."""
    kind = pa.list_(pa.struct([("a", pa.map_(pa.binary(), pa.int32()))]))
    nothing, one = pa.array([None], kind), pa.array([[{"a": [(b"k", 0)]}]], kind)
    column, other = (to_series(pa.chunked_array(pieces, kind)) for pieces in ([nothing, one], [one, nothing]))
    assert column.gather([0, 1]).eq_missing(other.gather([1, 0])).to_list() == [True, True]
    assert column.eq_missing(other).to_list() == [False, False]


def test_a_key_frame_of_every_key_type_has_one_column_a_key() -> None:
    for text in ("FLOAT", "DOUBLE", "TIME(3)", "TIMESTAMP(0)", "TIMESTAMP_LTZ(9)", "DECIMAL(38, 10)", "BYTES"):
        field = DataField(id=0, name="k", type=parse_type(text))
        empty = pa.table({"k": pa.array([], to_arrow_type(field.type))})
        assert isinstance(key_frame(empty, [field]), pl.DataFrame)
