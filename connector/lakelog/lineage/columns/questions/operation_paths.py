"""The operations of a write that concern one field: those on the way to it, or from it.

A reader follows operations: each leads from all its inputs to all its outputs. Operations keep the names that fields
had in the program; datasets have their present names. Source: CDAP, "Field Level Lineage".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_operations import FieldOperation, OperationKind
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.index_rows import IndexedDataset, IndexedField, IndexedWrite
from lakelog.lineage.columns.questions.present_names import line_of


def operations_to(
    index: FieldIndex, write: IndexedWrite, document: FieldDocument, field: IndexedField | None
) -> list[FieldOperation]:
    """The operations on the way to a field that the write makes, each after its inputs; None: to all fields."""
    operations = present_operations(index, write, document)
    return operations if field is None else operations_into(operations, name_in_target(document, field))


def operations_from(
    index: FieldIndex, write: IndexedWrite, document: FieldDocument, owner: IndexedDataset, field: IndexedField
) -> list[FieldOperation]:
    """The operations that a field of a source goes into, each after its inputs."""
    operations = present_operations(index, write, document)
    return operations_out_of(operations, owner.dataset, names_in_source(index, document, owner, field))


def operations_into(operations: Sequence[FieldOperation], name: str) -> list[FieldOperation]:
    """The operations that a written field is made by, READs and WRITEs too, in their order."""
    sinks = (one for one in operations if one.kind is OperationKind.WRITE)
    ends = [one.name for one in sinks if any(given.field == name for given in one.inputs)]
    by_name = {one.name: one for one in operations}
    found = set(ends)
    left = [
        given.origin for end in ends for given in by_name[end].inputs if given.field == name and given.origin in by_name
    ]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += [given.origin for given in by_name[one].inputs if given.origin in by_name]
    return [one for one in operations if one.name in found]


def operations_out_of(
    operations: Sequence[FieldOperation], source: Dataset, names: Collection[str]
) -> list[FieldOperation]:
    """The operations that fields of a source go into, READs and WRITEs too. Each operation is after its inputs."""
    found: set[str] = set()
    reached: set[tuple[str, str]] = set()
    for one in reads_of(operations, source):
        given = [output for output in one.outputs if output in names]
        found.update([one.name] if given else [])
        reached.update((one.name, output) for output in given)
    for one in operations:
        if any((given.origin, given.field) in reached for given in one.inputs):
            found.add(one.name)
            reached.update((one.name, output) for output in one.outputs)
    return [one for one in operations if one.name in found]


def present_operations(index: FieldIndex, write: IndexedWrite, document: FieldDocument) -> list[FieldOperation]:
    """All operations in topological order, with the present names of datasets; a WRITE without one has the sink."""
    sink = index.datasets([write.sink])[0].dataset
    shown = {one: present_dataset(index, document, one) for one in _read_datasets(document.operations)}
    return _ordered(
        [
            replace(one, dataset=sink if one.dataset is None else one.dataset)
            if one.kind is OperationKind.WRITE
            else one
            if one.dataset is None
            else replace(one, dataset=shown[one.dataset])
            for one in document.operations
        ]
    )


def present_dataset(index: FieldIndex, document: FieldDocument, dataset: Dataset) -> Dataset:
    """The present name of a source that a document names."""
    for source in document.sources:
        if source.dataset == dataset:
            found = index.find_table(source.uuid, line_of(dataset), dataset)
            return dataset if found is None else found.dataset
    return dataset


def reads_of(operations: Iterable[FieldOperation], dataset: Dataset) -> list[FieldOperation]:
    """The operations that read a dataset."""
    return [one for one in operations if one.kind is OperationKind.READ and one.dataset == dataset]


def name_in_target(document: FieldDocument, field: IndexedField) -> str:
    """The name that a field of the target had in the program."""
    numbers = {number: name for name, number in document.ids.items()}
    return field.name if field.number is None else numbers.get(field.number, field.name)


def names_in_source(
    index: FieldIndex, document: FieldDocument, owner: IndexedDataset, field: IndexedField
) -> frozenset[str]:
    """The names that a field of a source had in the program: the column's, and those of the parts of a struct."""
    column = field.name
    for source in document.sources:
        found = index.find_table(source.uuid, line_of(source.dataset), source.dataset)
        if found is not None and found.id == owner.id:
            column = next((one.name for one in source.columns if one.id == field.number), column)
    paths = {
        edge.source.name
        for edges in {document.lineage.dataset, *(one.edges for one in document.lineage.fields)}
        for edge in edges
        if edge.source.column == column
    }
    return frozenset({column, *paths})


def _read_datasets(operations: Iterable[FieldOperation]) -> set[Dataset]:
    return {one.dataset for one in operations if one.kind is OperationKind.READ and one.dataset is not None}


def _ordered(operations: Sequence[FieldOperation]) -> list[FieldOperation]:
    """Operations so that each comes after its inputs, else in their order. Those of a cycle come last."""
    by_name = {one.name: one for one in operations}
    waiting = {one.name: {given.origin for given in one.inputs} & by_name.keys() for one in operations}
    followers: dict[str, list[str]] = {}
    for name, origins in waiting.items():
        for origin in origins:
            followers.setdefault(origin, []).append(name)
    places = {one.name: place for place, one in enumerate(operations)}
    ready = [places[name] for name, origins in waiting.items() if not origins]
    heapify(ready)
    found: list[FieldOperation] = []
    while ready:
        one = operations[heappop(ready)]
        found.append(one)
        for name in followers.get(one.name, ()):
            waiting[name].discard(one.name)
            if not waiting[name]:
                heappush(ready, places[name])
    done = {one.name for one in found}
    return [*found, *(one for one in operations if one.name not in done)]
