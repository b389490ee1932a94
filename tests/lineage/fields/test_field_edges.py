"""The rules for kinds along a path, and what identifies a lineage."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import CorruptDataError
from lakelog.lineage.columns.field_documents import FieldDocument, SourceTable, TableColumn
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, Edges, FieldEdge, SourceField, along
from lakelog.lineage.columns.field_operations import FieldLineage, OperationKind, OutputField, operations_of

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
    orders = [replace(LINEAGE, fields=order) for order in permutations(FIELDS)]
    assert {FieldDocument(lineage=order).checksum for order in orders} == {FieldDocument(lineage=LINEAGE).checksum}


def test_the_checksum_depends_on_each_part() -> None:
    changed = [
        replace(LINEAGE, dataset=frozenset()),
        replace(LINEAGE, fields=FIELDS[1:]),
        replace(LINEAGE, fields=(replace(FIELDS[0], name="v"), *FIELDS[1:])),
        replace(LINEAGE, fields=(replace(FIELDS[0], edges=frozenset([edge("a")])), *FIELDS[1:])),
        replace(LINEAGE, fields=(replace(FIELDS[0], description="b"), *FIELDS[1:])),
        replace(LINEAGE, fields=(replace(FIELDS[0], is_opaque=True), *FIELDS[1:])),
    ]
    documents = [FieldDocument(lineage=one) for one in (LINEAGE, *changed)]
    column = SourceTable(dataset=TABLE, uuid="u", columns=(TableColumn("a", 0, "INT"),))
    documents += [
        FieldDocument(lineage=LINEAGE, ids={FIELDS[0].name: 1}),
        FieldDocument(lineage=LINEAGE, sources=(column,)),
        FieldDocument(lineage=LINEAGE, declared=tuple(operations_of(LINEAGE))),
        FieldDocument(lineage=LINEAGE, is_approximate=True),
        FieldDocument(lineage=LINEAGE, reads=(OTHER,)),
    ]
    assert len({one.checksum for one in documents}) == len(documents)


def test_a_document_is_read_as_it_was_written() -> None:
    column = SourceTable(dataset=TABLE, uuid="u", columns=(TableColumn("a", 0, "INT"),))
    document = FieldDocument(
        lineage=replace(LINEAGE, target=None),
        ids={"x": 3},
        sources=(column,),
        reads=(OTHER,),
        declared=tuple(operations_of(LINEAGE)),
    )
    for one in (document, replace(document, is_approximate=True), replace(document, declared=None)):
        read = FieldDocument.from_json(one.to_json(), path="a file")
        assert read == one
        assert read.checksum == one.checksum


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "version 2"),
        ({"inputs": [["lake", "db.t"]]}, "names no field"),
        ({"sets": [[[-1, "IDENTITY"]]]}, "place of an input"),
        ({"sets": [[[9, "IDENTITY"]]]}, "index"),
        ({"sets": [[[0, "MAGIC"]]]}, "MAGIC"),
        ({"sets": 3}, "sets"),
        ({"fields": [{"field": "x", "from": 99}]}, "index"),
        ({"fields": [{"from": 0}]}, "field"),
        ({"dataset": "a"}, "dataset"),
        (
            {
                "sources": [
                    {"namespace": "a", "dataset": "b", "uuid": "c", "columns": [{"name": "a", "id": -1, "type": "INT"}]}
                ]
            },
            "id",
        ),
        ({"operations": [{"kind": "GUESS", "name": "a", "inputs": [], "outputs": []}]}, "GUESS"),
        ({"operations": [{"kind": "READ", "name": "a", "inputs": [["a"]], "outputs": []}]}, "expected 2"),
    ],
)
def test_a_text_that_is_no_document_is_refused(change: dict[str, object], said: str) -> None:
    text = json.dumps(json.loads(FieldDocument(lineage=LINEAGE).to_json()) | change)
    with pytest.raises(CorruptDataError, match=f"file-x is no lineage of fields.*{said}"):
        FieldDocument.from_json(text, path="file-x")


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
