"""The walk over plans as JSON that no Spark has written."""

from __future__ import annotations

from typing import Any  # Any: JSON

import pytest

from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind
from lakelog.lineage.columns.field_operations import FieldLineage
from lakelog.lineage.columns.plans.plan_fields import PlanFields, fields_of_plan

Node = dict[str, Any]
TABLE = Dataset("lake", "db.t")
DEEP = 5_000


def node(kind: str, children: int = 1, /, **members: Any) -> Node:
    return {"class": f"org.apache.spark.sql.catalyst.{kind}", "num-children": children, **members}


def attribute(number: int, name: str) -> list[Node]:
    return [node("AttributeReference", 0, name=name, dataType="integer", exprId={"id": number})]


def alias(number: int, name: str, child: list[Node]) -> list[Node]:
    return [node("Alias", 1, name=name, exprId={"id": number}), *child]


def plus(left: list[Node], right: list[Node]) -> list[Node]:
    return [node("Add", 2), *left, *right]


def relation(*columns: tuple[int, str]) -> list[Node]:
    return [node("LogicalRelation", 0, output=[attribute(number, name) for number, name in columns])]


def project(expressions: list[list[Node]], child: list[Node]) -> list[Node]:
    return [node("Project", 1, projectList=expressions), *child]


def found(tree: list[Node]) -> PlanFields:
    return fields_of_plan(tree, {1: TABLE})


def edges(lineage: FieldLineage) -> set[tuple[str, str, EdgeKind]]:
    return {(edge.source.name, one.name, edge.kind) for one in lineage.fields for edge in one.edges}


AB = relation((1, "a"), (2, "b"))


def test_an_operator_that_is_not_known_costs_its_columns_alone() -> None:
    made = [node("Mystery", 1, output=[attribute(7, "x"), attribute(8, "y")]), *AB]
    joined = [node("Join", 2, joinType={"object": "Cross$"}), *made, *relation((1, "a"), (2, "b"))]
    result = found(project([attribute(7, "x"), attribute(1, "a")], joined))
    assert result.opaque_operators == {"Mystery"}
    assert [one.is_opaque for one in result.lineage.fields] == [True, False]
    assert edges(result.lineage) == {
        ("a", "x", EdgeKind.TRANSFORMATION),
        ("b", "x", EdgeKind.TRANSFORMATION),
        ("a", "a", EdgeKind.IDENTITY),
    }


def test_an_operator_whose_columns_are_not_declared_is_opaque_above() -> None:
    """A column that no operator has is one of those that the unknown operator has made."""
    result = found(project([alias(9, "x", attribute(7, "new"))], [node("Mystery", 1), *AB]))
    assert [one.is_opaque for one in result.lineage.fields] == [True]
    assert {start for start, _, _ in edges(result.lineage)} == {"a", "b"}


def test_an_operator_in_another_form_is_opaque_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    result = found([node("Project", 1, projectList=[[{"num-children": 0}]]), *AB])
    assert result.opaque_operators == {"Project"}
    assert all(one.is_opaque for one in result.lineage.fields)
    assert "the lineage of fields through Project is not known" in caplog.text


def test_a_leaf_that_is_not_known_is_opaque() -> None:
    result = fields_of_plan(AB, {})
    assert [(one.is_opaque, one.edges) for one in result.lineage.fields] == [(True, frozenset())] * 2


def test_a_union_does_not_mix_the_columns_of_its_sides() -> None:
    """It has the ids of its first side, which may be used on another path."""
    left, right = relation((1, "a"), (2, "b")), relation((1, "a"), (2, "b"))
    united = [node("Union", 2), *project([attribute(1, "a")], left), *project([attribute(2, "b")], right)]
    joined = [node("Join", 2, joinType={"object": "Cross$"}), *united, *relation((1, "a"), (2, "b"))]
    assert edges(found(united).lineage) == {("a", "a", EdgeKind.IDENTITY), ("b", "a", EdgeKind.IDENTITY)}
    assert edges(found(project([attribute(2, "b")], joined)).lineage) == {("b", "b", EdgeKind.IDENTITY)}


def test_a_plan_may_be_deep() -> None:
    tree = AB
    for at in range(DEEP):
        tree = project([alias(100 + at, "a", attribute(1 if at == 0 else 99 + at, "a"))], tree)
    assert edges(found(tree).lineage) == {("a", "a", EdgeKind.IDENTITY)}


