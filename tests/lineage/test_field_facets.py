"""The lineage of fields as facets: valid by OpenLineage's own schemas, and the same when it is read again."""

from __future__ import annotations

import json
from typing import Any  # Any: JSON

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openlineage.client.event_v2 import Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import DatasetFacet
from openlineage.client.serde import Serde

from demo.openlineage.foreign_events import lineage_of_event
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, FieldEdge, SourceField
from lakelog.lineage.columns.field_operations import FieldLineage, OutputField
from lakelog.lineage.openlineage.field_facets import column_lineage_of, lineage_facet_of
from tests.support.lineage.openlineage_schema import errors_of

A, B, TARGET = Dataset("lake", "db.a"), Dataset("lake", "db.b"), Dataset("lake", "db.t")
INDIRECT = [kind for kind in EdgeKind if not kind.is_direct]
NAMES = st.text(min_size=1, max_size=5).filter(str.isprintable)


def edges(kinds: list[EdgeKind]) -> st.SearchStrategy[frozenset[FieldEdge]]:
    sources = st.builds(lambda dataset, name: SourceField(dataset, (name,)), st.sampled_from([A, B]), NAMES)
    return st.frozensets(st.builds(FieldEdge, sources, st.sampled_from(kinds), st.booleans()), max_size=4)


FIELDS = st.builds(lambda name, found: OutputField(name=name, edges=found), NAMES, edges(list(EdgeKind)))
LINEAGES = st.builds(
    lambda fields, dataset: FieldLineage(target=TARGET, fields=tuple(fields), dataset=dataset),
    st.lists(FIELDS, max_size=4, unique_by=lambda one: one.name),
    edges(INDIRECT),
)


def event_with(**facets: DatasetFacet) -> dict[str, Any]:
    """An event as JSON."""
    event = RunEvent(
        eventType=RunState.COMPLETE,
        eventTime="2026-01-31T12:00:00Z",
        producer="urn:test",
        run=Run(runId="7c0a9ad2-3a75-4c3f-9d0b-0f4a4a9f7d11"),
        job=Job(namespace="n", name="j"),
        outputs=[OutputDataset(namespace=TARGET.namespace, name=TARGET.name, facets=facets)],
    )
    found: dict[str, Any] = json.loads(Serde.to_json(event))
    return found


def facet(name: str, found: DatasetFacet) -> dict[str, Any]:
    inner: dict[str, Any] = event_with(**{name: found})["outputs"][0]["facets"][name]
    return inner


@given(lineage=LINEAGES)
def test_the_facets_are_valid(lineage: FieldLineage) -> None:
    facets = {"columnLineage": column_lineage_of(lineage), "lineage": lineage_facet_of(lineage)}
    assert errors_of(event_with(**facets)) == []


@given(lineage=LINEAGES)
def test_column_lineage_that_is_read_again_has_the_same_edges(lineage: FieldLineage) -> None:
    (found,) = lineage_of_event(json.dumps(event_with(columnLineage=column_lineage_of(lineage))))
    assert {one.name: one.edges for one in found.lineage.fields} == {one.name: one.edges for one in lineage.fields}
    assert found.lineage.dataset == lineage.dataset


@given(lineage=LINEAGES)
def test_both_facets_have_the_same_inputs(lineage: FieldLineage) -> None:
    old = facet("columnLineage", column_lineage_of(lineage))
    new = facet("lineage", lineage_facet_of(lineage))
    listed = {name: one["inputFields"] for name, one in old["fields"].items()}
    assert {name: without_type(one["inputs"]) for name, one in new["fields"].items()} == listed
    whole = [one for one in new["inputs"] if "field" not in one]
    assert without_type(new["inputs"][len(whole) :]) == old["dataset"]
    assert [Dataset(one["namespace"], one["name"]) for one in whole] == lineage.sources()


def without_type(inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert {one["type"] for one in inputs} <= {"DATASET"}
    return [{name: value for name, value in one.items() if name != "type"} for one in inputs]


SUM = OutputField(
    name="x",
    edges=frozenset(
        [
            FieldEdge(SourceField(A, ("s", "a")), EdgeKind.AGGREGATION, True),
            FieldEdge(SourceField(A, ("k",)), EdgeKind.CONDITIONAL),
        ]
    ),
    description="sum(hash(s.a), 'token=abc123')",
)
LINEAGE = FieldLineage(target=TARGET, fields=(SUM,))


def test_an_input_has_its_transformations_and_the_sql_without_secrets() -> None:
    found = facet("columnLineage", column_lineage_of(LINEAGE))["fields"]["x"]["inputFields"]
    assert found == [
        {
            "namespace": "lake",
            "name": "db.a",
            "field": "k",
            "transformations": [{"type": "INDIRECT", "subtype": "CONDITIONAL", "masking": False}],
        },
        {
            "namespace": "lake",
            "name": "db.a",
            "field": "s.a",
            "transformations": [
                {
                    "type": "DIRECT",
                    "subtype": "AGGREGATION",
                    "description": "sum(hash(s.a), 'token=***')",
                    "masking": True,
                }
            ],
        },
    ]


@pytest.mark.parametrize(("name", "make"), [("columnLineage", column_lineage_of), ("lineage", lineage_facet_of)])
def test_datasets_have_the_names_that_they_are_given(name: str, make: Any) -> None:  # two types of facets
    found = json.dumps(facet(name, make(LINEAGE, lambda dataset: Dataset("file", f"/lake/{dataset.name}"))))
    assert '"/lake/db.a"' in found
    assert '"db.a"' not in found


def test_fields_of_one_name_are_one() -> None:
    twice = FieldLineage(
        fields=(
            SUM,
            OutputField(
                name="x", edges=frozenset([FieldEdge(SourceField(B, ("b",)), EdgeKind.IDENTITY)]), description="b"
            ),
        )
    )
    inputs = facet("columnLineage", column_lineage_of(twice))["fields"]["x"]["inputFields"]
    assert [one["field"] for one in inputs] == ["k", "s.a", "b"]


def test_a_facet_that_breaks_its_schema_is_noticed() -> None:
    event = event_with(lineage=lineage_facet_of(LINEAGE), columnLineage=column_lineage_of(LINEAGE))
    del event["outputs"][0]["facets"]["lineage"]["fields"]["x"]["inputs"][0]["type"]
    del event["outputs"][0]["facets"]["columnLineage"]["fields"]["x"]["inputFields"][0]["field"]
    assert len(errors_of(event)) == 2
