"""Edges as arrays, for questions of any depth: from a snapshot up to what it was made from, or down.

A node is a snapshot of a line that edges name: a number for each line and id. An edge reads the nodes of its source
between two bounds. An id that was reused after a rollback is another node, distinguished by the uuid of its commit:
then the line has generations, each with the nodes that a reader of that time could read. Every step of a question is a
few passes over the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.origins import LineKey, TableVersion
from lakelog.filestore.schema import BRANCH_INFIX
from lakelog.lineage.tables.edge_columns import (
    NONE,
    Ints,
    LineTimes,
    Mask,
    beginnings,
    coded_columns,
    coded_name,
    int_column,
    line_column,
    reads_states,
    truths,
)
from lakelog.lineage.tables.found_tables import UnreadableTable
from lakelog.lineage.tables.generations import Copies, Generations, generations_of, unique_rows

Living = Callable[[LineKey], Mapping[TableVersion, int]]


class EdgeArrays:
    """The edges of the tables of any number of catalogs. `edges` are of EDGE_SCHEMA.

    The sources of the `unreadable` tables are missing. `living` gives the snapshots that live in a line, with the times
    of their commits; it is asked only for lines whose numbers were reused.
    """

    def __init__(
        self, edges: pa.Table, unreadable: Sequence[UnreadableTable] = (), *, living: Living = lambda _: {}
    ) -> None:
        self.unreadable = tuple(unreadable)
        self._living = living
        found = self.edges = edges.filter(pc.is_valid(edges["source_kind"])).combine_chunks()
        (sinks, sources), self.lines = coded_columns(line_column(found, "sink"), line_column(found, "source"))
        (commits, to_commits, from_commits), self._commits = coded_columns(
            found["sink_commit"], found["source_to_commit"], found["source_from_commit"]
        )
        self.sink_line = sinks
        self.source_line = np.where(truths(pc.equal(found["source_kind"], "table")), sources, NONE)
        self.sink_id = int_column(found["sink_snapshot"])
        self.sink_commit, self.to_commit, self._from_commit = commits, to_commits, from_commits
        self.start, self.end = int_column(found["source_from"]), int_column(found["source_to"])
        self.time = int_column(found["sink_time"])
        self.start = np.where(reads_states(found), NONE, self.start)
        self._generations: dict[int, Generations]
        self._by_commit = {commit: code for code, commit in enumerate(self._commits)}
        self._by_line = {name: code for code, name in enumerate(self.lines)}
        self._place()

    def line(self, key: LineKey) -> int | None:
        """The number of a line; None if no edge names it."""
        return self._by_line.get(coded_name(key.uuid, key.branch))

    def lines_of(self, uuid: str) -> list[int]:
        """The numbers of the lines of a table."""
        return [number for number in range(len(self.lines)) if self.key(number).uuid == uuid]

    def key(self, line: int) -> LineKey:
        """The key of the line with a number."""
        uuid, _, branch = self.lines[line].partition("\0")
        return LineKey(uuid, branch or None)

    def up(self, line: int, version: TableVersion, depth: int | None = None) -> Iterator[Ints]:
        """The edges that made a snapshot, then the edges that made what these read, and so on; each edge once."""
        found = self._written_to(line, version)
        seen = np.zeros(len(found), dtype=np.bool_)
        while found.any() and depth != 0:
            yield np.flatnonzero(found)
            seen |= found
            found = self._sinks_of(self._read_by(found)) & ~seen
            depth = None if depth is None else depth - 1

    def down(
        self,
        line: int,
        version: TableVersion,
        depth: int | None = None,
        time_millis: int | None = None,
        also: Collection[int] = (),
    ) -> Iterator[Ints]:
        """The edges that read a snapshot, then the edges that read what these wrote, and so on; each edge once.

        `also` has further lines that have the snapshot.
        """
        found = self._readers_of(line, version, time_millis)
        for other in also:
            found |= self._readers_of(other, version, time_millis)
        seen = np.zeros(len(found), dtype=np.bool_)
        while found.any() and depth != 0:
            yield np.flatnonzero(found)
            seen |= found
            found = self._reading(self._written_by(found)) & ~seen
            depth = None if depth is None else depth - 1

    def is_written(self, line: int, version: TableVersion) -> bool:
        """Whether an edge was written to a snapshot."""
        return bool(self._written_to(line, version).any())

    def lines_below(self, key: LineKey, name: str) -> dict[LineKey, str]:
        """A line and all lines that were ever made from it, nearest first, with their last names.

        It includes the other lines of these tables that edges name: a snapshot may be in several of them.
        """
        found, waiting = {key: name}, [key]
        for one in waiting:
            number = self.line(one)
            sinks = self.sink_line[self.source_line == (NONE - 1 if number is None else number)]
            for line in (*np.unique(sinks).tolist(), *self.lines_of(one.uuid)):
                below = self.key(line)
                if below not in found:
                    found[below] = self._last_name(line)
                    waiting.append(below)
        return found

    def _last_name(self, line: int) -> str:
        """The name of a line's table in the newest edge that names it."""
        side = "sink" if (self.sink_line == line).any() else "source"
        at = np.flatnonzero((self.sink_line if side == "sink" else self.source_line) == line)
        found: str = self.edges[f"{side}_table"][int(at[np.argmax(self.time[at])])].as_py()
        return found

    def line_named(self, name: str) -> LineKey:
        """The line with this name in edges; of several, the one of the newest edge. Raises NotFoundError."""
        table, _, branch = name.partition(BRANCH_INFIX)
        newest: tuple[int, LineKey] | None = None
        for side, lines in (("sink", self.sink_line), ("source", self.source_line)):
            is_table = truths(pc.equal(self.edges[f"{side}_table"], table))
            named = pc.fill_null(self.edges[f"{side}_branch"], "")
            at = np.flatnonzero(is_table & truths(pc.equal(named, branch)) & (lines != NONE))
            if len(at):
                last = at[np.argmax(self.time[at])]
                found = int(self.time[last]), self.key(int(lines[last]))
                newest = found if newest is None else max(newest, found, key=lambda one: one[0])
        if newest is None:
            raise NotFoundError(f"table {name} is in none of the catalogs, and no lineage names it")
        return newest[1]

    def _written_to(self, line: int, version: TableVersion) -> Mask:
        found: Mask = (self.sink_line == line) & (self.sink_id == version.snapshot_id)
        commit = self._commit(version)
        if commit is not None:
            found &= np.isin(self.sink_commit, (commit, NONE))
        return found

    def commits_of(self, line: int, snapshot_id: int) -> list[str]:
        """The commits that edges name under a number of a line, the newest last."""
        as_sink = (self.sink_line == line) & (self.sink_id == snapshot_id) & (self.sink_commit != NONE)
        as_source = (self.source_line == line) & (self.end == snapshot_id) & (self.to_commit != NONE)
        times = np.concatenate([self.time[as_sink], self.time[as_source]])
        codes = np.concatenate([self.sink_commit[as_sink], self.to_commit[as_source]])
        return list(dict.fromkeys(self._commits[code] for code in codes[np.argsort(times, kind="stable")]))

    def _commit(self, version: TableVersion) -> int | None:
        return None if version.commit is None else self._by_commit.get(version.commit, len(self._commits))

    def names_any(self, line: int, versions: Collection[TableVersion]) -> bool:
        """Whether edges name one of these snapshots in a line."""
        as_sink = (self.sink_line == line) & (self.sink_commit != NONE)
        as_source = (self.source_line == line) & (self.to_commit != NONE)
        ids = np.concatenate([self.sink_id[as_sink], self.end[as_source]]).tolist()
        codes = np.concatenate([self.sink_commit[as_sink], self.to_commit[as_source]]).tolist()
        named = set(zip(ids, codes, strict=True))
        return any((one.snapshot_id, self._commit(one)) in named for one in versions)

    def _place(self) -> None:
        """Number the nodes by line, generation and id, and find the bounds of what each edge reads."""
        nodes, self._node = unique_rows(self.sink_line, self.sink_id, self.sink_commit)
        named = [
            np.concatenate(pair)
            for pair in (
                (self.sink_line, self.source_line),
                (self.sink_id, self.end),
                (self.sink_commit, self.to_commit),
                (self.time, self.time),
            )
        ]
        written = np.arange(len(named[0])) < len(self.sink_line)
        line_times = LineTimes.of(
            self.edges, sinks=self.sink_line, sources=self.source_line, numbers=self.sink_id, times=self.time
        )
        self._generations = generations_of(
            *named,
            written=written,
            brought=self._brought(named[0], named[2]),
            living=lambda line: line_times.since(line, self._living_in(line)),
        )
        copies = Copies(nodes, self._generations)
        self._copied = copies.nodes
        self.node_count = len(nodes[0])
        self._reader = self._reader_generations()
        self.start = np.where(self._begins_elsewhere(), NONE, self.start)
        _, ranks = np.unique(np.concatenate([copies.ids, self.start, self.end]), return_inverse=True)
        count, edges = len(copies.ids), len(self.start)
        width = np.int64(ranks.max(initial=0) + 1)
        generations = np.int64(max((one.count for one in self._generations.values()), default=1))
        of_copies = (copies.lines * generations + copies.generation) * width + ranks[:count]
        base = (self.source_line * generations + self._reader) * width
        self.low = np.searchsorted(of_copies, base + ranks[count : count + edges], side="right")
        self.low = np.where(self.start == NONE, np.searchsorted(of_copies, base, side="left"), self.low)
        high = np.searchsorted(of_copies, base + ranks[count + edges :], side="right")
        self.high = np.maximum(np.where(self.end == NONE, self.low, high), self.low)

    def _brought(self, lines: Ints, commits: Ints) -> Mask:
        """Which snapshots of tables were written to a branch that the table took later.

        Edges were written to them in the branch, or the branch has continued after them since.
        """
        is_branch = np.array([self.key(line).branch is not None for line in range(len(self.lines))] + [False])
        begins, is_taken = beginnings(self.edges)
        written = self.sink_commit[is_branch[self.sink_line] & (~begins | is_taken)]
        found: Mask = np.isin(commits, written) & (commits != NONE) & ~is_branch[lines]
        return found

    def _living_in(self, line: int) -> dict[tuple[int, int], int]:
        """The numbers and commits of the living snapshots of a line, with the times of the commits."""
        unknown = len(self._commits)
        living = self._living(self.key(line)).items()
        return {(one.snapshot_id, self._by_commit.get(one.commit or "", unknown)): time for one, time in living}

    def _reader_generations(self) -> Ints:
        """The generation of its source that each edge reads: the one with its commit, else the one of its time."""
        found = np.zeros(len(self.source_line), dtype=np.int64)
        for line, generations in self._generations.items():
            for edge in np.flatnonzero(self.source_line == line):
                version = int(self.end[edge]), int(self.to_commit[edge])
                found[edge] = generations.of(version, int(self.time[edge]))
        return found

    def _begins_elsewhere(self) -> Mask:
        """Which edges begin at a snapshot that the line no longer has at their end: it was rolled back below it."""
        found = np.zeros(len(self.source_line), dtype=np.bool_)
        for line, generations in self._generations.items():
            is_named = (self.source_line == line) & (self.start != NONE) & (self._from_commit != NONE)
            for edge in np.flatnonzero(is_named):
                version = int(self.start[edge]), int(self._from_commit[edge])
                found[edge] = version in generations.born and self._reader[edge] not in generations.readable_in(
                    version, None
                )
        return found

    def _read_by(self, edges: Mask) -> Mask:
        """The nodes that edges read."""
        changes = np.zeros(len(self._copied) + 1, dtype=np.int64)
        np.add.at(changes, self.low[edges], 1)
        np.add.at(changes, self.high[edges], -1)
        found = np.zeros(self.node_count, dtype=np.bool_)
        found[self._copied[np.cumsum(changes[:-1]) > 0]] = True
        return found

    def _sinks_of(self, nodes: Mask) -> Mask:
        found: Mask = nodes[self._node]
        return found

    def _written_by(self, edges: Mask) -> Mask:
        found = np.zeros(self.node_count, dtype=np.bool_)
        found[self._node[edges]] = True
        return found

    def _reading(self, nodes: Mask) -> Mask:
        """The edges that read one of these nodes."""
        before = np.concatenate([[0], np.cumsum(nodes[self._copied])])
        found: Mask = before[self.high] > before[self.low]
        return found

    def _readers_of(self, line: int, version: TableVersion, time_millis: int | None) -> Mask:
        """The edges that read a snapshot, even if no edge was written to it."""
        found: Mask = (
            (self.source_line == line) & (self.start < version.snapshot_id) & (self.end >= version.snapshot_id)
        )
        commit = self._commit(version)
        if commit is not None:
            is_other = (self.end == version.snapshot_id) & (self.to_commit != commit) & (self.to_commit != NONE)
            found &= ~is_other
        generations = self._generations.get(line)
        if generations is None:
            return found
        asked = version.snapshot_id, NONE if commit is None else commit
        found &= np.isin(self._reader, generations.readable_in(asked, time_millis))
        return found
