"""Declared operations against the cases of CDAP, what is refused, and how long many operations take."""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any  # Any: parsed JSON

import pytest

from lakelog.common.errors import InvalidRequestError
from lakelog.lineage.columns.declared_operations import check_operations, in_order, lineage_of_operations
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldOperation, OperationInput, OperationKind, operations_of
from lakelog.lineage.columns.questions.operation_paths import operations_into, operations_out_of
from tests.support.lineage.field_cases import TRUTH

CASES: dict[str, list[dict[str, Any]]] = json.loads((TRUTH / "cdap.json").read_text("utf-8"))
LINEAGE = [case for case in (*CASES["lineage"], *CASES["hr"]) if "operations" in case]
# The facts of CDAP's errors, which ours have too.
FACTS = {
    "no READ": ("READ", "at least one"),
    "no WRITE": ("WRITE", "at least one"),
    "a name twice": ("'write'", "2 operations"),
    "origins that do not exist": ("'invalid', 'anotherinvalid'",),
    "a READ without a source": ("READ 'read'", "no dataset"),
    "a WRITE without a destination": ("WRITE 'write'", "no dataset"),
}
# Of CDAP's operations that are valid, one writes a field that its origin does not give. Here this is a mistake: the
# field would silently come from nowhere.
REFUSED_HERE = {"an input that its origin does not have is not looked for": ("'write'", "'body'", "'parse'", "'name'")}

FieldOfDataset = tuple[str | None, str, str]


def dataset_of(found: dict[str, str] | None) -> Dataset | None:
    return None if found is None else Dataset(found["namespace"] or "", found["name"])


def operation_of(found: dict[str, Any]) -> FieldOperation:
    """An operation of CDAP's form."""
    return FieldOperation(
        kind=OperationKind(found["type"]),
        name=found["name"],
        description=found["description"],
        dataset=dataset_of(found.get("source") or found.get("destination")),
        inputs=tuple(OperationInput(origin=one["origin"], field=one["name"]) for one in found.get("inputs", ())),
        outputs=tuple(found.get("outputs", ())),
    )


def operations_in(case: dict[str, Any], key: str = "operations") -> list[FieldOperation]:
    return [operation_of(one) for one in case[key]]


def targets_of(operations: Sequence[FieldOperation]) -> set[Dataset]:
    return {one.dataset for one in operations if one.kind is OperationKind.WRITE and one.dataset is not None}


def field_of(dataset: Dataset, name: str) -> FieldOfDataset:
    return dataset.namespace or None, dataset.name, name


def incoming(operations: Sequence[FieldOperation]) -> dict[FieldOfDataset, set[FieldOfDataset]]:
    """For each field that is written, the fields that it comes from."""
    return {
        field_of(target, field.name): {field_of(edge.source.dataset, edge.source.name) for edge in field.edges}
        for target in targets_of(operations)
        for field in lineage_of_operations(operations, target).fields
    }


def outgoing(operations: Sequence[FieldOperation]) -> dict[FieldOfDataset, set[FieldOfDataset]]:
    """For each field that is written from, the fields that it goes to."""
    found: dict[FieldOfDataset, set[FieldOfDataset]] = defaultdict(set)
    for end, starts in incoming(operations).items():
        for start in starts:
            found[start].add(end)
    return found


def wanted(case: dict[str, Any], key: str) -> dict[FieldOfDataset, set[FieldOfDataset]]:
    return {tuple(one["field"]): {tuple(end) for end in one["fields"] if end is not None} for one in case[key]}


