"""Walks over edges, hop by hop, up or down: which fields are reached, in which way, and over which edges.

A field is reached in a way: the kind of the path, as `kind_along` combines its steps, and whether one of them masks. An
edge that counts for all fields of a dataset reaches all of its fields. Each way of a field is followed once, so a cycle
ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakelog.common.errors import UnsupportedError
from lakelog.lineage.columns.field_edges import EdgeKind, kind_along
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.index_rows import IndexedEdge
from lakelog.lineage.columns.questions.index_schema import DIRECT_NUMBERS, KIND_NUMBERS, KINDS
from lakelog.lineage.columns.questions.periods import ALL_TIME, Period
from lakelog.lineage.columns.questions.present_names import DROPPED

EDGES_MAX = 500_000  # of one walk
_ALONG = [[KIND_NUMBERS[kind_along(step, kind)] for kind in KINDS] for step in KINDS]
_START = (KIND_NUMBERS[EdgeKind.IDENTITY], False)

Way = tuple[int, bool]
"""The kind of a path, by its place in `KINDS`, and whether it masks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What a walk has found, in the order of hops.

    `hops` and `ways` are by field; the fields from which the walk began have hop 0. `edges` has each edge with the
    first hop that leads over it. `datasets` are those with an edge that counts for all their fields, by hop.
    """

    is_up: bool
    hops: Mapping[int, int]
    ways: Mapping[int, frozenset[Way]]
    edges: Mapping[IndexedEdge, int]
    datasets: Mapping[int, int]


@dataclass(slots=True)
class _State:
    hops: dict[int, int] = field(default_factory=dict)
    ways: dict[int, set[Way]] = field(default_factory=dict)
    edges: dict[IndexedEdge, int] = field(default_factory=dict)
    datasets: dict[int, int] = field(default_factory=dict)


def walk(
    index: FieldIndex,
    fields: Iterable[int],
    *,
    is_up: bool,
    depth: int | None = None,
    period: Period = ALL_TIME,
    direct_only: bool = False,
    between_fields: bool = False,
    datasets: Iterable[int] = (),
) -> Reached:
    """Follow the edges from fields, `depth` hops far. `datasets`: also the edges of these datasets, upwards.

    `direct_only` follows no edge that only decides, `between_fields` no edge that counts for all fields. Raises
    UnsupportedError for a walk over too many edges.
    """
    made = _Walk(
        index, is_up=is_up, period=period, direct_only=direct_only, between_fields=direct_only or between_fields
    )
    fields = list(fields)
    made.start(fields, datasets)
    while made.changed and (depth is None or made.hop < depth):
        made.step()
    state = made.state
    for one in fields:
        state.ways.setdefault(one, set()).add(_START)
    return Reached(
        is_up=is_up,
        hops=state.hops,
        ways={one: frozenset(ways) for one, ways in state.ways.items()},
        edges=state.edges,
        datasets=state.datasets,
    )


class _Walk:
    def __init__(
        self, index: FieldIndex, *, is_up: bool, period: Period, direct_only: bool, between_fields: bool
    ) -> None:
        self._index = index
        self._is_up = is_up
        self._period = period
        self._direct_only = direct_only
        self._between_fields = between_fields
        self._members: dict[tuple[int, int], list[int]] = {}  # the fields of datasets that a write decides about
        self._owners: dict[int, int] = {}
        self._whole: set[int] = set()  # datasets to begin with
        self._leading: dict[int, list[IndexedEdge]] = {}  # the edges of each field that was followed
        self.state = _State()
        self.changed: dict[int, set[Way]] = {}
        self.hop = 0

    def start(self, fields: Iterable[int], datasets: Iterable[int]) -> None:
        self._whole = set(datasets)
        for one in fields:
            self._reach(one, [_START], 0)
        self.changed = {one: set(ways) for one, ways in self.state.ways.items()}
        if not self.changed and self._whole:
            self.changed = {-1: {_START}}  # a dataset of which no field is known

    def step(self) -> None:
        """Go one hop further from the fields that were reached in a new way."""
        changed, self.changed = self.changed, {}
        self.hop += 1
        self._load([one for one in changed if one not in self._leading])
        leading = {one: self._leading[one] for one in changed}
        if self.hop == 1 and self._is_up and self._period.first != self._period.above:
            # What made a snapshot may have read an earlier one of the same table, which other writes made.
            self._leading.clear()
            self.state.ways = {}
        for one, ways in changed.items():
            for edge in leading[one]:
                self.state.edges.setdefault(edge, self.hop)
                along = {_after(edge, way, is_up=self._is_up) for way in ways}
                for found in self._ends(edge):
                    new = self._reach(found, along, self.hop)
                    if new:
                        self.changed.setdefault(found, set()).update(new)
        if len(self.state.edges) > EDGES_MAX:
            raise UnsupportedError(
                f"the answer has more than {EDGES_MAX} edges; ask for fewer hops, a shorter time, or one field"
            )

    def _reach(self, one: int, ways: Iterable[Way], hop: int) -> list[Way]:
        known = self.state.ways.setdefault(one, set())
        self.state.hops.setdefault(one, hop)
        new = [way for way in ways if way not in known]
        known.update(new)
        return new

    def _ends(self, edge: IndexedEdge) -> Iterable[int]:
        if self._is_up:
            return (edge.source,)
        if edge.target is not None:
            return (edge.target,)
        self.state.datasets.setdefault(edge.sink, self.hop)
        return self._members[edge.sink, edge.write]

    def _load(self, fields: list[int]) -> None:
        """Read the edges that lead on from fields."""
        if self._is_up:
            self._load_up(fields)
        else:
            self._load_down(fields)

    def _load_down(self, fields: list[int]) -> None:
        found = self._index.edges_from(fields)
        if not self._between_fields:
            found += self._index.dataset_edges_from(fields)
        counted = self._counted(found, self._period.below)
        self._load_members({(edge.sink, edge.write) for edge in counted if edge.target is None})
        self._leading |= {one: [] for one in fields}
        for edge in counted:
            self._leading[edge.source].append(edge)

    def _load_up(self, fields: list[int]) -> None:
        writes = self._period.first if self.hop == 1 else self._period.above
        self._leading |= {one: [] for one in fields}
        for edge in self._counted(self._index.edges_into(fields), writes):
            assert edge.target is not None
            self._leading[edge.target].append(edge)
        if self._between_fields:
            return
        self._owners |= {one.id: one.dataset for one in self._index.fields(fields).values()}
        owners = {self._owners[one] for one in fields if one in self._owners} | self._whole
        by_dataset: dict[int, list[IndexedEdge]] = {}
        for edge in self._counted(self._index.dataset_edges_into(owners), writes):
            by_dataset.setdefault(edge.sink, []).append(edge)
            self.state.datasets.setdefault(edge.sink, self.hop)
        for one in fields:
            owned = [self._owners[one]] if one in self._owners else sorted(self._whole)
            for dataset in owned:
                self._leading[one] += by_dataset.get(dataset, [])
        self._whole = set()

    def _counted(self, edges: list[IndexedEdge], writes: frozenset[int] | None) -> list[IndexedEdge]:
        return [
            edge
            for edge in edges
            if (writes is None or edge.write in writes) and (not self._direct_only or edge.kind in DIRECT_NUMBERS)
        ]

    def _load_members(self, wanted: set[tuple[int, int]]) -> None:
        """All fields that there are, and those that the write has made and that were dropped since."""
        new = sorted(wanted - self._members.keys())
        found: dict[int, list[int]] = {}
        for one in self._index.fields_of({sink for sink, _ in new}):
            if one.state != DROPPED:
                found.setdefault(one.dataset, []).append(one.id)
        made: dict[int, list[int]] = {}
        for written in self._index.written(writes={write for _, write in new}):
            made.setdefault(written.write, []).append(written.field)
        for sink, write in new:
            self._members[sink, write] = list(dict.fromkeys([*found.get(sink, []), *made.get(write, [])]))


def _after(edge: IndexedEdge, way: Way, *, is_up: bool) -> Way:
    """The way after one more edge: downwards the edge is nearer to the output than the path, upwards the path is."""
    kind, is_masked = way
    return (_ALONG[kind][edge.kind] if is_up else _ALONG[edge.kind][kind]), is_masked or edge.is_masked
