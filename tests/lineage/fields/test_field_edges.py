"""The rules for kinds along a path, and what identifies a lineage."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from lakelog.lineage.fields.field_edges import Dataset, EdgeKind, Edges, FieldEdge, SourceField, along
from lakelog.lineage.fields.field_lineage import FieldLineage, OutputField
from lakelog.lineage.fields.field_operations import OperationKind, operations_of

TABLE, OTHER = Dataset("lake", "db.t"), Dataset("lake", "db.s")
KINDS = st.sampled_from(EdgeKind)


def edge(column: str, kind: EdgeKind = EdgeKind.IDENTITY, *, dataset: Dataset = TABLE) -> FieldEdge:
    return FieldEdge(SourceField(dataset, (column,)), kind)


def kind_of_path(steps: list[EdgeKind], *, masked_at: int | None = None) -> FieldEdge:
    """The edge after these steps, the nearest to the input first."""
    edges: Edges = frozenset([edge("a")])
    for at, step in enumerate(steps):
        edges = along(edges, step, is_masking=at == masked_at)
    return next(iter(edges))


@given(steps=st.lists(KINDS, max_size=6))
def test_the_indirect_step_nearest_to_the_output_decides(steps: list[EdgeKind]) -> None:
    found = kind_of_path(steps).kind
    indirect = [step for step in steps if not step.is_direct]
    if indirect:
        assert found is indirect[-1]
    else:
        order = [EdgeKind.IDENTITY, EdgeKind.TRANSFORMATION, EdgeKind.AGGREGATION]
        assert found is max((EdgeKind.IDENTITY, *steps), key=order.index)


@given(steps=st.lists(KINDS, min_size=1, max_size=6), at=st.integers(0, 5))
def test_an_edge_that_is_masked_once_stays_masked(steps: list[EdgeKind], at: int) -> None:
    assert kind_of_path(steps, masked_at=at % len(steps)).is_masked
    assert not kind_of_path(steps).is_masked


FIELDS = (
    OutputField(name="x", edges=frozenset([edge("a"), edge("b", EdgeKind.CONDITIONAL)]), description="a"),
    OutputField(name="y", edges=frozenset([edge("c", dataset=OTHER)]), description="c"),
    OutputField(name="z", description="1"),
)
LINEAGE = FieldLineage(target=Dataset("lake", "db.w"), fields=FIELDS, dataset=frozenset([edge("f", EdgeKind.FILTER)]))


def test_the_checksum_does_not_depend_on_the_order_of_fields() -> None:
    assert {replace(LINEAGE, fields=order).checksum for order in permutations(FIELDS)} == {LINEAGE.checksum}


def test_the_checksum_depends_on_each_part() -> None:
    changed = [
        replace(LINEAGE, target=OTHER),
        replace(LINEAGE, dataset=frozenset()),
        replace(LINEAGE, fields=FIELDS[1:]),
        replace(LINEAGE, fields=(replace(FIELDS[0], name="v"), *FIELDS[1:])),
        replace(LINEAGE, fields=(replace(FIELDS[0], edges=frozenset([edge("a")])), *FIELDS[1:])),
        replace(LINEAGE, fields=(replace(FIELDS[0], description="b"), *FIELDS[1:])),
        replace(LINEAGE, fields=(replace(FIELDS[0], is_opaque=True), *FIELDS[1:])),
    ]
    assert len({LINEAGE.checksum, *(one.checksum for one in changed)}) == len(changed) + 1


def test_each_operation_comes_after_those_that_its_inputs_name() -> None:
    operations = operations_of(LINEAGE)
    names = [operation.name for operation in operations]
    assert len(set(names)) == len(names)
    for at, operation in enumerate(operations):
        assert {given.origin for given in operation.inputs} <= set(names[:at])


def test_no_two_fields_share_a_transformation() -> None:
    operations = operations_of(LINEAGE)
    transforms = [operation for operation in operations if operation.kind is OperationKind.TRANSFORM]
    assert [operation.outputs for operation in transforms] == [("x",), ("y",), ("z",)]
    outputs = {operation.name: operation.outputs for operation in operations}
    for operation in operations:
        assert all(given.field in outputs[given.origin] for given in operation.inputs)


def test_columns_of_one_name_have_transformations_of_their_own() -> None:
    names = [operation.name for operation in operations_of(replace(LINEAGE, fields=(*FIELDS, *FIELDS)))]
    assert len(set(names)) == len(names)
