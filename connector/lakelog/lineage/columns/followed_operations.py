"""Which operations are on the way to a field that is written, or from a field that is read.

An operation leads from all its inputs to all its outputs. Source: CDAP, "Field Level Lineage".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakelog.lineage.columns.declared_operations import in_order
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_operations import FieldOperation, OperationKind


def operations_into(operations: Sequence[FieldOperation], target: Dataset, field: str) -> list[FieldOperation]:
    """The operations that a field of `target` is made by, each after its inputs, the READs and WRITEs too."""
    writes = [one for one in operations if one.kind is OperationKind.WRITE and one.dataset == target]
    starts = {one.name: [given.origin for given in one.inputs if given.field == field] for one in writes}
    before = {one.name: [given.origin for given in one.inputs] for one in operations}
    ends = [name for name, origins in starts.items() if origins]
    found = _reached([origin for name in ends for origin in starts[name]], before) | set(ends)
    return [one for one in in_order(operations) if one.name in found]


def operations_out_of(operations: Sequence[FieldOperation], source: Dataset, field: str) -> list[FieldOperation]:
    """The operations that a field of `source` goes into, each after its inputs, the READs and WRITEs too."""
    reads = {
        one.name
        for one in operations
        if one.kind is OperationKind.READ and one.dataset == source and field in one.outputs
    }
    after: dict[str, list[str]] = {}
    starts: list[str] = []
    for one in operations:
        for given in one.inputs:
            if given.origin not in reads:
                after.setdefault(given.origin, []).append(one.name)
            elif given.field == field:
                starts.append(one.name)
    found = _reached(starts, after) | reads
    return [one for one in in_order(operations) if one.name in found]


def _reached(starts: Iterable[str], steps: Mapping[str, Sequence[str]]) -> set[str]:
    """The names that steps lead to, and the first ones."""
    todo = list(starts)
    seen = set(todo)
    while todo:
        for name in steps.get(todo.pop(), ()):
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return seen
