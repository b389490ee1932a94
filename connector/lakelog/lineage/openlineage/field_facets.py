"""The lineage of fields as facets of an output: `columnLineage`, and `lineage`, which follows it.

Source: OpenLineage, "Column Level Lineage Dataset Facet" 1-2-0 and "Lineage Facet" 1-0-0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from openlineage.client.facet_v2 import column_lineage_dataset, lineage

from lakelog.lineage.columns.field_edges import Dataset, Edges, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldLineage
from lakelog.lineage.openlineage.producer import PRODUCER
from lakelog.lineage.openlineage.redaction import redacted

_TEXT_MAX = 2_000
_DATASET: Final = "DATASET"

Placed = Callable[[Dataset], Dataset]  # a dataset with the namespace and the name that OpenLineage gives it


def column_lineage_of(
    found: FieldLineage, placed: Placed = lambda dataset: dataset
) -> column_lineage_dataset.ColumnLineageDatasetFacet:
    """The facet `columnLineage`: the inputs of each field, and those of all fields.

    Fields of the same name, which a query may have, are one.
    """
    fields = {
        name: column_lineage_dataset.Fields(
            inputFields=[_input(source, steps, text, placed) for source, steps in _by_source(edges)]
        )
        for name, (edges, text) in _fields(found).items()
    }
    dataset = [_input(source, steps, "", placed) for source, steps in _by_source(found.dataset)]
    return column_lineage_dataset.ColumnLineageDatasetFacet(fields=fields, dataset=dataset, producer=PRODUCER)


def lineage_facet_of(
    found: FieldLineage, placed: Placed = lambda dataset: dataset, reads: Iterable[Dataset] = ()
) -> lineage.LineageDatasetFacet:
    """The facet `lineage` of an output: its datasets, fields that count for all, inputs of each field."""
    fields = {
        name: lineage.LineageFieldEntry(
            inputs=[_lineage_input(source, steps, text, placed) for source, steps in _by_source(edges)]
        )
        for name, (edges, text) in _fields(found).items()
    }
    whole = [_whole(dataset, placed) for dataset in sorted({*found.sources(), *reads})]
    inputs = [*whole, *(_lineage_input(source, steps, "", placed) for source, steps in _by_source(found.dataset))]
    return lineage.LineageDatasetFacet(inputs=list(inputs), fields=fields, producer=PRODUCER)


def _fields(found: FieldLineage) -> dict[str, tuple[Edges, str]]:
    """For each name, the edges of the fields with it and their SQL."""
    fields: dict[str, tuple[Edges, str]] = {}
    for field in found.fields:
        edges, text = fields.get(field.name, (frozenset(), ""))
        texts = dict.fromkeys(filter(None, (text, field.description)))
        fields[field.name] = edges | field.edges, " | ".join(texts)
    return fields


def _by_source(edges: Edges) -> Iterable[tuple[SourceField, list[FieldEdge]]]:
    """The edges of each source field, in the order of names."""
    found: dict[SourceField, list[FieldEdge]] = {}
    for edge in sorted(edges, key=lambda one: (one.source, one.kind.value, one.is_masked)):
        found.setdefault(edge.source, []).append(edge)
    return found.items()


def _input(
    source: SourceField, edges: Iterable[FieldEdge], text: str, placed: Placed
) -> column_lineage_dataset.InputField:
    namespace, name = placed(source.dataset)
    steps = [
        column_lineage_dataset.Transformation(
            type=edge.kind.value[0], subtype=edge.kind.subtype, description=_text(edge, text), masking=edge.is_masked
        )
        for edge in edges
    ]
    return column_lineage_dataset.InputField(namespace=namespace, name=name, field=source.name, transformations=steps)


def _lineage_input(
    source: SourceField, edges: Iterable[FieldEdge], text: str, placed: Placed
) -> lineage.LineageDatasetInput:
    steps = [
        lineage.LineageTransformation(
            type=edge.kind.value[0], subtype=edge.kind.subtype, description=_text(edge, text), masking=edge.is_masked
        )
        for edge in edges
    ]
    namespace, name = placed(source.dataset)
    return lineage.LineageDatasetInput(
        namespace=namespace, name=name, type=_DATASET, field=source.name, transformations=steps
    )


def _whole(dataset: Dataset, placed: Placed) -> lineage.LineageDatasetInput:
    namespace, name = placed(dataset)
    return lineage.LineageDatasetInput(namespace=namespace, name=name, type=_DATASET)


def _text(edge: FieldEdge, text: str) -> str | None:
    """The SQL that makes the value, without secrets; None for what is no part of it."""
    return redacted(text, length_max=_TEXT_MAX) if text and edge.kind.is_direct else None
