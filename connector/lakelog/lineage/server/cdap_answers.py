"""The answers of CDAP's paths about fields, from lists of fields and operations. Pure.

Source: CDAP, `FieldLineageAdmin`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_operations import FieldOperation, OperationKind
from lakelog.lineage.page.graph_json import Json

INCOMING, OUTGOING = "incoming", "outgoing"


class NamedColumn(NamedTuple):
    """A field of a dataset by its name."""

    dataset: Dataset
    field: str


class Program(NamedTuple):
    """A job as a program of CDAP; its namespace is that of the table that it writes."""

    namespace: str
    name: str

    def to_json(self) -> Json:
        """The id of the program."""
        return {"namespace": self.namespace, "application": "lakelog", "type": "Spark", "program": self.name}


class Executed(NamedTuple):
    """A program and the seconds since 1970 at which a run of it was last seen."""

    program: Program
    seconds: int


def entity(dataset: Dataset) -> Json:
    """The id of a dataset."""
    return {"namespace": dataset.namespace, "dataset": dataset.name}


def end_point(dataset: Dataset) -> Json:
    """A dataset as the end of operations."""
    return {"namespace": dataset.namespace, "name": dataset.name}


def field_list(
    with_lineage: Iterable[str], present: Iterable[str], *, prefix: str | None, include_current: bool
) -> list[Json]:
    """The fields that have lineage, and if asked for those of the present schema that have none."""
    begins = (prefix or "").lower()
    names = dict.fromkeys(with_lineage, True)
    if include_current:
        names |= {name: False for name in present if name not in names}
    return [
        {"name": name, "hasLineage": has_lineage}
        for name, has_lineage in names.items()
        if name.lower().startswith(begins)
    ]


def summary_of(direction: str, columns: Mapping[str, Iterable[NamedColumn]]) -> Json:
    """The fields on each side of a field, by dataset; a side that is not asked for is missing."""
    return {
        side: [{"dataset": entity(dataset), "fields": fields} for dataset, fields in _by_dataset(columns[side]).items()]
        for side in (INCOMING, OUTGOING)
        if direction in {side, "both"}
    }


def dataset_summary(
    dataset: Dataset,
    direction: str,
    times: tuple[int, int],
    fields: Sequence[str],
    relations: Mapping[str, Iterable[tuple[Dataset, str, str]]],
) -> Json:
    """All relations of the fields of a dataset: other dataset, source, destination. A side not asked for is empty.

    `times` are milliseconds.
    """
    sides: dict[str, list[Json]] = {INCOMING: [], OUTGOING: []}
    for side, found in relations.items():
        by_dataset: dict[Dataset, list[Json]] = {}
        for other, source, destination in found if direction in {side, "both"} else ():
            by_dataset.setdefault(other, []).append({"source": source, "destination": destination})
        sides[side] = [{"entityId": entity(other), "relations": some} for other, some in by_dataset.items()]
    return {
        "direction": direction.upper(),
        "start-ts": times[0],
        "end-ts": times[1],
        "entityId": entity(dataset),
        "fields": list(fields),
        **sides,
    }


def operations_answer(groups: Iterable[tuple[Sequence[FieldOperation], Iterable[Executed]]]) -> list[Json]:
    """One entry per set of operations, with each program once, the newest first."""
    found: dict[tuple[FieldOperation, ...], dict[Program, int]] = {}
    for operations, programs in groups:
        newest = found.setdefault(tuple(operations), {})
        for program, seconds in programs:
            newest[program] = max(seconds, newest.get(program, seconds))
    return [
        {
            "programs": [
                {"program": program.to_json(), "lastExecutedTimeInSeconds": seconds}
                for program, seconds in sorted(newest.items(), key=lambda one: (-one[1], one[0]))
            ],
            "operations": [operation_json(one) for one in operations],
        }
        for operations, newest in found.items()
    ]


def operation_json(one: FieldOperation) -> Json:
    """An operation with what it takes and what it gives."""
    inputs: Json = {"fields": [{"origin": given.origin, "name": given.field} for given in one.inputs]}
    outputs: Json = {"fields": list(one.outputs)}
    if one.dataset is not None and one.kind is OperationKind.READ:
        inputs = {"endPoint": end_point(one.dataset)}
    if one.dataset is not None and one.kind is OperationKind.WRITE:
        outputs = {"endPoint": end_point(one.dataset)}
    return {"name": one.name, "description": one.description, "inputs": inputs, "outputs": outputs}


def _by_dataset(columns: Iterable[NamedColumn]) -> dict[Dataset, list[str]]:
    found: dict[Dataset, dict[str, None]] = {}
    for dataset, field in columns:
        found.setdefault(dataset, {})[field] = None
    return {dataset: list(fields) for dataset, fields in found.items()}
