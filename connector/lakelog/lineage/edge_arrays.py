"""Edges as arrays, for questions of any depth: from a snapshot up to what it was made from, or down.

A node is a snapshot of a line that edges name: a number, by line and id. An edge reads the nodes of its source between
two bounds. A number that was given again after a rollback is another node, by the uuid of its commit: then the line has
generations, each with the nodes that a reader of that time could read. Every step of a question is a few passes over
the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.lineage.lines import LineKey
from lakelog.lineage.record import ReadMode, TableVersion

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Generations:
    """The generations of a line whose numbers were given again: the first node of each, and when it appeared."""

    first_ids: Ints
    times: Ints

    def visible_in(self, snapshot_id: int, generation: int) -> list[int]:
        """The generations whose readers could read a snapshot of one of them."""
        found = [generation]
        for later in range(generation + 1, len(self.first_ids)):
            if self.first_ids[later] <= snapshot_id:
                break
            found.append(later)
        return found


class EdgeArrays:
    """The edges from tables, of any number of catalogs. `edges` are of EDGE_SCHEMA."""

    def __init__(self, edges: pa.Table) -> None:
        self.edges = edges.filter(pc.equal(edges["source_kind"], "table")).combine_chunks()
        found = self.edges
        sinks, sources, self.lines = _codes(_names(found, "sink"), _names(found, "source"))
        commits, to_commits, self._commits = _codes(found["sink_commit"], found["source_to_commit"])
        self.sink_line, self.source_line = sinks, sources
        self.sink_id = _ints(found["sink_snapshot"])
        self.sink_commit, self.to_commit = commits, to_commits
        self.start, self.end = _ints(found["source_from"]), _ints(found["source_to"])
        self.time = _ints(found["sink_time"])
        modes = found["mode"]
        is_state = np.asarray(pc.fill_null(pc.equal(modes, ReadMode.BATCH.value), False).to_numpy(zero_copy_only=False))
        self.start = np.where(is_state, _NONE, self.start)
        self._generations: dict[int, Generations] = {}
        self._by_line = {name: code for code, name in enumerate(self.lines)}
        self._place()

    def line(self, key: LineKey) -> int | None:
        """The number of a line; None for one that no edge names."""
        return self._by_line.get(_line_name(key.uuid, key.branch))

    def key(self, line: int) -> LineKey:
        """The line of a number."""
        uuid, _, branch = self.lines[line].partition("\0")
        return LineKey(uuid, branch or None)

    def up(self, line: int, version: TableVersion, depth: int | None = None) -> Iterator[Ints]:
        """The edges that made a snapshot, then those that made what they read, and so on; each edge once."""
        found = (self.sink_line == line) & (self.sink_id == version.snapshot_id)
        commit = self._commit(version)
        if commit is not None:
            found &= (self.sink_commit == commit) | (self.sink_commit == _NONE)
        seen = np.zeros(len(found), dtype=np.bool_)
        while found.any() and depth != 0:
            yield np.flatnonzero(found)
            seen |= found
            found = self._sinks_of(self._read_by(found)) & ~seen
            depth = None if depth is None else depth - 1

    def down(
        self, line: int, version: TableVersion, depth: int | None = None, time_millis: int | None = None
    ) -> Iterator[Ints]:
        """The edges that read a snapshot, then those that read what they wrote, and so on; each edge once."""
        found = self._readers_of(line, version, time_millis)
        seen = np.zeros(len(found), dtype=np.bool_)
        while found.any() and depth != 0:
            yield np.flatnonzero(found)
            seen |= found
            found = self._reading(self._written_by(found)) & ~seen
            depth = None if depth is None else depth - 1

    def commits_of(self, line: int, snapshot_id: int) -> list[str]:
        """The commits under a number of a line that edges name, the newest last."""
        as_sink = (self.sink_line == line) & (self.sink_id == snapshot_id) & (self.sink_commit != _NONE)
        as_source = (self.source_line == line) & (self.end == snapshot_id) & (self.to_commit != _NONE)
        times = np.concatenate([self.time[as_sink], self.time[as_source]])
        codes = np.concatenate([self.sink_commit[as_sink], self.to_commit[as_source]])
        return list(dict.fromkeys(self._commits[code] for code in codes[np.argsort(times, kind="stable")]))

    def _commit(self, version: TableVersion) -> int | None:
        if version.commit is None:
            return None
        return self._commits.index(version.commit) if version.commit in self._commits else len(self._commits)

    def _place(self) -> None:
        """Number the nodes, by line, generation and id, and find the bounds of what each edge reads."""
        nodes = _unique(self.sink_line, self.sink_id, self.sink_commit)
        self._node = nodes.inverse
        copies = _Copies(self, nodes.columns)
        self._generations = copies.generations
        order = np.lexsort((copies.ids, copies.generation, copies.lines))
        self._copied = copies.nodes[order]
        self.node_count = len(nodes.columns[0])
        reader = self._reader_generations()
        _, ranks = np.unique(np.concatenate([copies.ids[order], self.start, self.end]), return_inverse=True)
        count, edges = len(order), len(self.start)
        width = np.int64(ranks.max(initial=0) + 1)
        generations = np.int64(max((len(one.times) for one in copies.generations.values()), default=1))
        of_copies = (copies.lines[order] * generations + copies.generation[order]) * width + ranks[:count]
        base = (self.source_line * generations + reader) * width
        self.low = np.searchsorted(of_copies, base + ranks[count : count + edges], side="right")
        self.low = np.where(self.start == _NONE, np.searchsorted(of_copies, base, side="left"), self.low)
        high = np.searchsorted(of_copies, base + ranks[count + edges :], side="right")
        self.high = np.where(self.end == _NONE, self.low, high)
        self._reader = reader

    def _reader_generations(self) -> Ints:
        """The generation of its source that each edge reads: the one that has its commit, else the one of its time."""
        found = np.zeros(len(self.source_line), dtype=np.int64)
        for line, generations in self._generations.items():
            for edge in np.flatnonzero(self.source_line == line):
                found[edge] = np.searchsorted(generations.times, self._read_time(edge), side="right") - 1
        return np.maximum(found, 0)

    def _read_time(self, edge: int) -> int:
        """When the commit that an edge reads up to was there first; the edge's own time where no edge names it."""
        same = (self.to_commit == self.to_commit[edge]) & (self.source_line == self.source_line[edge])
        written = (self.sink_commit == self.to_commit[edge]) & (self.sink_line == self.source_line[edge])
        is_known = self.to_commit[edge] != _NONE
        times = np.concatenate([self.time[same], self.time[written]]) if is_known else self.time[edge : edge + 1]
        return int(times.min())

    def _read_by(self, edges: Mask) -> Mask:
        """The nodes that edges read."""
        changes = np.zeros(len(self._copied) + 1, dtype=np.int64)
        np.add.at(changes, self.low[edges], 1)
        np.add.at(changes, np.maximum(self.high, self.low)[edges], -1)
        found = np.zeros(self.node_count, dtype=np.bool_)
        found[self._copied[np.cumsum(changes[:-1]) > 0]] = True
        return found

    def _sinks_of(self, nodes: Mask) -> Mask:
        return cast("Mask", nodes[self._node])

    def _written_by(self, edges: Mask) -> Mask:
        found = np.zeros(self.node_count, dtype=np.bool_)
        found[self._node[edges]] = True
        return found

    def _reading(self, nodes: Mask) -> Mask:
        """The edges that read one of these nodes."""
        before = np.concatenate([[0], np.cumsum(nodes[self._copied])])
        return cast("Mask", before[np.maximum(self.high, self.low)] > before[self.low])

    def _readers_of(self, line: int, version: TableVersion, time_millis: int | None) -> Mask:
        """The edges that read a snapshot, which may be one that no edge was written to."""
        found = (self.source_line == line) & (self.start < version.snapshot_id) & (self.end >= version.snapshot_id)
        commit = self._commit(version)
        if commit is not None:
            is_other = (self.end == version.snapshot_id) & (self.to_commit != commit) & (self.to_commit != _NONE)
            found &= ~is_other
        generations = self._generations.get(line)
        if generations is None:
            return cast("Mask", found)
        time = self._first_time(line, commit, time_millis)
        at = len(generations.times) - 1
        if time is not None:
            at = max(int(np.searchsorted(generations.times, time, side="right")) - 1, 0)
        visible = generations.visible_in(version.snapshot_id, at)
        return cast("Mask", found & np.isin(self._reader, visible))

    def _first_time(self, line: int, commit: int | None, time_millis: int | None) -> int | None:
        """When edges name a commit first; the given time where none does."""
        named = ((self.sink_line == line) & (self.sink_commit == commit)) | (
            (self.source_line == line) & (self.to_commit == commit)
        )
        if commit is None or not named.any():
            return time_millis
        return int(self.time[named].min())


