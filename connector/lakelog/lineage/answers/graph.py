"""The graph around a table: what it was made from, what was made from it, and which jobs did it.

A node is a line of a table, or a source of another kind; a link stands for all batches of one job that read one node
and wrote the other. Around a line, these are all known batches; around a snapshot, those that `upstream` and
`downstream` answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any  # Any: values of edges

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import InvalidRequestError
from lakelog.common.html import ShowsPage
from lakelog.filestore.schema import line_name

Row = Mapping[str, Any]


class NodeKind(StrEnum):
    """What a node is: a table, a source that is not a lakelog table, or an unknown source."""

    TABLE = "table"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeKey:
    """What identifies a node, whatever its name is: for a table its uuid; `branch` None is the main line."""

    kind: NodeKind
    identity: str
    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNode:
    """A line of a table or another source. `depth` is 0 for the asked node, negative upstream of it.

    `first` and `last` are its snapshots that the links read or wrote; if `first` is None, all snapshots up to `last`;
    if both are None, they are unknown.
    """

    name: str
    kind: NodeKind
    uuid: str | None
    branch: str | None
    depth: int
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageJob:
    """What a job has written to a node: the number of its batches, and the first and last snapshot."""

    job: str | None
    sink: int
    batch_count: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageLink:
    """What a job's batches have read from one node and written to another; nodes are named by position.

    `source_from` (exclusive) and `source_to` are the snapshots that were read; None means the beginning, or unknown,
    and then `why` says why. `is_exact` says that no batch has read anything after `source_to`. `is_above` says that the
    asked table was made through the link, `is_below` that the link leads on from it; in a cycle both are true.
    """

    source: int
    sink: int
    job: str | None
    source_from: int | None
    source_to: int | None
    is_exact: bool
    why: str | None
    is_above: bool
    is_below: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageGraph(ShowsPage):
    """The nodes, the asked one first, the jobs that write them, and the links between them."""

    nodes: Sequence[LineageNode]
    jobs: Sequence[LineageJob]
    links: Sequence[LineageLink]

    _page: Callable[[LineageGraph], str] | None = field(default=None, compare=False, repr=False)

    def to_html(self) -> str:
        """The page of the graph, one file that needs no server. Raises InvalidRequestError for too many tables."""
        if self._page is None:
            raise InvalidRequestError("this graph was not asked with a page: ask lakelog.lineage.table_graph")
        return self._page(self)


def graph_of(
    asked: NodeKey,
    name: str,
    above: pa.Table,
    below: pa.Table,
    *,
    snapshot_id: int | None = None,
    depth: int | None = None,
) -> LineageGraph:
    """The graph of the edges upstream and downstream of a line, up to `depth` links in each direction; None means all.

    The edges are of EDGE_SCHEMA; those that are not reached are left out. `name` is the name of the line, used if no
    edge has it, and `snapshot_id` the snapshot in the question.
    """
    found = {side: _Links(edges) for side, edges in (("above", above), ("below", below))}
    depths = {asked: 0}
    kept = {side: list(links.reached(asked, depth, depths, is_up=side == "above")) for side, links in found.items()}
    names = {asked: name} | found["above"].names | found["below"].names
    order = sorted(depths, key=lambda key: (abs(depths[key]), depths[key], names[key], key.branch or ""))
    places = {key: place for place, key in enumerate(order)}
    both = [row for side in kept.values() for row in side]
    both.sort(key=lambda row: (places[row["sink"]], row["job"] or "", places[row["source"]]))
    rows = {(row["source"], row["sink"], row["job"]): row for row in both}
    sides = {side: {(row["source"], row["sink"], row["job"]) for row in side_rows} for side, side_rows in kept.items()}
    written = found["above"].jobs | found["below"].jobs
    jobs = {key: written[key] for key in dict.fromkeys((row["sink"], row["job"]) for row in rows.values())}
    spans = _spans(order, rows.values(), jobs)
    if snapshot_id is not None:
        spans[asked] = (snapshot_id, snapshot_id)
    return LineageGraph(
        nodes=[_node(key, names[key], depths[key], spans[key]) for key in order],
        jobs=[_job(row, job, places[sink]) for (sink, job), row in jobs.items()],
        links=[
            LineageLink(
                source=places[row["source"]],
                sink=places[row["sink"]],
                job=row["job"],
                source_from=row["source_from_min"] if row["source_from_count"] == 0 else None,
                source_to=row["source_to_max"],
                is_exact=bool(row["exact_min"]),
                why=row["why_last"],
                is_above=key in sides["above"],
                is_below=key in sides["below"],
            )
            for key, row in rows.items()
        ],
    )


class _Links:
    """The links of edges, as rows with the keys of their nodes, and what each job has written."""

    def __init__(self, edges: pa.Table) -> None:
        edges = edges.filter(pc.field("source_kind").is_valid())
        identity = pc.coalesce(edges["source_uuid"], edges["source_table"], edges["sink_uuid"])
        batch = pc.binary_join_element_wise(edges["user"], edges["identifier"].cast(pa.string()), "/")
        edges = edges.append_column("identity", identity).append_column("batch", batch)
        nulls = pc.CountOptions(mode="only_null")
        sink = ["sink_uuid", "sink_branch", "job"]
        links = edges.group_by(["source_kind", "identity", "source_branch", *sink], use_threads=False).aggregate(
            [
                ("source_from", "min"),
                ("source_from", "count", nulls),
                ("source_to", "max"),
                ("exact", "min"),
                ("why", "last"),
                ("source_table", "last"),
                ("sink_table", "last"),
            ]
        )
        jobs = edges.group_by(sink, use_threads=False).aggregate(
            [("batch", "count_distinct"), ("sink_snapshot", "min"), ("sink_snapshot", "max")]
        )
        self.names: dict[NodeKey, str] = {}
        self._by_sink: dict[NodeKey, list[Row]] = {}
        self._by_source: dict[NodeKey, list[Row]] = {}
        for row in links.to_pylist():
            row["sink"] = NodeKey(NodeKind.TABLE, row["sink_uuid"], row["sink_branch"])
            row["source"] = NodeKey(NodeKind(row["source_kind"]), row["identity"], row["source_branch"])
            self.names[row["source"]] = row["source_table_last"] or NodeKind.UNKNOWN.value
            self.names[row["sink"]] = row["sink_table_last"]
            self._by_sink.setdefault(row["sink"], []).append(row)
            self._by_source.setdefault(row["source"], []).append(row)
        self.jobs: dict[tuple[NodeKey, str | None], Row] = {
            (NodeKey(NodeKind.TABLE, row["sink_uuid"], row["sink_branch"]), row["job"]): row for row in jobs.to_pylist()
        }

    def reached(self, asked: NodeKey, depth: int | None, depths: dict[NodeKey, int], *, is_up: bool) -> Iterator[Row]:
        """The links up or down from a node, level by level; what is reached gets its depth."""
        level, step, seen = [asked], 0, {asked}
        while level and (depth is None or step < depth):
            step += 1
            links = [row for key in level for row in (self._by_sink if is_up else self._by_source).get(key, ())]
            yield from links
            others = dict.fromkeys(row["source"] if is_up else row["sink"] for row in links)
            level = [key for key in others if key not in seen]
            seen.update(level)
            for key in level:
                depths.setdefault(key, -step if is_up else step)


def _spans(
    keys: Iterable[NodeKey], links: Iterable[Row], jobs: Mapping[tuple[NodeKey, str | None], Row]
) -> dict[NodeKey, tuple[int | None, int | None]]:
    """The first and last snapshot of each table that links read or jobs wrote."""
    read: dict[NodeKey, list[Row]] = {}
    written: dict[NodeKey, list[Row]] = {}
    for row in links:
        read.setdefault(row["source"], []).append(row)
    for (sink, _), row in jobs.items():
        written.setdefault(sink, []).append(row)
    return {key: _span(key, read.get(key, ()), written.get(key, ())) for key in keys}


def _span(key: NodeKey, read: Sequence[Row], written: Sequence[Row]) -> tuple[int | None, int | None]:
    if key.kind is not NodeKind.TABLE:
        return None, None
    lasts = [row["source_to_max"] for row in read] + [row["sink_snapshot_max"] for row in written]
    firsts = [row["source_from_min"] + 1 for row in read if row["source_from_count"] == 0]
    firsts += [row["sink_snapshot_min"] for row in written]
    has_beginning = len(firsts) == len(read) + len(written)
    return min(firsts) if firsts and has_beginning else None, max(
        (one for one in lasts if one is not None), default=None
    )


def _node(key: NodeKey, name: str, depth: int, span: tuple[int | None, int | None]) -> LineageNode:
    return LineageNode(
        name=line_name(name, key.branch),
        kind=key.kind,
        uuid=key.identity if key.kind is NodeKind.TABLE else None,
        branch=key.branch,
        depth=depth,
        first=span[0],
        last=span[1],
    )


def _job(row: Row, job: str | None, sink: int) -> LineageJob:
    first, last = row["sink_snapshot_min"], row["sink_snapshot_max"]
    return LineageJob(job=job, sink=sink, batch_count=row["batch_count_distinct"], first=first, last=last)
