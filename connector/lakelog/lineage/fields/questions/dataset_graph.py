"""The graph around a dataset or a field: datasets with the fields that have edges, and the edges between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakelog.lineage.fields.questions.field_answer import kind_names
from lakelog.lineage.fields.questions.field_index import FieldIndex
from lakelog.lineage.fields.questions.field_walk import Reached
from lakelog.lineage.fields.questions.index_rows import IndexedDataset, IndexedEdge, IndexedField
from lakelog.lineage.fields.questions.index_schema import DIRECT_NUMBERS
from lakelog.lineage.fields.questions.periods import Period

EDGES_SHOWN_MAX = 20_000
NEIGHBOURS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphField:
    """A field with an edge in the graph. `is_generated`: a write makes it from no input."""

    name: str
    type: str | None
    state: str
    is_generated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDataset:
    """A dataset of the graph; `hop` is its distance, negative upstream.

    `field_count` is the number of columns that it has now. `more_up` and `more_down`: there is lineage beyond the
    depth.
    """

    id: int
    dataset: IndexedDataset
    hop: int
    field_count: int
    fields: tuple[GraphField, ...]
    more_up: bool
    more_down: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """All edges between two fields, or from a field to all fields of a dataset, `target_field` None.

    Datasets are named by their ids in the graph.
    """

    source: int
    source_field: str
    target: int
    target_field: str | None
    kinds: tuple[str, ...]
    is_masked: bool
    is_direct: bool
    is_approximate: bool
    is_opaque: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """A dataset of a graph that has too many, and how many of its fields are in it."""

    dataset: IndexedDataset
    hop: int
    fields: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldGraph:
    """The graph; the dataset that was asked for comes first. `total` is the number of datasets.

    If that is larger than the limit, or there are more than EDGES_SHOWN_MAX edges, the graph has the first dataset
    alone, and the `neighbours`, of which there are at most NEIGHBOURS_MAX, the nearest ones.
    """

    field: str | None
    datasets: tuple[GraphDataset, ...]
    edges: tuple[GraphEdge, ...]
    total: int
    neighbours: tuple[Neighbour, ...] | None = None


def graph_of_walks(
    index: FieldIndex,
    root: IndexedDataset,
    field: IndexedField | None,
    walks: Iterable[Reached],
    *,
    period: Period,
    limit: int,
) -> FieldGraph:
    """The graph of walks from a dataset, or from one field of it, with at most `limit` datasets."""
    made = _Graph(index, root, field, list(walks), period)
    return made.graph() if len(made.hops) <= limit and made.edge_count <= EDGES_SHOWN_MAX else made.too_large()


class _Graph:
    def __init__(
        self,
        index: FieldIndex,
        root: IndexedDataset,
        field: IndexedField | None,
        walks: list[Reached],
        period: Period,
    ) -> None:
        self._index = index
        self._root = root
        self._field = field
        self._period = period
        self._edges = {edge for reached in walks for edge in reached.edges}
        ends = (end for edge in self._edges for end in (edge.source, edge.target) if end is not None)
        self._fields = index.fields({*ends, *([] if field is None else [field.id])})
        self.hops = self._hops(walks)
        self._datasets = {one.id: one for one in index.datasets(self.hops)}
        ordered = sorted(self.hops, key=lambda one: (one != root.id, abs(self.hops[one]), self.hops[one], one))
        self._places = {one: place for place, one in enumerate(ordered)}

    def _hops(self, walks: list[Reached]) -> dict[int, int]:
        """The hop of each dataset: the nearest of its fields."""
        found: dict[int, int] = {self._root.id: 0}
        shown = {one.id: one.dataset for one in self._fields.values()}
        for reached in walks:
            sign = -1 if reached.is_up else 1
            hops = [(shown[one], hop) for one, hop in reached.hops.items() if one in shown]
            hops += [] if reached.is_up else reached.datasets.items()
            for dataset, hop in hops:
                before = found.get(dataset)
                if before is None or abs(before) > hop:
                    found[dataset] = sign * hop
        return found

    @property
    def edge_count(self) -> int:
        """The number of pairs of fields with an edge."""
        return len({(edge.source, edge.target, edge.sink) for edge in self._edges})

    def graph(self) -> FieldGraph:
        return FieldGraph(
            field=None if self._field is None else self._field.name,
            datasets=self._shown_datasets(list(self._places)),
            edges=self._shown_edges(),
            total=len(self.hops),
        )

    def too_large(self) -> FieldGraph:
        members = self._members()
        neighbours = tuple(
            Neighbour(dataset=self._datasets[one], hop=self.hops[one], fields=len(members.get(one, [])))
            for one in list(self._places)[1 : NEIGHBOURS_MAX + 1]
        )
        return FieldGraph(
            field=None if self._field is None else self._field.name,
            datasets=self._shown_datasets([self._root.id]),
            edges=(),
            total=len(self.hops),
            neighbours=neighbours,
        )

    def _members(self) -> dict[int, list[IndexedField]]:
        found: dict[int, list[IndexedField]] = {}
        for one in sorted(self._fields.values(), key=lambda one: (one.place is None, one.place or 0, one.id)):
            found.setdefault(one.dataset, []).append(one)
        return found

    def _shown_datasets(self, chosen: list[int]) -> tuple[GraphDataset, ...]:
        members = self._members()
        shown = {one.id for dataset in chosen for one in members.get(dataset, [])}
        generated = self._generated(shown)
        more_up, more_down = self._more(set(chosen), shown)
        return tuple(
            GraphDataset(
                id=self._places[one],
                dataset=self._datasets[one],
                hop=self.hops[one],
                field_count=self._datasets[one].columns,
                fields=tuple(
                    GraphField(name=each.name, type=each.type, state=each.state, is_generated=each.id in generated)
                    for each in members.get(one, [])
                ),
                more_up=one in more_up,
                more_down=one in more_down,
            )
            for one in chosen
        )

    def _generated(self, shown: set[int]) -> set[int]:
        """The fields that writes make, and no write from an input."""
        written = self._index.written(fields=shown)
        made = {one.field for one in written if self._counts(one.write, self._fields[one.field].dataset)}
        return made - {edge.target for edge in self._index.edges_into(made) if self._counts(edge.write, edge.sink)}

    def _counts(self, write: int, sink: int) -> bool:
        """Whether an edge to a dataset counts upwards."""
        writes = self._period.first if sink == self._root.id else self._period.above
        return writes is None or write in writes

    def _more(self, chosen: set[int], shown: set[int]) -> tuple[set[int], set[int]]:
        """The datasets of which the graph does not have all edges: upstream ones to them, downstream ones from them."""
        index, below = self._index, self._period.below
        owners = {one: self._fields[one].dataset for one in shown}
        upstream = {one for one in chosen if self.hops[one] <= 0}
        into = index.edges_into(one for one in shown if owners[one] in upstream)
        into += index.dataset_edges_into(upstream)
        downstream = [one for one in shown if self.hops[owners[one]] >= 0]
        out = index.edges_from(downstream) + index.dataset_edges_from(downstream)
        return (
            {edge.sink for edge in into if edge not in self._edges and self._counts(edge.write, edge.sink)},
            {owners[edge.source] for edge in out if edge not in self._edges and (below is None or edge.write in below)},
        )

    def _shown_edges(self) -> tuple[GraphEdge, ...]:
        groups: dict[tuple[int, int | None, int], list[IndexedEdge]] = {}
        for edge in self._edges:
            groups.setdefault((edge.source, edge.target, edge.sink), []).append(edge)
        writes = self._index.writes({edge.write for edge in self._edges})
        opaque = {(one.write, one.field) for one in self._index.written(writes=writes) if one.is_opaque}
        return tuple(
            GraphEdge(
                source=self._places[self._fields[source].dataset],
                source_field=self._fields[source].name,
                target=self._places[sink],
                target_field=None if target is None else self._fields[target].name,
                kinds=tuple(kind_names(edges)),
                is_masked=all(edge.is_masked for edge in edges),
                is_direct=any(edge.kind in DIRECT_NUMBERS for edge in edges),
                is_approximate=any(writes[edge.write].is_approximate for edge in edges),
                is_opaque=any((edge.write, edge.target) in opaque for edge in edges),
            )
            for (source, target, sink), edges in sorted(groups.items(), key=_order)
        )


def _order(group: tuple[tuple[int, int | None, int], list[IndexedEdge]]) -> tuple[int, int, int]:
    source, target, sink = group[0]
    return sink, -1 if target is None else target, source
