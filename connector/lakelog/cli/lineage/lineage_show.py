"""`lakelog lineage show`: the graph around a table, as a tree, as JSON or as a page."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lakelog.cli.console.arguments import HERE, AsJson, Branch, TableName, Warehouse, find_table
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import Node, naming_unreadable, print_tree, to_json
from lakelog.cli.lineage.page_files import Html, Svg, check_no_svg, write_page

if TYPE_CHECKING:
    from lakelog.lineage.answers.graph import LineageGraph, LineageJob, LineageLink

LEVELS_MAX = 12  # tables nested in each other, each indented further
_COLOURS = {"table": "bold green", "foreign": "bold blue", "unknown": "bold yellow"}

Depth = Annotated[int | None, typer.Option("--depth", min=1, help="Go so many tables far; all without it.")]
Snapshot = Annotated[int | None, typer.Option("--snapshot-id", min=1, help="Of this snapshot, not of all.")]


def show(  # noqa: PLR0917  # typer's arguments are the command line's
    table: TableName,
    snapshot_id: Snapshot = None,
    depth: Depth = None,
    up: Annotated[bool, typer.Option("--up", help="Only what the table was made from.")] = False,
    down: Annotated[bool, typer.Option("--down", help="Only what was made from the table.")] = False,
    html: Html = None,
    svg: Svg = None,
    branch: Branch = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Draw what a table was made from, and what from it.

    Jobs stand between the tables that they read and write. With --snapshot-id: the batches that made this snapshot, the
    batches that made what these read, and so on, and the batches that read it.
    """
    from lakelog.catalog import Catalog
    from lakelog.lineage import table_graph

    check_no_svg(svg)
    found = find_table(table, warehouse, branch=branch)
    with naming_unreadable(as_json=as_json):
        graph = table_graph(
            Catalog(found.warehouse), found.name, snapshot_id, depth=depth, up=up or not down, down=down or not up
        )
        if html is not None:
            write_page(graph.to_html(), html)
        if as_json:
            print_lines([to_json(_fields(graph, snapshot_id))])
            return
        print_tree(_tree(graph, has_up=up or not down, has_down=down or not up))
        if html is not None:
            print_lines([f"wrote {html}"])


def _fields(graph: LineageGraph, snapshot: int | None) -> dict[str, object]:
    return {
        "table": graph.nodes[0].name,
        "snapshot_id": snapshot,
        "nodes": [{"id": place} | asdict(node) for place, node in enumerate(graph.nodes)],
        "jobs": [asdict(job) for job in graph.jobs],
        "links": [asdict(link) for link in graph.links],
    }


def _tree(graph: LineageGraph, *, has_up: bool, has_down: bool) -> Node:
    """What is above the asked table, then what is below it; a table that occurs again is not expanded again."""
    labels = _Labels(graph)
    root = labels.of(0)
    for is_asked, is_up, title in ((has_up, True, "made from"), (has_down, False, "made into")):
        if is_asked:
            side = root.add(title)
            _Side(labels, is_up=is_up).draw(side)
            if not side.children:
                side.add("nothing that is recorded", style="dim")
    return root


class _Side:
    """One direction of a tree. Parts more than `LEVELS_MAX` tables deep begin at the left again, further below."""

    def __init__(self, labels: _Labels, *, is_up: bool) -> None:
        self._labels = labels
        self._jobs: dict[int, list[tuple[LineageJob, list[int]]]] = {}
        by_job: dict[tuple[str | None, int], list[LineageLink]] = {}
        for link in labels.graph.links:
            by_job.setdefault((link.job, link.sink), []).append(link)
        for job in labels.graph.jobs:
            others: dict[int, dict[int, None]] = {}
            for link in by_job.get((job.job, job.sink), ()):
                if link.is_above if is_up else link.is_below:
                    place, other = (link.sink, link.source) if is_up else (link.source, link.sink)
                    others.setdefault(place, {})[other] = None
            for place, found in others.items():
                self._jobs.setdefault(place, []).append((job, list(found)))
        self._drawn: set[int] = set()
        self._later: dict[int, None] = {}  # tables to be expanded further below, in order

    def draw(self, side: Node) -> None:
        """Add the jobs of the asked table and everything that they reach."""
        self._add_jobs(side, 0, level=1)
        while self._later:
            place = next(iter(self._later))
            del self._later[place]
            if place not in self._drawn:
                self._add_jobs(side.put(self._labels.of(place)), place, level=1)

    def _add_jobs(self, tree: Node, place: int, *, level: int) -> None:
        """The jobs that wrote a node, with what they read; or those that read it, with what they wrote."""
        self._drawn.add(place)
        for job, others in self._jobs.get(place, ()):
            branch = tree.put(self._labels.of_job(job))
            for other in others:
                node = branch.put(self._labels.of(other))
                if other in self._drawn:
                    node.append(("  see above", "dim"))
                elif other in self._jobs and level >= LEVELS_MAX:
                    node.append(("  see below", "dim"))
                    self._later[other] = None
                else:
                    self._add_jobs(node, other, level=level + 1)


class _Labels:
    """A graph's tables and jobs as nodes of a tree."""

    def __init__(self, graph: LineageGraph) -> None:
        from lakelog.lineage.answers.wording import reasons_of

        self.graph = graph
        self._reasons = reasons_of(graph.links)

    def of(self, place: int) -> Node:
        """A table or another source."""
        from lakelog.lineage.answers.wording import node_lines

        node = self.graph.nodes[place]
        name, *others = node_lines(node, self._reasons.get(place))
        return Node([name, *((f"  {other}", "not bold default") for other in others)], _COLOURS[node.kind.value])

    def of_job(self, job: LineageJob) -> Node:
        """A job and its batches."""
        from lakelog.lineage.answers.wording import job_lines

        name, batches = job_lines(job)
        return Node([(name, "cyan"), f"  {batches}"])
