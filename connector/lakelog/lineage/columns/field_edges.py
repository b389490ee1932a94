"""Edges between fields: from which field a value is made, and how.

Source: OpenLineage, "Column Level Lineage Dataset Facet" 1-2-0.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple


class EdgeKind(Enum):
    """How an input acts on an output; the value is type and subtype as OpenLineage names them."""

    IDENTITY = ("DIRECT", "IDENTITY")
    TRANSFORMATION = ("DIRECT", "TRANSFORMATION")
    AGGREGATION = ("DIRECT", "AGGREGATION")
    JOIN = ("INDIRECT", "JOIN")
    GROUP_BY = ("INDIRECT", "GROUP_BY")
    FILTER = ("INDIRECT", "FILTER")
    SORT = ("INDIRECT", "SORT")
    WINDOW = ("INDIRECT", "WINDOW")
    CONDITIONAL = ("INDIRECT", "CONDITIONAL")
    ROWS = ("INDIRECT", "ROWS")  # of lakelog alone, see `ALL_ROWS`

    @property
    def is_direct(self) -> bool:
        """Whether the value of the output contains the input."""
        return self.value[0] == "DIRECT"

    @property
    def subtype(self) -> str:
        """The name of the kind, which is unique."""
        return self.value[1]


# In place of a field: the rows of a dataset of which no field is an input, such as those that `count(*)` counts.
ALL_ROWS = "*"
_STRENGTH = {EdgeKind.IDENTITY: 0, EdgeKind.TRANSFORMATION: 1, EdgeKind.AGGREGATION: 2}


def _along(step: EdgeKind, kind: EdgeKind) -> EdgeKind:
    if not step.is_direct:
        return step
    if not kind.is_direct:
        return kind
    return max(step, kind, key=_STRENGTH.__getitem__)


_ALONG = {step: {kind: _along(step, kind) for kind in EdgeKind} for step in EdgeKind}


def kind_along(step: EdgeKind, kind: EdgeKind) -> EdgeKind:
    """The kind of a path: a step of `step`, which is nearer to the output, after a path of `kind`."""
    return _ALONG[step][kind]


class Dataset(NamedTuple):
    """A table, topic or path; the namespace is that of its catalog, its warehouse, or the name of its format."""

    namespace: str
    name: str


class SourceField(NamedTuple):
    """A column of a dataset, or a part of it: `path` is the column and the fields of structs below it."""

    dataset: Dataset
    path: tuple[str, ...]

    @property
    def column(self) -> str:
        """The column that holds the field."""
        return self.path[0]

    @property
    def name(self) -> str:
        """The path with dots."""
        return ".".join(self.path)


class FieldEdge(NamedTuple):
    """What a value has from one source field. `is_masked`: on the way is a function that hides the value."""

    source: SourceField
    kind: EdgeKind
    is_masked: bool = False


Edges = frozenset[FieldEdge]
NO_EDGES: Edges = frozenset()


def along(edges: Edges, step: EdgeKind, *, is_masking: bool = False) -> Edges:
    """The edges after one more step towards the output.

    The INDIRECT step that is nearest to the output decides; without one, the strongest of the DIRECT steps.
    """
    if not edges or (step is EdgeKind.IDENTITY and not is_masking):
        return edges
    kinds = _ALONG[step]
    return frozenset([FieldEdge(edge.source, kinds[edge.kind], edge.is_masked or is_masking) for edge in edges])


def all_of(sets: Iterable[Edges]) -> Edges:
    """The union; a single set that is not empty is given back itself."""
    found = [edges for edges in sets if edges]
    if len(found) <= 1:
        return found[0] if found else NO_EDGES
    return frozenset().union(*found)
