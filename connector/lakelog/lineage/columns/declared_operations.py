"""Operations that a user declares for code which Spark cannot see, and the lineage that follows from them.

An operation leads from all its inputs to all its outputs. Source: CDAP, "Field Level Lineage".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import shown
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, Edges, FieldEdge, SourceField, all_of, along
from lakelog.lineage.columns.field_operations import (
    FieldLineage,
    FieldOperation,
    OperationInput,
    OperationKind,
    OutputField,
)

_NAMED_MAX = 10  # so many names are in an error


def lineage_of_operations(operations: Sequence[FieldOperation], target: Dataset) -> FieldLineage:
    """What the fields of a dataset that operations write are made from, in the order of their names.

    A field that a WRITE takes from a READ is IDENTITY, every other one a TRANSFORMATION. A name is that of one column,
    also with dots. Raises InvalidRequestError for operations that `check_operations` refuses, and for a target that
    none of them writes.
    """
    check_operations(operations)
    writes = [one for one in operations if one.kind is OperationKind.WRITE]
    if all(one.dataset != target for one in writes):
        written = sorted({_dataset_text(one.dataset) for one in writes})
        raise InvalidRequestError(
            f"no operation writes {_dataset_text(target)}; written are {_listed(written)}: name one of them"
        )
    values: dict[OperationInput, Edges] = {}
    for operation in in_order(operations):
        values |= _outputs(operation, values)
    made: dict[str, list[OperationInput]] = {}
    for one in (one for write in writes if write.dataset == target for one in write.inputs):
        made.setdefault(one.field, []).append(one)
    named = {one.name: one for one in operations}
    fields = [
        OutputField(
            name=name,
            edges=all_of(values[one] for one in inputs),
            description=" | ".join(sorted({_text(named[one.origin], name) for one in inputs})),
        )
        for name, inputs in sorted(made.items())
    ]
    return FieldLineage(target=target, fields=tuple(fields))


def _text(operation: FieldOperation, field: str) -> str:
    """How a field is made, in words; one that is read has its name."""
    return field if operation.kind is OperationKind.READ else operation.description or operation.name


def _outputs(operation: FieldOperation, values: Mapping[OperationInput, Edges]) -> dict[OperationInput, Edges]:
    """What the outputs of an operation are made from."""
    names = [OperationInput(origin=operation.name, field=name) for name in operation.outputs]
    if operation.dataset is not None:
        return {
            name: frozenset([FieldEdge(SourceField(operation.dataset, (name.field,)), EdgeKind.IDENTITY)])
            for name in names
        }
    edges = along(all_of(values[one] for one in operation.inputs), EdgeKind.TRANSFORMATION)
    return dict.fromkeys(names, edges)


def in_order(operations: Iterable[FieldOperation]) -> list[FieldOperation]:
    """The operations, each after those that its inputs come from; origins that do not exist are left out.

    Raises InvalidRequestError for a cycle.
    """
    named = {one.name: one for one in operations}
    before = {
        one.name: list(dict.fromkeys(given.origin for given in one.inputs if given.origin in named))
        for one in named.values()
    }
    try:
        return [named[name] for name in TopologicalSorter(before).static_order()]
    except CycleError as error:
        names = " -> ".join(map(shown, error.args[1]))
        raise InvalidRequestError(
            f"the operations {names} are a cycle: each has an input that is made from its own output; an operation "
            "can use only what is made before it"
        ) from error


def check_operations(operations: Sequence[FieldOperation]) -> None:
    """Raise InvalidRequestError for operations that do not describe a lineage. The first mistake is reported."""
    for check in _CHECKS:
        check(operations)
    in_order(operations)


def _check_types(operations: Sequence[FieldOperation]) -> None:
    for one in operations:
        for member, value in (("outputs", one.outputs), ("inputs", one.inputs)):
            if isinstance(value, str):
                raise InvalidRequestError(
                    f"the {member} of {shown(one.name)} are the string {shown(value)}, expected a tuple: write "
                    f"({value!r},)"
                )
        for member, texts in (
            ("name", (one.name,)),
            ("description", (one.description,)),
            ("dataset", one.dataset or ()),
            ("outputs", one.outputs),
            ("inputs", [text for given in one.inputs for text in (given.origin, given.field)]),
        ):
            odd = next((text for text in texts if not isinstance(text, str)), None)
            if odd is not None:
                raise InvalidRequestError(f"{member} of the operation {one.name!r} has {odd!r}, expected a string")


def _check_names(operations: Sequence[FieldOperation]) -> None:
    counts = Counter(one.name for one in operations)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise InvalidRequestError(
            f"the name {shown(twice[0])} is given to {counts[twice[0]]} operations; inputs name their operation, so "
            "give each a name of its own"
        )


def _check_kinds(operations: Sequence[FieldOperation]) -> None:
    for kind, rest in ((OperationKind.READ, "reads a dataset"), (OperationKind.WRITE, "writes a dataset")):
        if all(one.kind is not kind for one in operations):
            raise InvalidRequestError(
                f"no operation of {len(operations)} is a {kind}, expected at least one: add the operation that {rest}"
            )


def _check_datasets(operations: Sequence[FieldOperation]) -> None:
    for one in operations:
        if one.kind is OperationKind.TRANSFORM and one.dataset is not None:
            raise InvalidRequestError(
                f"the TRANSFORM {shown(one.name)} has the dataset {_dataset_text(one.dataset)}, expected none: a "
                "dataset is read by a READ and written by a WRITE"
            )
        if one.kind is not OperationKind.TRANSFORM and one.dataset is None:
            verb = "reads" if one.kind is OperationKind.READ else "writes"
            raise InvalidRequestError(f"the {one.kind} {shown(one.name)} has no dataset: name the one that it {verb}")


def _check_ends(operations: Sequence[FieldOperation]) -> None:
    for one in operations:
        if one.kind is OperationKind.READ and one.inputs:
            raise InvalidRequestError(
                f"the READ {shown(one.name)} has inputs of {_listed([given.origin for given in one.inputs])}, expected "
                "none: make them the inputs of a TRANSFORM"
            )
        if one.kind is OperationKind.WRITE and one.outputs:
            raise InvalidRequestError(
                f"the WRITE {shown(one.name)} has the outputs {_listed(one.outputs)}, expected none: the fields that "
                "it writes are its inputs"
            )


def _check_origins(operations: Sequence[FieldOperation]) -> None:
    names = {one.name for one in operations}
    missing = dict.fromkeys(given.origin for one in operations for given in one.inputs if given.origin not in names)
    if missing:
        first = next(one for one in operations if any(given.origin in missing for given in one.inputs))
        raise InvalidRequestError(
            f"no operation has the name {_listed(missing)}, which inputs name, first those of {shown(first.name)}; "
            f"{_near(next(iter(missing)), names)}"
        )


def _check_fields(operations: Sequence[FieldOperation]) -> None:
    outputs = {one.name: frozenset(one.outputs) for one in operations}
    for one in operations:
        for given in one.inputs:
            if given.field not in outputs[given.origin]:
                raise InvalidRequestError(
                    f"{shown(one.name)} has the input {shown(given.field)} of {shown(given.origin)}, which does not "
                    f"give this field; {_near(given.field, outputs[given.origin])}"
                )


_CHECKS: tuple[Callable[[Sequence[FieldOperation]], None], ...] = (
    _check_types,
    _check_names,
    _check_kinds,
    _check_datasets,
    _check_ends,
    _check_origins,
    _check_fields,
)


def _near(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    return f"did you mean {shown(near[0])}?" if near else f"there are {_listed(names) or 'none'}"


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
    return ", ".join(map(shown, found[:_NAMED_MAX])) + more


def _dataset_text(dataset: Dataset | None) -> str:
    return "none" if dataset is None else f"{dataset.name} in {dataset.namespace}"
