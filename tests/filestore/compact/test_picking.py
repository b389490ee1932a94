"""Which runs a compaction takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.filestore.compact.picking import (
    CompactUnit,
    PickRules,
    pick_for_run_count,
    pick_for_size_ratio,
    pick_for_space_amp,
    pick_full,
    pick_universal,
)
from lakelog.filestore.metadata.manifests.levels import SortedRun, highest_level
from tests.support.files.data_files import plain_file

LEVEL_MAX = 5


def run(size: int, level: int = 0) -> SortedRun:
    return SortedRun(level=level, files=(replace(plain_file("f", level=level), file_size_bytes=size),))


@st.composite
def sorted_runs(draw: st.DrawFn) -> list[SortedRun]:
    sizes = st.integers(1, 1_000)
    young = draw(st.lists(sizes, max_size=7))
    levels = sorted(draw(st.sets(st.integers(1, LEVEL_MAX), max_size=4)))
    return [*(run(size) for size in young), *(run(draw(sizes), level) for level in levels)]


def pick(runs: list[SortedRun], *, trigger: int = 5, amplification: int = 200, ratio: int = 1) -> CompactUnit | None:
    return pick_universal(runs, rules(trigger=trigger, amplification=amplification, ratio=ratio))


def rules(*, trigger: int = 5, amplification: int = 200, ratio: int = 1) -> PickRules:
    return PickRules(trigger=trigger, amplification_percent_max=amplification, ratio_percent=ratio, level_max=LEVEL_MAX)


def settled(runs: list[SortedRun], unit: CompactUnit) -> list[SortedRun]:
    """The runs after the unit was merged without any row cancelling out."""
    merged = run(sum(part.size_bytes for part in unit.inputs), unit.output_level)
    return [merged, *runs[len(unit.inputs) :]]


@given(runs=sorted_runs(), trigger=st.integers(2, 8))
def test_a_unit_is_the_youngest_runs_and_goes_where_no_other_run_is(runs: list[SortedRun], trigger: int) -> None:
    unit = pick(runs, trigger=trigger)
    if unit is None:
        return
    taken = len(unit.inputs)
    assert list(unit.inputs) == runs[:taken]  # never skips a younger run
    assert unit.output_level > 0
    assert unit.output_level not in {rest.level for rest in runs[taken:]}
    assert all(rest.level > unit.output_level for rest in runs[taken:])
    assert unit.drops_deletes == (taken == len(runs))


@given(runs=sorted_runs(), trigger=st.integers(2, 8))
def test_at_the_trigger_something_is_picked_until_the_bucket_is_below_it(runs: list[SortedRun], trigger: int) -> None:
    for _ in range(20):
        unit = pick(runs, trigger=trigger)
        if unit is None:
            break
        runs = settled(runs, unit)
    assert pick(runs, trigger=trigger) is None
    assert len(runs) <= trigger


@given(runs=sorted_runs())
def test_below_the_trigger_nothing_is_picked(runs: list[SortedRun]) -> None:
    assert pick(runs[:4]) is None


@given(runs=sorted_runs(), percent_max=st.integers(1, 400))
def test_a_unit_for_space_settles_the_bucket(runs: list[SortedRun], percent_max: int) -> None:
    unit = pick_for_space_amp(runs, trigger=2, percent_max=percent_max, level_max=LEVEL_MAX)
    if unit is not None:
        assert unit.drops_deletes
        assert pick_for_space_amp(settled(runs, unit), trigger=2, percent_max=percent_max, level_max=LEVEL_MAX) is None


@pytest.mark.parametrize(
    ("runs", "taken", "output_level"),
    [
        ([run(1), run(1), run(2), run(100, 4)], 3, 3),
        ([run(1), run(1), run(100), run(100, 4)], 4, 5),
        ([run(1), run(1), run(50), run(100, 1), run(500, 4)], 4, 3),
        ([run(5), run(1, 5)], 2, 5),
    ],
)
def test_runs_join_while_the_next_is_not_much_larger(runs: list[SortedRun], taken: int, output_level: int) -> None:
    unit = pick_for_size_ratio(runs, trigger=2, percent=1, level_max=LEVEL_MAX)
    assert unit is not None
    assert (len(unit.inputs), unit.output_level) == (taken, output_level)


def test_one_run_alone_is_no_unit_for_size() -> None:
    assert pick_for_size_ratio([run(1), run(100, 2), run(900, 5)], trigger=2, percent=1, level_max=LEVEL_MAX) is None


def test_runs_above_the_trigger_are_merged_whatever_their_sizes() -> None:
    runs = [run(1), run(10, 2), run(100, 3), run(1_000, 4)]
    unit = pick_for_run_count(runs, trigger=3, percent=1, level_max=LEVEL_MAX)
    assert unit is not None
    assert (len(unit.inputs), unit.output_level) == (2, 2)


def test_a_full_compaction_ends_with_one_run_at_the_highest_level() -> None:
    unit = pick_full([run(1), run(5, 5)], level_max=LEVEL_MAX)
    assert unit is not None
    assert (unit.output_level, unit.drops_deletes, len(unit.inputs)) == (5, True, 2)
    assert pick_full([run(5, 5)], level_max=LEVEL_MAX) is None
    assert pick_full([], level_max=LEVEL_MAX) is None
    assert pick_full([run(5, 3)], level_max=LEVEL_MAX) is not None


def test_deletes_at_the_highest_level_are_worth_a_full_compaction() -> None:
    holding = SortedRun(level=5, files=(replace(plain_file("f", level=5), delete_row_count=1),))
    assert pick_full([holding], level_max=LEVEL_MAX) is not None


def test_deletion_vectors_at_the_highest_level_are_worth_a_full_compaction() -> None:
    settled = SortedRun(level=5, files=(plain_file("f", level=5), plain_file("g", level=5)))
    unit = pick_full([settled], level_max=LEVEL_MAX, marked={"g"})
    assert unit is not None
    assert (unit.inputs, unit.output_level, unit.older) == ((settled,), 5, ())
    assert pick_full([settled], level_max=LEVEL_MAX, marked={"of another level"}) is None


@pytest.mark.parametrize(
    ("due", "is_picked"),
    [
        ({}, False),
        ({"is_full_due": True}, True),
        ({"total_bytes_small": 131}, True),
        ({"total_bytes_small": 130}, False),
        ({"younger_bytes_max": 29}, True),
        ({"younger_bytes_max": 30}, False),
    ],
)
def test_a_full_merge_may_be_due_below_the_trigger(due: dict[str, int], is_picked: bool) -> None:
    runs = [run(10), run(20, 3), run(100, LEVEL_MAX)]
    unit = pick_universal(runs, replace(rules(), **due))  # type: ignore[arg-type]  # names of fields
    assert (unit is not None) == is_picked
    if unit is not None:
        assert (len(unit.inputs), unit.output_level) == (3, LEVEL_MAX)


@pytest.mark.parametrize(
    ("runs", "taken", "output_level"),
    [
        ([run(5)], 1, 5),
        ([run(5), run(7), run(1_000, 5)], 2, 4),
        ([run(5), run(100, 4), run(1_000, 5)], 1, 3),
        ([run(5), run(100, 1), run(1_000, 5)], 2, 1),
        ([run(5), run(4, 4), run(1_000, 5)], 2, 4),
    ],
)
def test_where_old_rows_are_looked_up_level_0_never_waits(runs: list[SortedRun], taken: int, output_level: int) -> None:
    unit = pick_universal(runs, replace(rules(), lifts_level0=True))
    assert unit is not None
    assert (len(unit.inputs), unit.output_level) == (taken, output_level)
    assert list(unit.older) == runs[taken:]
    assert pick_universal(runs[1:] if runs[0].level else runs[2:], replace(rules(), lifts_level0=True)) is None


def test_levels_that_files_show_count_beyond_the_options() -> None:
    assert highest_level({}, []) == 5
    assert highest_level({"num-levels": "4"}, [0, 2]) == 3
    assert highest_level({"num-sorted-run.compaction-trigger": "2"}, [0, 8]) == 8
