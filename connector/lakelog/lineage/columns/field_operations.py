"""The operations of a write: reads, one transformation for each field, and the write, each after its inputs.

A reader follows lineage from operation to operation, and an operation leads from all its inputs to all its outputs: so
no two fields share a transformation. The lineage of a write has what each field of its target is made from, and what
decides about its rows. Source: CDAP, "Field Level Lineage".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lakelog.lineage.columns.field_edges import NO_EDGES, Dataset, Edges, SourceField


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


class OperationKind(StrEnum):
    """What an operation does."""

    READ = "READ"
    TRANSFORM = "TRANSFORM"
    WRITE = "WRITE"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationInput:
    """A field as another operation gives it: `origin` is the name of that operation."""

    origin: str
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOperation:
    """One operation; names are unique within a lineage. `dataset` is what is read or written."""

    kind: OperationKind
    name: str
    description: str = ""
    dataset: Dataset | None = None
    inputs: tuple[OperationInput, ...] = ()
    outputs: tuple[str, ...] = ()


def operations_of(lineage: FieldLineage, more: Iterable[Dataset] = ()) -> Sequence[FieldOperation]:
    """The operations of a lineage in topological order. `more` are datasets that are read without a field."""
    sources = sorted({*lineage.sources(), *more})
    names = {dataset: f"read {'.'.join(dataset)}" for dataset in sources}
    read: dict[Dataset, set[str]] = {dataset: set() for dataset in sources}
    for edges in (lineage.dataset, *(field.edges for field in lineage.fields)):
        for edge in edges:
            read[edge.source.dataset].add(edge.source.name)
    reads = [
        FieldOperation(
            kind=OperationKind.READ, name=names[dataset], dataset=dataset, outputs=tuple(sorted(read[dataset]))
        )
        for dataset in sources
    ]
    transforms = [
        FieldOperation(
            kind=OperationKind.TRANSFORM,
            name=name,
            description=field.description,
            inputs=tuple(_input(names, source) for source in sorted({edge.source for edge in field.edges})),
            outputs=(field.name,),
        )
        for name, field in zip(transform_names(lineage), lineage.fields, strict=True)
    ]
    written = FieldOperation(
        kind=OperationKind.WRITE,
        name="write" if lineage.target is None else f"write {'.'.join(lineage.target)}",
        dataset=lineage.target,
        inputs=tuple(OperationInput(origin=one.name, field=one.outputs[0]) for one in transforms),
    )
    return [*reads, *transforms, written]


def transform_names(lineage: FieldLineage) -> list[str]:
    """A name for the transformation of each field; a query may have several columns of one name."""
    counts: Counter[str] = Counter()
    names: list[str] = []
    for field in lineage.fields:
        counts[field.name] += 1
        count = counts[field.name]
        names.append(f"make {field.name}" if count == 1 else f"make {field.name}, number {count}")
    return names


def _input(names: dict[Dataset, str], source: SourceField) -> OperationInput:
    return OperationInput(origin=names[source.dataset], field=source.name)
