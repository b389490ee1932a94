"""Questions of any depth over edges, against a model that follows one edge at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.filestore.metadata.origins.record import LineKey, TableVersion
from lakelog.lineage.tables.edge_arrays import EdgeArrays
from lakelog.lineage.tables.edges import edge_table
from tests.support.examples import examples


@dataclass(frozen=True)
class ModelEdge:
    """An edge as the model has it: a sink's snapshot read a range of a source's, `start` None all up to `end`."""

    sink: str
    snapshot: int
    source: str
    start: int | None
    end: int | None
    mode: str = "stream"
    commit: str | None = None
    end_commit: str | None = None
    time: int = 0


def table_of(edges: Sequence[ModelEdge]) -> pa.Table:
    return edge_table(
        {
            "job": "job",
            "sink_uuid": edge.sink,
            "sink_table": f"db.{edge.sink}",
            "sink_snapshot": edge.snapshot,
            "sink_commit": edge.commit,
            "sink_time": edge.time,
            "user": "job",
            "identifier": 0,
            "source_kind": "table",
            "source_uuid": edge.source,
            "source_table": f"db.{edge.source}",
            "mode": edge.mode,
            "source_from": edge.start,
            "source_to": edge.end,
            "source_to_commit": edge.end_commit,
            "exact": True,
        }
        for edge in edges
    )


def reads(edge: ModelEdge, source: str, snapshot: int) -> bool:
    start = 0 if edge.mode == "batch" or edge.start is None else edge.start
    return edge.source == source and edge.end is not None and start < snapshot <= edge.end


def model_up(edges: Sequence[ModelEdge], line: str, snapshot: int, depth: int | None) -> dict[int, int]:
    now = [at for at, edge in enumerate(edges) if (edge.sink, edge.snapshot) == (line, snapshot)]
    found: dict[int, int] = {}
    level = 1
    while now and (depth is None or level <= depth):
        found |= dict.fromkeys(now, level)
        read = [edges[at] for at in now]
        now = [
            at
            for at, edge in enumerate(edges)
            if at not in found and any(reads(reader, edge.sink, edge.snapshot) for reader in read)
        ]
        level += 1
    return found


def model_down(edges: Sequence[ModelEdge], line: str, snapshot: int, depth: int | None) -> dict[int, int]:
    now = [at for at, edge in enumerate(edges) if reads(edge, line, snapshot)]
    found: dict[int, int] = {}
    level = 1
    while now and (depth is None or level <= depth):
        found |= dict.fromkeys(now, level)
        written = {(edges[at].sink, edges[at].snapshot) for at in now}
        now = [
            at for at, edge in enumerate(edges) if at not in found and any(reads(edge, *one) for one in sorted(written))
        ]
        level += 1
    return found


lines = st.sampled_from("abcde")
numbers = st.integers(min_value=1, max_value=8)
model_edges = st.builds(
    ModelEdge,
    sink=lines,
    snapshot=numbers,
    source=lines,
    start=st.none() | numbers,
    end=st.none() | numbers,
    mode=st.sampled_from(["stream", "batch"]),
)


@given(edges=st.lists(model_edges, max_size=25), line=lines, snapshot=numbers, depth=st.none() | st.integers(1, 3))
@settings(deadline=None, max_examples=examples(300))
def test_any_depth_is_what_following_the_edges_one_by_one_gives(
    edges: list[ModelEdge], line: str, snapshot: int, depth: int | None
) -> None:
    arrays = EdgeArrays(table_of(edges))
    number = arrays.line(LineKey(line))
    if number is None:
        return
    version = TableVersion(snapshot_id=snapshot)

    up = {int(at): level for level, found in enumerate(arrays.up(number, version, depth), 1) for at in found}
    down = {int(at): level for level, found in enumerate(arrays.down(number, version, depth), 1) for at in found}

    assert up == model_up(edges, line, snapshot, depth)
    assert down == model_down(edges, line, snapshot, depth)


# Snapshots 1, 2, 3 of `b`; then a rollback to 1, and other snapshots 2 and 3. Both times a job made `c` of them.
AGAIN = [
    ModelEdge("b", 1, "a", None, 1, commit="b1", end_commit="a1", time=1),
    ModelEdge("b", 2, "a", 1, 2, commit="b2", end_commit="a2", time=2),
    ModelEdge("b", 3, "a", 2, 3, commit="b3", end_commit="a3", time=3),
    ModelEdge("c", 1, "b", None, 3, commit="c1", end_commit="b3", time=4),
    ModelEdge("b", 2, "a", 3, 4, commit="other2", end_commit="a4", time=5),
    ModelEdge("b", 3, "a", 4, 5, commit="other3", end_commit="a5", time=6),
    ModelEdge("d", 1, "b", None, 3, commit="d1", end_commit="other3", time=7),
    ModelEdge("e", 1, "b", 1, 2, commit="e1", end_commit=None, time=8),
]


def _up(line: str, snapshot: int, commit: str) -> set[int]:
    arrays = EdgeArrays(table_of(AGAIN))
    number = arrays.line(LineKey(line))
    assert number is not None
    return {int(at) for found in arrays.up(number, TableVersion(snapshot_id=snapshot, commit=commit)) for at in found}


def _down(line: str, snapshot: int, commit: str) -> set[int]:
    arrays = EdgeArrays(table_of(AGAIN))
    number = arrays.line(LineKey(line))
    assert number is not None
    return {int(at) for found in arrays.down(number, TableVersion(snapshot_id=snapshot, commit=commit)) for at in found}


def test_what_was_made_before_a_rollback_comes_from_the_snapshots_of_that_time() -> None:
    assert _up("c", 1, "c1") == {3, 0, 1, 2}
    assert _up("d", 1, "d1") == {6, 0, 4, 5}
    assert _up("e", 1, "e1") == {7, 4}  # its record names no commit: the time says which


def test_what_read_a_number_before_a_rollback_did_not_read_the_commit_that_got_it_again() -> None:
    assert _down("b", 2, "b2") == {3}
    assert _down("b", 2, "other2") == {6, 7}
    assert _down("b", 1, "b1") == {3, 6}
    assert _down("a", 2, "a2") == {1, 3}
    assert _down("a", 4, "a4") == {4, 6, 7}


@pytest.mark.parametrize("edges", [[], [ModelEdge("a", 1, "b", None, None)]])
def test_what_read_nothing_known_was_made_from_nothing_known(edges: list[ModelEdge]) -> None:
    arrays = EdgeArrays(table_of(edges))
    found = arrays.line(LineKey("b"))

    assert found is None or not list(arrays.down(found, TableVersion(snapshot_id=1)))
