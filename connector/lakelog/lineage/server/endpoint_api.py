"""The paths of the design of field level lineage below /v3: the lineage of an end point, hop by hop, and of a field.

Source: CDAP, "Field Level Lineage", in its final form (`endpoints`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_operations import FieldOperation, OperationInput
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.field_walk import walk
from lakelog.lineage.columns.questions.index_rows import IndexedDataset, IndexedEdge, IndexedField
from lakelog.lineage.columns.questions.operation_graph import OperationGraph, graph_backward, graph_forward
from lakelog.lineage.columns.questions.operation_paths import name_in_target, names_in_source, present_operations
from lakelog.lineage.page.graph_json import Json
from lakelog.lineage.page.page_errors import RequestError
from lakelog.lineage.page.page_state import Answering
from lakelog.lineage.page.query_values import Query
from lakelog.lineage.server.cdap_answers import end_point
from lakelog.lineage.server.cdap_lookups import writes_of_field
from lakelog.lineage.server.cdap_values import ListPage, check_size, in_pages, levels_of, range_of

BACKWARD, FORWARD = "backward", "forward"
_DIRECTION_TEXT = "Direction must be specified and should be one of the following: [backward, forward]."


class EndpointApi:
    """The answers, one method for each path; `ns`, `dataset` and `field` are parts of it."""

    def __init__(self, state: Answering) -> None:
        """Nothing is read yet."""
        self._state = state

    def pairs(self, query: Query) -> ListPage:
        """The fields between each two end points, `level` hops far in both directions."""
        depth = levels_of(query, "level", 1)
        asked = range_of(query, self._state)
        owner = asked.index.find_dataset(query.dataset())
        fields = [] if owner is None else [one.id for one in asked.index.fields_of([owner.id])]
        walks = [
            walk(asked.index, fields, is_up=is_up, depth=depth, period=asked.period, between_fields=True)
            for is_up in (True, False)
        ]
        return in_pages(_pairs(asked.index, [edge for found in walks for edge in found.edges]), query)

    def field(self, query: Query) -> Json:
        """The operations that make a field (backward), or that it goes into (forward), and the fields between them."""
        direction = (query.text("direction") or "").lower()
        if direction not in {BACKWARD, FORWARD}:
            raise RequestError(400, _DIRECTION_TEXT)
        asked = range_of(query, self._state)
        graphs: list[OperationGraph] = []
        is_up = direction == BACKWARD
        for owner, one in _asked_fields(asked.index, query.dataset(), query.text("field") or ""):
            for write, document, _ in writes_of_field(asked.index, owner, one, asked.period, is_up=is_up):
                operations = present_operations(asked.index, write, document)
                names = names_in_source(asked.index, document, owner, one)
                graphs.append(
                    graph_backward(operations, name_in_target(document, one))
                    if is_up
                    else graph_forward(operations, owner.dataset, names)
                )
        check_size(sum(len(one.connections) for one in graphs), "connections")
        return merged_graphs(graphs)


def _pairs(index: FieldIndex, edges: Iterable[IndexedEdge]) -> list[Json]:
    known = dict.fromkeys((edge.source, edge.target, edge.sink) for edge in edges if edge.target is not None)
    fields = index.fields({end for source, target, _ in known for end in (source, target) if end is not None})
    datasets = {one.id: one.dataset for one in index.datasets({one.dataset for one in fields.values()})}
    found: dict[tuple[int, int], list[Json]] = {}
    for source, target, sink in known:
        assert target is not None
        pair = fields[source].dataset, sink
        found.setdefault(pair, []).append({"from": fields[source].name, "to": fields[target].name})
    return [
        {"source": end_point(datasets[source]), "destination": end_point(datasets[sink]), "fieldmap": fieldmap}
        for (source, sink), fieldmap in found.items()
    ]


def _asked_fields(index: FieldIndex, dataset: Dataset, name: str) -> list[tuple[IndexedDataset, IndexedField]]:
    owner = index.find_dataset(dataset)
    found = None if owner is None else index.find_field(owner, name)
    return [] if owner is None or found is None else [(owner, found)]


def merged_graphs(graphs: Iterable[OperationGraph]) -> Json:
    """Nodes, operations and connections, each once."""
    taken: dict[str, FieldOperation] = {}
    nodes: dict[str, Json] = {}
    operations: dict[str, Json] = {}
    connections: dict[tuple[str, str, str], Json] = {}
    for graph in graphs:
        names = _names(graph, taken)
        for given in graph.nodes:
            nodes.setdefault(_id(given, names), {}).update(_node(given, graph, names))
        for one in graph.operations:
            shown = names[one.name]
            operations[shown] = {"name": shown, "description": one.description}
        for source, target, operation in graph.connections:
            key = _id(source, names), _id(target, names), names[operation]
            connections[key] = dict(zip(("from", "to", "operation"), key, strict=True))
    return {
        "nodes": list(nodes.values()),
        "operations": list(operations.values()),
        "connections": list(connections.values()),
    }


def _names(graph: OperationGraph, taken: dict[str, FieldOperation]) -> dict[str, str]:
    """The names under which the operations of a graph are shown."""
    found: dict[str, str] = {}
    for one in graph.operations:
        name, number = one.name, 2
        while taken.setdefault(name, one) != one:
            name = f"{one.name} ({number})"
            number += 1
        found[one.name] = name
    return found


def _id(given: OperationInput, names: Mapping[str, str]) -> str:
    return f"{names[given.origin]}.{given.field}"


def _node(given: OperationInput, graph: OperationGraph, names: Mapping[str, str]) -> Json:
    node: Json = {"id": _id(given, names), "label": given.field}
    if given in graph.sources:
        node["sourceEndPoint"] = end_point(graph.sources[given])
    if given in graph.destinations:
        node["destinationEndPoint"] = end_point(graph.destinations[given])
    return node