def test_an_expression_may_be_deep() -> None:
    value = attribute(1, "a")
    for _ in range(DEEP):
        value = plus(value, attribute(2, "b"))
    lineage = found(project([alias(9, "x", value)], AB)).lineage
    assert edges(lineage) == {("a", "x", EdgeKind.TRANSFORMATION), ("b", "x", EdgeKind.TRANSFORMATION)}
    assert len(lineage.fields[0].description) < 3_000


def test_the_same_plan_with_other_ids_has_the_same_checksum() -> None:
    def plan(offset: int) -> list[Node]:
        value = alias(offset + 3, "x", plus(attribute(offset + 1, "a"), attribute(offset + 2, "b")))
        return project([value], relation((offset + 1, "a"), (offset + 2, "b")))

    found = [fields_of_plan(plan(offset), {offset + 1: TABLE}).lineage for offset in (0, 1_000)]
    sums = {FieldDocument(lineage=one).checksum for one in found}
    assert len(sums) == 1


def test_the_description_has_the_definitions_of_the_names() -> None:
    inner = project([alias(5, "s", plus(attribute(1, "a"), attribute(2, "b")))], AB)
    lineage = found(project([alias(6, "x", plus(attribute(5, "s"), attribute(5, "s")))], inner)).lineage
    assert lineage.fields[0].description == "((a + b) + (a + b))"


def test_a_name_in_a_sub_query_is_that_of_the_nearest_query_that_has_it() -> None:
    """A sub-query in a sub-query, which names a column of the outermost query."""

    def outer(number: int, name: str) -> list[Node]:
        return [node("OuterReference", 0, e=attribute(number, name))]

    innermost = project([alias(31, "x", outer(1, "a"))], relation((21, "k")))
    inner = project([alias(32, "y", [node("ScalarSubquery", 0, plan=innermost)])], relation((11, "j")))
    tree = project([alias(33, "z", [node("ScalarSubquery", 0, plan=inner)])], AB)
    lineage = fields_of_plan(tree, {1: TABLE, 11: Dataset("lake", "db.j"), 21: Dataset("lake", "db.k")}).lineage
    assert edges(lineage) == {("a", "z", EdgeKind.IDENTITY)}
    assert [one.is_opaque for one in lineage.fields] == [False]


def test_a_merge_that_spark_runs_has_the_values_of_its_instructions() -> None:
    """MERGE ... WHEN MATCHED AND c > a THEN UPDATE SET b = c, in the form in which Spark rewrites it."""

    def keep(condition: list[Node], *output: list[Node]) -> list[Node]:
        children = [condition, *output]
        at = list(range(1, len(children)))
        return [node("Keep", len(children), condition=0, output=at), *(one for child in children for one in child)]

    always = [node("Literal", 0, value="true", dataType="boolean")]
    operation = [node("Literal", 0, value="2", dataType="integer")]
    chosen = [node("GreaterThan", 2), *attribute(3, "c"), *attribute(1, "a")]
    joined = [
        node("Join", 2, joinType={"object": "LeftOuter$"}, condition=attribute(1, "a")),
        *AB,
        *relation((3, "c")),
    ]
    rows = [
        node(
            "MergeRows",
            1,
            matchedInstructions=[
                keep(chosen, operation, attribute(1, "a"), attribute(3, "c")),
                keep(always, operation, attribute(1, "a"), attribute(2, "b")),
            ],
            notMatchedInstructions=[],
            output=[attribute(40, "__row_operation"), attribute(41, "a"), attribute(42, "b")],
        ),
        *joined,
    ]
    tree = [node("ReplaceData", 1, table=AB, query=0), *rows]
    result = fields_of_plan(tree, {1: TABLE, 3: Dataset("lake", "db.s")})
    assert result.opaque_operators == frozenset()
    assert edges(result.lineage) == {("c", "b", EdgeKind.IDENTITY)}
    indirect = {(edge.source.name, edge.kind) for edge in result.lineage.dataset}
    assert indirect == {("a", EdgeKind.JOIN), ("a", EdgeKind.FILTER), ("c", EdgeKind.FILTER)}
