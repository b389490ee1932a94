"""The graph around a table: what it was made from, what was made from it, and which jobs did it.

A node is a line of a table, or a source of another kind; a link stands for all batches of one job that read the one
and wrote the other. With a snapshot asked for, links upwards stand for the batches in it and before it, through all
tables: what they have read is the newest snapshot up to which a source counts. Downwards they stand for those that have
read it, and a table counts from its first snapshot on that is made from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lakelog.filestore.schema.paths import BRANCH_INFIX
from lakelog.lineage.edge_columns import NO_SNAPSHOT, EdgeColumns, Longs, NodeKey, NodeKind, Rows, groups

_ALL = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageNode:
    """A line of a table or another source.

    `depth` is its distance: 0 for the asked table, negative for what is above. `first` and `last` are the snapshots
    that count: of what is above all up to `last`, of what is below all from `first` on; None is without an end.
    """

    name: str
    kind: NodeKind
    uuid: str | None
    branch: str | None
    depth: int
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageLink:
    """What a job's batches have read of a node, by its position among the nodes, and have written to another.

    `source_to` is the newest snapshot that was read whole, None where none is known, and `why` says why. `is_exact`
    says that all batches have read nothing behind their snapshots. `is_above` says that the asked table was made
    through the link, `is_below` that the link leads on from it; in a cycle it is both.
    """

    source: int
    sink: int
    job: str | None
    source_to: int | None
    is_exact: bool
    why: str | None
    is_above: bool
    is_below: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageJob:
    """What a job has written to a node: the number of its batches that count, the first and the last snapshot."""

    job: str | None
    sink: int
    batch_count: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageGraph:
    """The nodes, the asked one first, the jobs that write them, and the links between them."""

    nodes: Sequence[LineageNode]
    jobs: Sequence[LineageJob]
    links: Sequence[LineageLink]


def table_key(uuid: str, branch: str | None = None) -> NodeKey:
    """The node of a line of a table; `branch` None is the main line."""
    return NodeKey(NodeKind.TABLE, uuid, branch)


def lineage_graph(
    edges: pa.Table,
    asked: NodeKey,
    name: str,
    *,
    snapshot_id: int | None = None,
    depth: int | None = None,
    up: bool = True,
    down: bool = True,
) -> LineageGraph:
    """The graph of edges around a line of a table, `depth` links far in each direction; None is all.

    `edges` are of EDGE_SCHEMA. `name` is that of the asked table, where no edge has it.
    """
    columns = EdgeColumns(edges)
    start = columns.number_of(asked, name)
    found = _Found(columns, start)
    if up:
        found.walk(start, snapshot_id, depth, is_up=True)
    if down:
        found.walk(start, snapshot_id, depth, is_up=False)
    return found.graph(snapshot_id)


@dataclass(slots=True)
class _Found:
    """What the walks have found: how far each node is, from or up to where it counts, and the rows of the links."""

    columns: EdgeColumns
    start: int
    depths: dict[int, int] = field(default_factory=dict)
    lasts: dict[int, int] = field(default_factory=dict)
    firsts: dict[int, int] = field(default_factory=dict)
    above: set[int] = field(default_factory=set)
    below: set[int] = field(default_factory=set)

    def walk(self, start: int, snapshot_id: int | None, depth: int | None, *, is_up: bool) -> None:
        """Follow the links one way. A node is followed again when more of it counts than before."""
        bounds = self.lasts if is_up else self.firsts
        follow = self._above if is_up else self._below
        bounds[start] = snapshot_id if snapshot_id is not None else _ALL if is_up else NO_SNAPSHOT
        self.depths.setdefault(start, 0)
        waiting, step = [start], 0
        while waiting and (depth is None or step < depth):
            step += 1
            changed: list[int] = []
            for node in waiting:
                for other, bound in follow(node, bounds[node]):
                    is_more = other not in bounds or (bound > bounds[other] if is_up else bound < bounds[other])
                    if is_more:
                        bounds[other] = bound
                        changed.append(other)
                    self.depths.setdefault(other, -step if is_up else step)
            waiting = list(dict.fromkeys(changed))

    def graph(self, snapshot_id: int | None) -> LineageGraph:
        """The nodes, nearest first, and the links."""
        order = sorted(self.depths, key=lambda node: (abs(self.depths[node]), self.depths[node], node))
        places = {node: place for place, node in enumerate(order)}
        keys = {number: key for key, number in self.columns.nodes.items()}
        nodes = [self._node(node, keys[node], snapshot_id) for node in order]
        return LineageGraph(nodes=nodes, jobs=list(self._jobs(places)), links=list(self._links(places)))

    def _above(self, sink: int, last: int) -> Iterable[tuple[int, int]]:
        rows = self.columns.read_by(sink, last)
        self.above.update(rows.tolist())
        for source, found in groups(self.columns.sources[rows], rows):
            ids = self.columns.source_ids[found]
            yield source, _ALL if last == _ALL or (ids == NO_SNAPSHOT).all() else int(ids.max())

    def _below(self, source: int, first: int) -> Iterable[tuple[int, int]]:
        rows = self.columns.made_from(source, first)
        self.below.update(rows.tolist())
        for sink, found in groups(self.columns.sinks[rows], rows):
            yield sink, NO_SNAPSHOT if first == NO_SNAPSHOT else int(self.columns.sink_ids[found].min())

    def _grouped(self, *numbers: Longs) -> Iterable[tuple[list[int], Rows]]:
        """The rows of the links, by their numbers in these columns."""
        rows = np.array(sorted(self.above | self.below), dtype=np.int64)
        distinct, codes = np.unique(np.stack([one[rows] for one in numbers], axis=1), axis=0, return_inverse=True)
        for code, found in groups(codes.reshape(-1), rows):
            yield distinct[code].tolist(), found

    def _node(self, node: int, key: NodeKey, snapshot_id: int | None) -> LineageNode:
        is_asked = node == self.start
        last = snapshot_id if is_asked else _known(self.lasts.get(node))
        first = snapshot_id if is_asked else _known(self.firsts.get(node))
        is_table = key.kind is NodeKind.TABLE
        name = self.columns.names[node]
        return LineageNode(
            name=name if key.branch is None else f"{name}{BRANCH_INFIX}{key.branch}",
            kind=key.kind,
            uuid=key.identity if is_table else None,
            branch=key.branch,
            depth=self.depths[node],
            first=first if is_table else None,
            last=last if is_table else None,
        )

    def _jobs(self, places: dict[int, int]) -> Iterable[LineageJob]:
        columns = self.columns
        for (sink, job), found in self._grouped(columns.sinks, columns.jobs):
            ids = columns.sink_ids[found]
            yield LineageJob(
                job=columns.job_names[job],
                sink=places[sink],
                batch_count=len(np.unique(columns.batches[found])),
                first=int(ids.min()),
                last=int(ids.max()),
            )

    def _links(self, places: dict[int, int]) -> Iterable[LineageLink]:
        columns = self.columns
        for (source, sink, job), found in self._grouped(columns.sources, columns.sinks, columns.jobs):
            ids = columns.source_ids[found]
            why = columns.why.take(found).drop_null()
            yield LineageLink(
                source=places[source],
                sink=places[sink],
                job=columns.job_names[job],
                source_to=_known(int(ids.max())),
                is_exact=bool(columns.exact[found].all()),
                why=why[-1].as_py() if len(why) else None,
                is_above=not self.above.isdisjoint(found.tolist()),
                is_below=not self.below.isdisjoint(found.tolist()),
            )


def _known(bound: int | None) -> int | None:
    return None if bound in (None, _ALL, NO_SNAPSHOT) else bound
