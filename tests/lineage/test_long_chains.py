"""Long chains of tables: the tree and the picture have all of them, with as much work for each as in a short one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any, SupportsIndex, overload  # Any: what is counted

import pytest

from lakelog.cli.console.output import print_tree
from lakelog.cli.lineage.lineage_show import LEVELS_MAX, _tree
from lakelog.lineage.answers.graph import LineageGraph, NodeKey, NodeKind, graph_of
from lakelog.lineage.tables.edges import edge_table
from tests.lineage.test_graph import Edge, edge


class Counted(list[Any]):
    """A list that counts the members that it gives."""

    given = 0

    def __iter__(self) -> Iterator[Any]:
        for one in super().__iter__():
            Counted.given += 1
            yield one

    @overload
    def __getitem__(self, place: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        Counted.given += 1
        return super().__getitem__(place)


def chain(length: int) -> list[Edge]:
    return [edge(f"j{number}", f"t{number}", 5, f"t{number + 1}", 5) for number in range(length)]


def graph(edges: list[Edge], table: str) -> LineageGraph:
    known = edge_table(edges)
    return graph_of(NodeKey(NodeKind.TABLE, f"uuid-{table}"), f"db.{table}", known, known)


def lines(found: LineageGraph) -> list[str]:
    text = io.StringIO()
    with redirect_stdout(text):
        print_tree(_tree(found, has_up=True, has_down=True))
    return text.getvalue().splitlines()


@pytest.mark.parametrize("table", ["t0", "t150", "t300"])
def test_the_tree_of_a_long_chain_draws_each_table_out_once(table: str) -> None:
    drawn = [line.split("db.")[1] for line in lines(graph(chain(300), table)) if "db." in line]

    names = [text.split()[0] for text in drawn if "see" not in text]
    assert sorted(names) == sorted(f"t{number}" for number in range(301))
    below = [text.split()[0] for text in drawn if text.endswith("see below")]
    assert set(below) <= set(names)
    assert len(below) >= 300 // LEVELS_MAX - 2


def test_a_short_chain_is_one_branch() -> None:
    assert not any("see" in line for line in lines(graph(chain(LEVELS_MAX), "t0")))


def test_a_table_that_is_met_again_before_it_is_drawn_is_drawn_once() -> None:
    edges = [*chain(40), *(edge(f"k{number}", "t0", 5, f"t{number}", 5) for number in range(10, 40))]

    drawn = [line.split("db.")[1].split() for line in lines(graph(edges, "t0")) if "db." in line]

    names = [text[0] for text in drawn if "see" not in text]
    assert sorted(names) == sorted(f"t{number}" for number in range(41))


def counted(length: int) -> int:
    """How many members of a chain's graph are looked at for its tree."""
    unknown = {"source_kind": "unknown", "source_uuid": None, "source_table": None}
    edges = [
        *chain(length),
        *(edge(f"j{number}", "", None, f"t{number + 1}", 5, **unknown) for number in range(length)),
    ]
    found = graph(edges, "t0")
    found = replace(found, nodes=Counted(found.nodes), jobs=Counted(found.jobs), links=Counted(found.links))
    Counted.given = 0
    lines(found)
    return Counted.given


def test_the_work_for_a_chain_grows_with_its_length() -> None:
    assert counted(400) <= 4.1 * counted(100)
