"""The fields between the operations of a write, and the connections between them, for one field at an end.

Source: the design of field level lineage of CDAP: nodes are fields as operations give them, connections are labelled
with the operation that makes the one from the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_operations import FieldOperation, OperationInput, OperationKind

Given = OperationInput
"""A field as an operation gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationGraph:
    """Fields, operations and connections in topological order. A connection: from a field, to a field, by an operation.

    `sources` and `destinations` are the datasets that fields are read from and written to.
    """

    nodes: tuple[Given, ...]
    operations: tuple[FieldOperation, ...]
    connections: tuple[tuple[Given, Given, str], ...]
    sources: Mapping[Given, Dataset]
    destinations: Mapping[Given, Dataset]


def graph_backward(operations: Sequence[FieldOperation], name: str) -> OperationGraph:
    """What a written field is made from. `operations` are in topological order."""
    return _graph(operations, _above(operations, _written(operations, name)))


def graph_forward(operations: Sequence[FieldOperation], dataset: Dataset, names: Iterable[str]) -> OperationGraph:
    """What fields of a source are made into. Fields that no WRITE takes are left out, unless no field is written."""
    wanted = set(names)
    begun = {
        Given(origin=one.name, field=name)
        for one in operations
        if one.kind is OperationKind.READ and one.dataset == dataset
        for name in one.outputs
        if name in wanted
    }
    reached = set(begun)
    for one in operations:
        if one.kind is not OperationKind.READ and any(given in reached for given in one.inputs):
            reached |= {Given(origin=one.name, field=name) for name in one.outputs}
    ends = {given for given in _written(operations, None) if given in reached}
    leading = reached & _above(operations, ends) if ends else reached
    return _graph(operations, leading | begun, only_written=bool(ends))


def _written(operations: Sequence[FieldOperation], name: str | None) -> set[Given]:
    """The fields that are written under a name, or all."""
    return {
        given
        for one in operations
        if one.kind is OperationKind.WRITE
        for given in one.inputs
        if name is None or given.field == name
    }


def _above(operations: Sequence[FieldOperation], ends: Iterable[Given]) -> set[Given]:
    """The ends and all that they are made from."""
    by_name = {one.name: one for one in operations}
    found: set[Given] = set()
    left = [given for given in ends if given.origin in by_name]
    while left:
        given = left.pop()
        if given in found:
            continue
        found.add(given)
        maker = by_name[given.origin]
        if maker.kind is not OperationKind.READ:
            left += [one for one in maker.inputs if one.origin in by_name]
    return found


def _graph(operations: Sequence[FieldOperation], nodes: set[Given], *, only_written: bool = True) -> OperationGraph:
    ordered = [
        Given(origin=one.name, field=name)
        for one in operations
        for name in dict.fromkeys(one.outputs)
        if Given(origin=one.name, field=name) in nodes
    ]
    connections = [
        (given, Given(origin=one.name, field=name), one.name)
        for one in operations
        if one.kind is not OperationKind.READ
        for name in dict.fromkeys(one.outputs)
        if Given(origin=one.name, field=name) in nodes
        for given in dict.fromkeys(one.inputs)
        if given in nodes
    ]
    kinds = {one.name: one for one in operations}
    sources = {given: found for given in ordered if (found := _read_from(kinds[given.origin])) is not None}
    destinations = {
        given: one.dataset
        for one in operations
        if one.kind is OperationKind.WRITE and one.dataset is not None
        for given in one.inputs
        if given in nodes
    }
    taking = {
        one.name
        for one in operations
        if any(given in nodes for given in one.inputs) and (one.kind is OperationKind.WRITE or not only_written)
    }
    chosen = {given.origin for given in ordered} | taking
    return OperationGraph(
        nodes=tuple(ordered),
        operations=tuple(one for one in operations if one.name in chosen),
        connections=tuple(connections),
        sources=sources,
        destinations=destinations,
    )


def _read_from(one: FieldOperation) -> Dataset | None:
    return one.dataset if one.kind is OperationKind.READ else None
