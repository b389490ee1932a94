"""Edges as columns of numbers: for each row its two nodes, its job and its snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any  # Any: values of a column, codes of any width

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]
NO_SNAPSHOT = np.iinfo(np.int64).min  # of a row whose source has none that is known


class NodeKind(StrEnum):
    """What a node is: a table, a source that is no table of lakelog, or a source of which nothing is known."""

    TABLE = "table"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NodeKey:
    """What a node is known by, whatever it is called."""

    kind: NodeKind
    identity: str
    branch: str | None = None


class EdgeColumns:
    """Edges with a source, row by row. `nodes` are the numbers of the nodes, `names` their last names."""

    def __init__(self, edges: pa.Table) -> None:
        """Take edges of EDGE_SCHEMA."""
        edges = edges.filter(pc.field("source_kind").is_valid())
        self.nodes: dict[NodeKey, int] = {}
        self.names: dict[int, str] = {}
        kinds = edges["source_kind"]
        identities = pc.coalesce(edges["source_uuid"], edges["source_table"], edges["sink_uuid"])
        names = pc.coalesce(edges["source_table"], pa.scalar("unknown"))
        self.sources = self._numbers(kinds, identities, edges["source_branch"], names)
        tables = pa.chunked_array([pa.repeat(NodeKind.TABLE.value, len(edges))], pa.string())
        self.sinks = self._numbers(tables, edges["sink_uuid"], edges["sink_branch"], edges["sink_table"])
        self.jobs, self.job_names = _codes(edges["job"])
        self.sink_ids = edges["sink_snapshot"].to_numpy()
        self.source_ids = pc.fill_null(edges["source_to"], NO_SNAPSHOT).to_numpy()
        self.exact = pc.fill_null(edges["exact"], False).to_numpy()
        self.why = edges["why"]
        self.batches, _ = _codes(pc.binary_join_element_wise(edges["user"], edges["identifier"].cast(pa.string()), "/"))
        self._of_sink = _Index(self.sinks)
        self._of_source = _Index(self.sources)

    def number_of(self, key: NodeKey, name: str) -> int:
        """The number of a node, which no edge may have."""
        number = self.nodes.setdefault(key, len(self.nodes))
        self.names.setdefault(number, name)
        return number

    def read_by(self, sink: int, last: int) -> Rows:
        """The rows of a sink's batches up to a snapshot."""
        rows = self._of_sink.rows(sink)
        found: Rows = rows[self.sink_ids[rows] <= last]
        return found

    def made_from(self, source: int, first: int) -> Rows:
        """The rows of the batches that have read a source at a snapshot or behind it, or do not know."""
        rows = self._of_source.rows(source)
        ids = self.source_ids[rows]
        found: Rows = rows[(ids >= first) | (ids == NO_SNAPSHOT)]
        return found

    def _numbers(
        self, kinds: pa.ChunkedArray, ids: pa.ChunkedArray, branches: pa.ChunkedArray, names: pa.ChunkedArray
    ) -> Longs:
        """The node of each row; each distinct one is looked at once, the last name is taken."""
        parts = pa.table({"kind": kinds, "id": ids, "branch": branches, "name": names})
        joined = pc.binary_join_element_wise(
            kinds, ids, pc.fill_null(branches, ""), names, "\0", null_handling="replace"
        )
        codes, distinct = _codes(joined)
        last = np.zeros(len(distinct), dtype=np.int64)
        last[codes] = np.arange(len(codes))
        numbers = np.zeros(len(distinct), dtype=np.int64)
        for code, row in sorted(enumerate(last.tolist()), key=lambda pair: pair[1]):
            found = parts.slice(row, 1).to_pylist()[0]
            key = NodeKey(NodeKind(found["kind"]), found["id"], found["branch"])
            numbers[code] = self.nodes.setdefault(key, len(self.nodes))
            self.names[int(numbers[code])] = found["name"]
        return numbers[codes]


class _Index:
    """The rows of each node."""

    def __init__(self, numbers: Longs) -> None:
        self._order = np.argsort(numbers, kind="stable")
        self._sorted = numbers[self._order]

    def rows(self, number: int) -> Rows:
        start, end = np.searchsorted(self._sorted, [number, number + 1])
        return self._order[start:end]


def groups(codes: npt.NDArray[np.integer[Any]], rows: Rows) -> Iterator[tuple[int, Rows]]:
    """The rows of each code, in the order of the codes."""
    order = np.argsort(codes, kind="stable")
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    for part in np.split(order, ends) if len(order) else ():
        yield int(codes[part[0]]), rows[part]


def _codes(values: pa.ChunkedArray) -> tuple[Longs, list[Any]]:
    """The code of each value, and the value of each code."""
    encoded = values.combine_chunks().dictionary_encode("encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()