class _Copies:
    """The nodes, those of lines with several generations once for each in which they can be read."""

    def __init__(self, arrays: EdgeArrays, nodes: tuple[Ints, ...]) -> None:
        lines, ids, commits = nodes
        self.lines, self.ids = lines, ids
        self.nodes = np.arange(len(lines), dtype=np.int64)
        self.generation = np.zeros(len(lines), dtype=np.int64)
        self.generations: dict[int, Generations] = {}
        for line in _given_again(arrays):
            self._split(arrays, line, commits)

    def _split(self, arrays: EdgeArrays, line: int, commits: Ints) -> None:
        named, generations = _generations(arrays, line)
        self.generations[line] = generations
        is_line = self.lines == line
        copies: list[tuple[int, int, int]] = []
        for node in self.nodes[is_line]:
            number = int(self.ids[node])
            born = named.get((number, int(commits[node])), 0)
            copies += ((number, int(node), one) for one in generations.visible_in(number, born))
        ids, nodes, found = (np.array(column, dtype=np.int64) for column in zip(*copies, strict=True))
        self.lines = np.concatenate([self.lines[~is_line], np.full(len(ids), line)])
        self.ids = np.concatenate([self.ids[~is_line], ids])
        self.nodes = np.concatenate([self.nodes[~is_line], nodes])
        self.generation = np.concatenate([self.generation[~is_line], found])


