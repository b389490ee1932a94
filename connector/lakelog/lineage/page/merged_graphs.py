"""The operations of several writes as one graph, in the form of the design.

Names of operations are unique in one write only: where two writes have different operations of one name, the later one
is named with a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakelog.lineage.columns.field_operations import FieldOperation, OperationInput
from lakelog.lineage.columns.questions.operation_graph import OperationGraph
from lakelog.lineage.page.cdap_answers import end_point
from lakelog.lineage.page.graph_json import Json


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
