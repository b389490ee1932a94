"""The picture of a graph: a valid SVG for light and dark pages, whatever the names are."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest

from lakelog.lineage.pictures.graph import graph_of
from lakelog.lineage.pictures.graph_parts import NodeKey, NodeKind
from lakelog.lineage.pictures.picture import NAME_MAX
from lakelog.lineage.tables.edges import edge_table
from tests.lineage.test_graph import PIPELINE, Edge, edge, graph

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [found.text or "" for found in ET.fromstring(svg).iter(f"{SVG}text")]


def test_tables_and_jobs_are_boxes_with_arrows_between() -> None:
    svg = graph(PIPELINE, "c").to_svg()

    root = ET.fromstring(svg)
    boxes = [found.get("class") for found in root.iter(f"{SVG}rect")]
    assert boxes == ["page", "table asked", *["table"] * 4, *["job"] * 3]
    assert len([found for found in root.iter(f"{SVG}path") if "line" in str(found.get("class"))]) == 7
    assert {"db.c", "db.a", "db.d", "1", "2", "8 batches, snapshots 1 to 8"} <= set(texts(svg))
    assert (root.findtext(f"{SVG}title"), root.get("role")) == ("Lineage of db.c", "img")


def test_a_picture_has_the_colours_of_light_and_of_dark_pages_and_asks_nobody() -> None:
    svg = graph(PIPELINE, "c").to_svg()

    assert "@media (prefers-color-scheme: dark)" in svg
    assert "<script" not in svg
    assert svg.replace('xmlns="http://www.w3.org/2000/svg"', "").count("://") == 0


@pytest.mark.parametrize(
    "name",
    ["<script>alert(1)</script>", "a&b\"'", "\x1b[31m\x00\ud800\n", "]]>", "x" * 10_000, "表" * 60, "\u202e" * 3],
)
def test_names_of_others_do_no_harm(name: str) -> None:
    edges: list[Edge] = [edge(name, "a", 1, "b", 1, why=name), edge("1", "b", 1, "c", 1)]
    known = edge_table_with(edges, name)
    named = graph_of(NodeKey(NodeKind.TABLE, "uuid-b"), name, known, known)

    svg = named.to_svg()

    ET.fromstring(svg.encode())
    assert "<script" not in svg
    assert all(text.isprintable() and len(text) <= NAME_MAX for text in texts(svg))


def edge_table_with(edges: list[Edge], name: str) -> pa.Table:
    text = name.encode("utf-8", "replace").decode()
    return edge_table([{key: text if value == name else value for key, value in one.items()} for one in edges])


def test_long_names_keep_their_ends_and_are_whole_in_the_title() -> None:
    names = [f"{'warehouse_of_the_north_' * 3}{end}" for end in ("orders", "returns")]
    found = graph([edge(name, "a", 1, "b", 1) for name in names], "b")

    svg = found.to_svg()

    assert len({text for text in texts(svg) if text.endswith(("orders", "returns"))}) == 2
    titles = [title.text or "" for title in ET.fromstring(svg).iter(f"{SVG}title")]
    assert all(any(title.startswith(f"{name}\n") for title in titles) for name in names)


def test_a_source_that_is_not_exact_has_a_broken_line() -> None:
    svg = graph([edge("1", "a", 1, "b", 1, exact=False)], "b").to_svg()

    assert [found.get("class") for found in ET.fromstring(svg).iter(f"{SVG}path")][1:] == ["line inexact", "line"]
