"""The graph, the edges and the matches in the JSON of /api."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # Any: JSON

from lakelog.lineage.fields.field_edges import Dataset
from lakelog.lineage.fields.questions.dataset_graph import FieldGraph, GraphDataset, GraphEdge
from lakelog.lineage.fields.questions.field_search import Match
from lakelog.lineage.page.page_state import TableTaint

Json = dict[str, Any]


def graph_to_json(graph: FieldGraph, *, limit: int, tainted: Mapping[Dataset, TableTaint] | None = None) -> Json:
    """The graph; `tainted` has the tainted datasets, if that was asked for."""
    root = graph.datasets[0].dataset
    found: Json = {
        "root": {"ns": root.namespace, "dataset": root.name, "field": graph.field},
        "datasets": [_dataset(one, (tainted or {}).get(one.dataset.dataset)) for one in graph.datasets],
        "edges": [_edge(one) for one in graph.edges if one.target_field is not None],
        "datasetEdges": [_dataset_edge(one) for one in graph.edges if one.target_field is None],
        "total": graph.total,
        "limit": limit,
        "tooMany": graph.neighbours is not None,
    }
    if graph.neighbours is not None:
        found["neighbours"] = [
            {"ns": one.dataset.namespace, "dataset": one.dataset.name, "hop": one.hop, "fields": one.fields}
            for one in graph.neighbours
        ]
    return found


def match_to_json(one: Match) -> Json:
    """A result of a search."""
    return {
        "ns": one.namespace,
        "dataset": one.dataset,
        "field": one.field,
        "type": one.type,
        "foreign": not one.is_present,
        "hasLineage": one.has_lineage,
    }


def _dataset(one: GraphDataset, tainted: TableTaint | None) -> Json:
    columns = frozenset[str]() if tainted is None else tainted.fields
    found: Json = {
        "id": one.id,
        "ns": one.dataset.namespace,
        "dataset": one.dataset.name,
        "foreign": not one.dataset.is_present,
        "hop": one.hop,
        "fieldCount": max(one.field_count, len(one.fields)),
        "shown": len(one.fields),
        "fields": [
            {"name": each.name, "type": each.type, "state": each.state, "generated": each.is_generated}
            | ({"tainted": True} if each.name in columns else {})
            for each in one.fields
        ],
        "moreUp": one.more_up,
        "moreDown": one.more_down,
    }
    if tainted is not None:
        found["tainted"] = {"from": tainted.first, "lastClean": tainted.last_clean}
    return found


def _edge(one: GraphEdge) -> Json:
    return {
        "source": [one.source, one.source_field],
        "target": [one.target, one.target_field],
        "kinds": list(one.kinds),
        "masked": one.is_masked,
        "direct": one.is_direct,
        "approximate": one.is_approximate,
        "opaque": one.is_opaque,
    }


def _dataset_edge(one: GraphEdge) -> Json:
    return {
        "source": [one.source, one.source_field],
        "target": one.target,
        "kinds": list(one.kinds),
        "masked": one.is_masked,
        "approximate": one.is_approximate,
    }
