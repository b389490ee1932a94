"""The lineage of one write: what each field of its target is made from, and what decides about its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lakelog.lineage.columns.field_edges import NO_EDGES, Dataset, Edges


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputField:
    """A field that is written, and its inputs.

    `description` is the SQL of its expression. `is_opaque`: code that cannot be read is on the way, so `edges` are all
    inputs that are possible.
    """

    name: str
    edges: Edges = NO_EDGES
    description: str = ""
    is_opaque: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldLineage:
    """What one write makes its fields from. `dataset` holds INDIRECT edges that count for all fields.

    `fields` has the fields in the order of the target; an UPDATE or MERGE has those that it assigns. `target` None
    means that the plan does not say where its rows go.
    """

    target: Dataset | None = None
    fields: tuple[OutputField, ...]
    dataset: Edges = NO_EDGES

    def sources(self) -> list[Dataset]:
        """The datasets from which edges come, sorted."""
        sets: Iterable[Edges] = {self.dataset, *(field.edges for field in self.fields)}
        return sorted({edge.source.dataset for edges in sets for edge in edges})
