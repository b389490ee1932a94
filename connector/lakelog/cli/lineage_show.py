"""`lakelog lineage show`: the graph around a table, as a tree, as JSON, as a picture."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.arguments import HERE, AsJson, Branch, TableName, Warehouse, find_table
from lakelog.cli.door import print_lines
from lakelog.cli.output import Node, naming_unreadable, print_tree, to_json
from lakelog.common.errors import InvalidRequestError, UnavailableError

if TYPE_CHECKING:
    from lakelog.lineage.graph import LineageGraph

_COLOURS = {"table": "bold green", "foreign": "bold blue", "unknown": "bold yellow"}

Depth = Annotated[int | None, typer.Option("--depth", min=1, help="Go so many tables far; all without it.")]
Snapshot = Annotated[int | None, typer.Option("--snapshot", min=1, help="Of this snapshot, not of all.")]


def show(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    snapshot: Snapshot = None,
    depth: Depth = None,
    up: Annotated[bool, typer.Option("--up", help="Only what the table was made from.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only what was made from the table.")] = False,
    svg: Annotated[Path | None, typer.Option("--svg", help="Write a picture to this file too.")] = None,
    branch: Branch = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Draw what a table was made from, and into.

    Jobs stand between the tables that they read and write. With --snapshot: the batches that made this snapshot, those
    that made what these read, and so on, and the batches that read it.
    """
    from lakelog.catalog import Catalog
    from lakelog.lineage import table_graph

    found = find_table(table, warehouse, branch=branch)
    with naming_unreadable(as_json=as_json):
        graph = table_graph(
            Catalog(found.warehouse), found.name, snapshot, depth=depth, up=up or not down, down=down or not up
        )
        if svg is not None:
            _write_picture(graph, svg)
        if as_json:
            print_lines([to_json(_fields(graph, snapshot))])
            return
        print_tree(_tree(graph, has_up=up or not down, has_down=down or not up))
        if svg is not None:
            print_lines([f"wrote {svg}"])


def _fields(graph: LineageGraph, snapshot: int | None) -> dict[str, object]:
    return {
        "table": graph.nodes[0].name,
        "snapshot_id": snapshot,
        "nodes": [{"id": place} | asdict(node) for place, node in enumerate(graph.nodes)],
        "jobs": [asdict(job) for job in graph.jobs],
        "links": [asdict(link) for link in graph.links],
    }


def _write_picture(graph: LineageGraph, path: Path) -> None:
    """Write the picture in place of a file of this name; not through a link, whose target another user may choose."""
    from lakelog.filestore.io.local_files import LocalFileIO

    if not path.parent.is_dir():
        raise InvalidRequestError(f"the picture cannot be written to {path}: No such file or folder {path.parent}")
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise InvalidRequestError(f"the picture cannot be written to {path}: it is no plain file; name another")
    try:
        LocalFileIO().write_bytes(str(path.absolute()), graph.to_svg().encode())
    except UnavailableError as error:
        raise InvalidRequestError(f"the picture cannot be written: {error}") from error


def _tree(graph: LineageGraph, *, has_up: bool, has_down: bool) -> Node:
    """What is above the asked table, then what is below it; a table that is there already is not drawn out again."""
    root = _node(graph, 0)
    for is_asked, is_up, title in ((has_up, True, "made from"), (has_down, False, "made into")):
        if is_asked:
            side = root.add(title)
            _add_jobs(side, graph, 0, is_up=is_up, drawn=set())
            if not side.children:
                side.add("nothing that is recorded", style="dim")
    return root


def _add_jobs(tree: Node, graph: LineageGraph, place: int, *, is_up: bool, drawn: set[int]) -> None:
    """The jobs that wrote a node, with what they read; or those that read it, with what they wrote."""
    from lakelog.lineage.wording import job_lines

    drawn.add(place)
    for one in graph.jobs:
        links = [link for link in graph.links if (link.job, link.sink) == (one.job, one.sink)]
        links = [
            link
            for link in links
            if (link.is_above and link.sink == place if is_up else link.is_below and link.source == place)
        ]
        if not links:
            continue
        job, batches = job_lines(one)
        branch = tree.add((job, "cyan"), f"  {batches}")
        for other in dict.fromkeys(link.source if is_up else link.sink for link in links):
            node = branch.put(_node(graph, other))
            if other in drawn:
                node.append(("  see above", "dim"))
            else:
                _add_jobs(node, graph, other, is_up=is_up, drawn=drawn)


def _node(graph: LineageGraph, place: int) -> Node:
    from lakelog.lineage.wording import node_lines

    name, *others = node_lines(graph, place)
    return Node(
        [name, *((f"  {other}", "not bold default") for other in others)], _COLOURS[graph.nodes[place].kind.value]
    )
