"""Walks over edges of fields: hops, kinds along paths, cycles, ranges of time, and one snapshot."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.lineage.columns.field_edges import EdgeKind, FieldEdge, SourceField, along
from lakelog.lineage.columns.questions.field_index import FieldIndex, build_index
from lakelog.lineage.columns.questions.field_walk import Reached, walk
from lakelog.lineage.columns.questions.index_schema import KINDS
from lakelog.lineage.columns.questions.periods import ALL_TIME, Period, period_at, period_between
from tests.support.lineage.known_world import MINUTE, START, KnownWorld, dataset_of


def walked(  # noqa: PLR0917  # a question
    index: FieldIndex,
    name: str,
    is_up: bool,
    depth: int | None = None,
    period: Period = ALL_TIME,
    direct_only: bool = False,
) -> Reached:
    owner, _, field = name.rpartition(".")
    start = index.field(index.dataset(dataset_of(owner)), field)
    return walk(index, [start.id], is_up=is_up, depth=depth, period=period, direct_only=direct_only)


def hops(index: FieldIndex, reached: Reached) -> dict[str, int]:
    """The hops of the fields that were reached, by `db.t.field`, without the first one."""
    fields = index.fields(reached.hops)
    names = {one.id: ".".join(one.dataset) for one in index.datasets()}
    return {f"{names[fields[one].dataset]}.{fields[one].name}": hop for one, hop in reached.hops.items() if hop}


def ways(index: FieldIndex, reached: Reached) -> dict[str, set[tuple[str, bool]]]:
    fields = index.fields(reached.ways)
    return {
        fields[one].name: {(KINDS[kind].subtype, is_masked) for kind, is_masked in found}
        for one, found in reached.ways.items()
        if reached.hops[one]
    }


def chain(length: int = 4) -> KnownWorld:
    """db.t0.x makes db.t1.x, and so on."""
    world = KnownWorld()
    for at in range(length + 1):
        world.table(f"db.t{at}", "x")
    for at in range(length):
        world.write(f"db.t{at + 1}", {"x": [f"db.t{at}.x"]}, snapshots=(at + 1, at + 1))
    return world


def test_depth_counts_hops_from_the_field() -> None:
    index = build_index(chain().known())

    assert hops(index, walked(index, "db.t2.x", is_up=True)) == {"db.t1.x": 1, "db.t0.x": 2}
    assert hops(index, walked(index, "db.t2.x", is_up=False, depth=1)) == {"db.t3.x": 1}
    assert hops(index, walked(index, "db.t0.x", is_up=True)) == {}


def test_a_cycle_ends_and_has_all_its_fields() -> None:
    world = chain(2)
    world.write("db.t0", {"x": ["db.t2.x"]})
    index = build_index(world.known())

    assert hops(index, walked(index, "db.t1.x", is_up=True)) == {"db.t0.x": 1, "db.t2.x": 2}
    assert hops(index, walked(index, "db.t1.x", is_up=False)) == {"db.t2.x": 1, "db.t0.x": 2}


def test_a_field_that_is_made_from_itself_is_one_edge() -> None:
    world = KnownWorld().table("db.t", "x")
    world.write("db.t", {"x": [("db.t.x", "TRANSFORMATION")]})
    index = build_index(world.known())

    for is_up in (True, False):
        reached = walked(index, "db.t.x", is_up=is_up)
        assert (hops(index, reached), len(reached.edges)) == ({}, 1)


def test_an_edge_of_a_dataset_leads_to_all_its_fields_and_from_them_up() -> None:
    world = KnownWorld().table("db.s", "day", "v").table("db.t", "a", "b").table("db.u", "c")
    world.write("db.t", {"a": ["db.s.v"], "b": []}, dataset=[("db.s.day", "FILTER")])
    world.write("db.u", {"c": ["db.t.b"]})
    index = build_index(world.known())

    assert hops(index, walked(index, "db.s.day", is_up=False)) == {"db.t.a": 1, "db.t.b": 1, "db.u.c": 2}
    assert hops(index, walked(index, "db.u.c", is_up=True)) == {"db.t.b": 1, "db.s.day": 2}
    assert hops(index, walked(index, "db.s.day", is_up=False, direct_only=True)) == {}
    assert hops(index, walked(index, "db.u.c", is_up=True, direct_only=True)) == {"db.t.b": 1}


def test_an_edge_of_a_dataset_reaches_a_dropped_field_if_its_write_made_it() -> None:
    world = KnownWorld().table("db.s", "day").table("db.t", "a", "gone").table("db.u", "c")
    world.write("db.t", {"a": [], "gone": []}, dataset=[("db.s.day", "FILTER")])
    world.write("db.u", {"c": ["db.t.gone"]})
    world.table("db.t", "a")
    index = build_index(world.known())

    assert hops(index, walked(index, "db.s.day", is_up=False)) == {"db.t.a": 1, "db.t.gone": 1, "db.u.c": 2}


def test_a_whole_dataset_has_the_edges_of_a_delete_though_no_field_is_made() -> None:
    world = KnownWorld().table("db.s", "day")
    world.write("x.t", {}, dataset=[("db.s.day", "FILTER")])
    index = build_index(world.known())
    sink = index.dataset(dataset_of("x.t"))

    reached = walk(index, [], is_up=True, datasets=[sink.id])

    assert [KINDS[edge.kind] for edge in reached.edges] == [EdgeKind.FILTER]
    assert hops(index, reached) == {"db.s.day": 1}


@given(kinds=st.lists(st.sampled_from(EdgeKind), min_size=1, max_size=5), masks=st.sets(st.integers(0, 4)))
def test_kinds_combine_along_a_path_as_in_one_statement(kinds: list[EdgeKind], masks: set[int]) -> None:
    world = KnownWorld()
    for at in range(len(kinds) + 1):
        world.table(f"db.t{at}", f"x{at}")
    for at, kind in enumerate(kinds):
        source = (f"db.t{at}.x{at}", kind.name, *(["masked"] if at in masks else []))
        world.write(f"db.t{at + 1}", {f"x{at + 1}": [source]})  # type: ignore[list-item]  # of two or three
    index = build_index(world.known())
    expected = frozenset([FieldEdge(SourceField(dataset_of("db.t0"), ("x0",)), EdgeKind.IDENTITY)])
    for at, kind in enumerate(kinds):
        expected = along(expected, kind, is_masking=at in masks)
    [edge] = expected
    way = {(edge.kind.subtype, edge.is_masked)}

    last = len(kinds)
    assert ways(index, walked(index, "db.t0.x0", is_up=False))[f"x{last}"] == way
    assert ways(index, walked(index, f"db.t{last}.x{last}", is_up=True))["x0"] == way


Made = Mapping[str, list[str]]
NODES = [f"db.t{at}.{field}" for at in range(5) for field in "ab"]


@given(
    edges=st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=25),
    start=st.sampled_from(NODES),
    depth=st.integers(1, 5),
)
def test_a_walk_reaches_what_a_search_over_pairs_reaches(edges: list[tuple[str, str]], start: str, depth: int) -> None:
    world = KnownWorld()
    for at in range(5):
        world.table(f"db.t{at}", "a", "b")
    for number, (source, target) in enumerate(edges):
        owner, _, field = target.rpartition(".")
        world.write(owner, {field: [source]}, run=f"run {number}")
    index = build_index(world.known())

    for is_up in (True, False):
        found, left = {start: 0}, [start]
        for hop in range(1, depth + 1):
            pairs = [(one, other) if is_up else (other, one) for other, one in edges]
            left = list(dict.fromkeys(to for one, to in pairs if one in left and to not in found))
            found |= dict.fromkeys(left, hop)
        del found[start]
        assert hops(index, walked(index, start, is_up=is_up, depth=depth)) == found


@pytest.mark.parametrize(
    ("start", "end", "is_found"),
    [
        (None, None, True),
        (START + 10 * MINUTE, START + 11 * MINUTE, True),  # between two batches of a run
        (START + 100 * MINUTE, None, True),  # the last batch
        (START + 100 * MINUTE + 1, None, False),
        (None, START + MINUTE, False),  # the end is not included
        (None, START + MINUTE + 1, True),
        (START + 10 * MINUTE, START + 10 * MINUTE, False),
    ],
)
def test_a_run_counts_in_each_range_that_it_overlaps(start: int | None, end: int | None, is_found: bool) -> None:
    world = KnownWorld().table("db.s", "x").table("db.t", "x")
    world.write("db.t", {"x": ["db.s.x"]}, snapshots=(1, 100))
    index = build_index(world.known())

    reached = walked(index, "db.t.x", is_up=True, period=period_between(index, start, end))

    assert bool(reached.edges) is is_found


def test_a_range_has_an_end_after_its_start() -> None:
    with pytest.raises(InvalidRequestError, match="expected an end after it"):
        period_between(build_index(chain().known()), 5, 4)


def history() -> KnownWorld:
    """db.t was made from a, then from b, each from c before and from d later."""
    world = KnownWorld()
    for name in "abcdtu":
        world.table(f"db.{name}", "x")
    world.write("db.a", {"x": ["db.c.x"]}, run="1", snapshots=(1, 1), times=(START, START))
    world.write("db.t", {"x": ["db.a.x"]}, run="2", snapshots=(1, 3), times=(START + 1, START + 3))
    world.write("db.a", {"x": ["db.d.x"]}, run="3", snapshots=(2, 2), times=(START + 5, START + 5))
    world.write("db.t", {"x": ["db.b.x"]}, run="4", snapshots=(5, 6), times=(START + 7, START + 9))
    world.write("db.u", {"x": ["db.t.x"]}, run="5", snapshots=(1, 1), times=(START + 4, START + 4))
    return world


@pytest.mark.parametrize(
    ("snapshot", "above"),
    [
        (2, {"db.a.x": 1, "db.c.x": 2}),
        (3, {"db.a.x": 1, "db.c.x": 2}),
        (4, {"db.a.x": 1, "db.c.x": 2}),  # a compaction: the run before it made what it has
        (5, {"db.b.x": 1}),
        (9, {"db.b.x": 1}),
    ],
)
def test_a_snapshot_has_what_made_it_and_above_that_what_was_there(snapshot: int, above: dict[str, int]) -> None:
    index = build_index(history().known())
    period = period_at(index, index.dataset(dataset_of("db.t")), snapshot)

    assert hops(index, walked(index, "db.t.x", is_up=True, period=period)) == above


def test_below_a_snapshot_are_the_runs_from_its_time_on() -> None:
    index = build_index(history().known())
    table = index.dataset(dataset_of("db.t"))

    for snapshot, below in ((2, {"db.u.x": 1}), (5, {})):
        period = period_at(index, table, snapshot)
        assert hops(index, walked(index, "db.t.x", is_up=False, period=period)) == below


def test_a_snapshot_that_read_its_own_table_has_what_made_the_earlier_one() -> None:
    world = KnownWorld().table("db.s", "x").table("db.t", "x")
    world.write("db.t", {"x": ["db.s.x"]}, run="1", snapshots=(1, 1))
    world.write("db.t", {"x": [("db.t.x", "TRANSFORMATION")]}, run="2", snapshots=(2, 2))
    index = build_index(world.known())
    period = period_at(index, index.dataset(dataset_of("db.t")), 2)

    assert hops(index, walked(index, "db.t.x", is_up=True, period=period)) == {"db.s.x": 2}


def test_a_snapshot_before_all_runs_is_not_found() -> None:
    index = build_index(history().known())

    with pytest.raises(NotFoundError, match="the snapshots from 1 to 6"):
        period_at(index, index.dataset(dataset_of("db.t")), 0)
