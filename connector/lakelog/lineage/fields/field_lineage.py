"""The lineage of one write: what each field of its target is made from, and what decides about its rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from lakelog.lineage.fields.field_edges import NO_EDGES, Dataset, Edges


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

    def to_json(self) -> dict[str, object]:
        """The JSON object, the same for the same lineage."""
        found: dict[str, object] = {"field": self.name, "from": _edges_to_json(self.edges), "sql": self.description}
        return found | ({"opaque": True} if self.is_opaque else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldLineage:
    """What one write makes its fields from. `dataset` holds INDIRECT edges that count for all fields.

    `fields` has the fields in the order of the target; an UPDATE or MERGE has those that it assigns. `target` None
    means that the plan does not say where its rows go.
    """

    target: Dataset | None = None
    fields: tuple[OutputField, ...]
    dataset: Edges = NO_EDGES

    @property
    def checksum(self) -> str:
        """Identifies the lineage: it depends neither on the order of the fields nor on a run."""
        fields = sorted((field.to_json() for field in self.fields), key=lambda found: json.dumps(found, sort_keys=True))
        content = {"target": self.target, "fields": fields, "dataset": _edges_to_json(self.dataset)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def sources(self) -> list[Dataset]:
        """The datasets from which edges come, sorted."""
        sets: Iterable[Edges] = (self.dataset, *(field.edges for field in self.fields))
        return sorted({edge.source.dataset for edges in sets for edge in edges})


def _edges_to_json(edges: Edges) -> list[list[object]]:
    return sorted(
        [*edge.source.dataset, edge.source.name, edge.kind.subtype, *(["masked"] if edge.is_masked else [])]
        for edge in edges
    )