def named(cases: Sequence[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=[case["name"] for case in cases])


@named(CASES["validity"])
def test_a_mistake_has_an_error_with_the_facts_of_cdap(case: dict[str, Any]) -> None:
    facts = REFUSED_HERE if case["error"] is None else FACTS
    with pytest.raises(InvalidRequestError) as caught:
        check_operations(operations_in(case))
    assert [fact for fact in facts[case["name"]] if fact not in str(caught.value)] == []


@named(CASES["checksum"])
def test_the_same_operations_have_the_same_lineage(case: dict[str, Any]) -> None:
    """The operations of CDAP, without the field that its origin does not give."""
    sides = [
        [without_unknown_fields(one, operations) for one in operations]
        for operations in (operations_in(case, "left"), operations_in(case, "right"))
    ]
    checksums = [
        {
            (target, FieldDocument(lineage=replace(lineage_of_operations(operations, target), target=None)).checksum)
            for target in targets_of(operations)
        }
        for operations in sides
    ]
    assert (checksums[0] == checksums[1]) is case["equal"]


def without_unknown_fields(one: FieldOperation, operations: Sequence[FieldOperation]) -> FieldOperation:
    given = {(origin.name, name) for origin in operations for name in origin.outputs}
    return FieldOperation(
        kind=one.kind,
        name=one.name,
        description=one.description,
        dataset=one.dataset,
        inputs=tuple(origin for origin in one.inputs if (origin.origin, origin.field) in given),
        outputs=one.outputs,
    )


@named(LINEAGE)
def test_a_field_comes_from_the_fields_that_cdap_finds(case: dict[str, Any]) -> None:
    found = incoming(operations_in(case))
    expected = wanted(case, "incoming")
    assert {field: found[field] for field in expected} == expected


@named(LINEAGE)
def test_a_field_goes_to_the_fields_that_cdap_finds(case: dict[str, Any]) -> None:
    found = outgoing(operations_in(case))
    expected = wanted(case, "outgoing")
    assert {field: found.get(field, set()) for field in expected} == expected


@named([case for case in LINEAGE if "destination_fields" in case])
def test_the_written_fields_are_those_of_cdap(case: dict[str, Any]) -> None:
    operations = operations_in(case)
    for one in case["destination_fields"]:
        target = dataset_of(one["destination"])
        assert target is not None
        assert [field.name for field in lineage_of_operations(operations, target).fields] == sorted(one["fields"])


@named([case for case in LINEAGE if "incoming_operations" in case])
def test_the_operations_into_a_field_are_those_of_cdap(case: dict[str, Any]) -> None:
    operations = operations_in(case)
    for one in case["incoming_operations"]:
        namespace, name, field = one["field"]
        others = targets_of(operations) - {Dataset(namespace or "", name)}
        found = operations_into([each for each in in_order(operations) if each.dataset not in others], field)
        assert sorted(operation.name for operation in found) == sorted(one["operations"])


@named([case for case in LINEAGE if "outgoing_operations" in case])
def test_the_operations_out_of_a_field_are_those_of_cdap(case: dict[str, Any]) -> None:
    operations = operations_in(case)
    for one in case["outgoing_operations"]:
        namespace, name, field = one["field"]
        found = operations_out_of(in_order(operations), Dataset(namespace or "", name), [field])
        assert sorted(operation.name for operation in found) == sorted(one["operations"])


@named([case for case in CASES["order"] if "before" in case])
def test_an_operation_is_after_its_inputs(case: dict[str, Any]) -> None:
    operations = operations_in(case)
    for given in permutations(operations) if case.get("any_order_of_input") else [operations]:
        places = {one.name: at for at, one in enumerate(in_order(given))}
        assert [pair for pair in case["before"] if places[pair[0]] >= places[pair[1]]] == []


@named([case for case in CASES["order"] if "error" in case])
def test_a_cycle_is_refused_with_its_operations(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="are a cycle") as caught:
        in_order(operations_in(case))
    names = {one["name"] for one in case["operations"]}
    named_ones = set(re.findall(r"'(\w+)'", str(caught.value)))
    assert "parse" in named_ones
    assert named_ones <= names - {"read", "write"}


def test_a_cycle_of_valid_operations_is_refused() -> None:
    case = next(case for case in CASES["order"] if case["name"] == "a cycle")
    with pytest.raises(InvalidRequestError, match="are a cycle"):
        check_operations(operations_in(case))


def many_operations() -> list[FieldOperation]:
    """The operations of CDAP's test: five times one TRANSFORM for each of 100 fields, then one of all into all."""
    names = tuple(f"num{at}" for at in range(100))
    found = [
        FieldOperation(kind=OperationKind.READ, name="read", dataset=Dataset("", "start"), outputs=names),
    ]
    origins = dict.fromkeys(names, "read")
    for turn in range(5):
        for name in names:
            step = f"identity {turn} {name}"
            found.append(
                FieldOperation(
                    kind=OperationKind.TRANSFORM,
                    name=step,
                    inputs=(OperationInput(origin=origins[name], field=name),),
                    outputs=(name,),
                )
            )
            origins[name] = step
        inputs = tuple(OperationInput(origin=origins[name], field=name) for name in names)
        found.append(FieldOperation(kind=OperationKind.TRANSFORM, name=f"all {turn}", inputs=inputs, outputs=names))
        origins = dict.fromkeys(names, f"all {turn}")
    inputs = tuple(OperationInput(origin=origins[name], field=name) for name in names)
    found.append(FieldOperation(kind=OperationKind.WRITE, name="Write", dataset=Dataset("", "dest"), inputs=inputs))
    return found


def test_many_operations_take_less_than_their_time() -> None:
    case = next(case for case in CASES["lineage"] if "generate" in case)
    operations = many_operations()
    assert len(operations) == case["operations_count"]
    start = time.process_time()
    found = lineage_of_operations(operations, Dataset("", "dest"))
    assert time.process_time() - start < case["time_limit_seconds"]
    assert {len(field.edges) for field in found.fields} == {100}
    assert len(found.fields) == 100


SOURCE, TARGET = Dataset("lake", "db.a"), Dataset("lake", "db.b")
READ = FieldOperation(kind=OperationKind.READ, name="read", dataset=SOURCE, outputs=("x", "y"))
MAKE = FieldOperation(
    kind=OperationKind.TRANSFORM,
    name="make",
    description="x and y",
    inputs=(OperationInput(origin="read", field="x"), OperationInput(origin="read", field="y")),
    outputs=("z",),
)
WRITE = FieldOperation(
    kind=OperationKind.WRITE,
    name="write",
    dataset=TARGET,
    inputs=(OperationInput(origin="read", field="x"), OperationInput(origin="make", field="z")),
)


def edges(kind: EdgeKind, *names: str) -> frozenset[FieldEdge]:
    return frozenset(FieldEdge(SourceField(SOURCE, (name,)), kind) for name in names)


def test_a_field_that_passes_is_identity_and_others_are_transformations() -> None:
    found = lineage_of_operations([WRITE, MAKE, READ], TARGET)
    assert [(one.name, one.edges, one.description) for one in found.fields] == [
        ("x", edges(EdgeKind.IDENTITY, "x"), "x"),
        ("z", edges(EdgeKind.TRANSFORMATION, "x", "y"), "x and y"),
    ]
    assert (found.target, found.dataset) == (TARGET, frozenset())


def test_the_operations_of_a_lineage_lead_to_its_edges() -> None:
    """`operations_of` and `lineage_of_operations` agree about which field comes from which."""
    lineage = lineage_of_operations([READ, MAKE, WRITE], TARGET)
    again = lineage_of_operations(operations_of(lineage), TARGET)
    assert {one.name: {edge.source for edge in one.edges} for one in again.fields} == {
        one.name: {edge.source for edge in one.edges} for one in lineage.fields
    }


def changed(one: FieldOperation, **members: Any) -> FieldOperation:  # any member of an operation
    kept = {name: getattr(one, name) for name in ("kind", "name", "description", "dataset", "inputs", "outputs")}
    return FieldOperation(**kept | members)


@pytest.mark.parametrize(
    ("operations", "facts"),
    [
        ([READ, changed(MAKE, dataset=TARGET), WRITE], ("'make'", "db.b", "READ")),
        ([changed(READ, inputs=MAKE.inputs), MAKE, WRITE], ("'read'", "inputs", "TRANSFORM")),
        ([READ, MAKE, changed(WRITE, outputs=("z",))], ("'write'", "'z'", "inputs")),
        ([changed(READ, outputs="xy"), MAKE, WRITE], ("'read'", "'xy'", "('xy',)")),
        ([READ, changed(MAKE, name="mak"), WRITE], ("'make'", "'write'", "did you mean 'mak'")),
        ([READ, changed(MAKE, outputs=("zz",)), WRITE], ("'write'", "'z'", "'make'", "did you mean 'zz'")),
        ([READ, MAKE, changed(WRITE, dataset=SOURCE)], ("db.b", "db.a")),
        ([], ("READ", "0")),
    ],
)
def test_a_mistake_names_the_operation_and_the_way_out(operations: list[FieldOperation], facts: list[str]) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        lineage_of_operations(operations, TARGET)
    assert [fact for fact in facts if fact not in str(caught.value)] == []