def _given_again(arrays: EdgeArrays) -> list[int]:
    """The lines that have two commits under one number."""
    lines = np.concatenate([arrays.sink_line, arrays.source_line])
    ids = np.concatenate([arrays.sink_id, arrays.end])
    commits = np.concatenate([arrays.sink_commit, arrays.to_commit])
    known = commits != _NONE
    lines, ids, _ = _unique(lines[known], ids[known], commits[known]).columns
    is_again = (lines[1:] == lines[:-1]) & (ids[1:] == ids[:-1])
    return [int(line) for line in np.unique(lines[1:][is_again])]


def _generations(arrays: EdgeArrays, line: int) -> tuple[dict[tuple[int, int], int], Generations]:
    """The generation in which each (id, commit) of a line appeared, and the line's generations."""
    as_sink, as_source = arrays.sink_line == line, arrays.source_line == line
    ids = np.concatenate([arrays.sink_id[as_sink], arrays.end[as_source]])
    commits = np.concatenate([arrays.sink_commit[as_sink], arrays.to_commit[as_source]])
    times = np.concatenate([arrays.time[as_sink], arrays.time[as_source]])
    chain: dict[int, int] = {}
    born: dict[tuple[int, int], int] = {}
    first_ids, first_times = [_NONE], [_NONE]
    for at in np.argsort(times, kind="stable"):
        number, commit, time = int(ids[at]), int(commits[at]), int(times[at])
        if commit == _NONE or (number, commit) in born:
            continue
        if chain.get(number, commit) != commit:
            first_ids.append(number)
            first_times.append(time)
            chain = {one: of for one, of in chain.items() if one < number}
        chain[number] = commit
        born[number, commit] = len(first_ids) - 1
    return born, Generations(first_ids=np.array(first_ids), times=np.array(first_times))


@dataclass(frozen=True, slots=True)
class _Unique:
    columns: tuple[Ints, ...]
    inverse: Ints


def _unique(*columns: Ints) -> _Unique:
    """The different rows of columns, in order, and for each row its number."""
    order = np.lexsort(columns[::-1])
    rows = [column[order] for column in columns]
    if not len(order):
        return _Unique(tuple(rows), order)
    is_new = np.concatenate([[True], np.any([row[1:] != row[:-1] for row in rows], axis=0)])
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.cumsum(is_new) - 1
    return _Unique(tuple(row[is_new] for row in rows), inverse)


def _line_name(uuid: str, branch: str | None) -> str:
    return f"{uuid}\0{branch or ''}"


def _names(edges: pa.Table, end: str) -> pa.ChunkedArray:
    branches = pc.fill_null(edges[f"{end}_branch"], "")
    return pc.binary_join_element_wise(pc.fill_null(edges[f"{end}_uuid"], ""), branches, "\0")


def _codes(one: pa.ChunkedArray, other: pa.ChunkedArray) -> tuple[Ints, Ints, list[str]]:
    """Two columns of strings as numbers, -1 for null, and the strings."""
    both = pa.chunked_array([*one.chunks, *other.chunks], type=pa.string()).combine_chunks()
    coded = both.dictionary_encode()
    numbers = pc.fill_null(coded.indices.cast("int64"), _NONE).to_numpy(zero_copy_only=False)
    return numbers[: len(one)], numbers[len(one) :], coded.dictionary.to_pylist()


def _ints(column: pa.ChunkedArray) -> Ints:
    return np.asarray(pc.fill_null(column.cast("int64"), _NONE).to_numpy())
