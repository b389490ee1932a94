"""OpenLineage events of other producers: what they tell of fields, and what hostile ones do.

The events have the shapes of the fixtures of OpenLineage/OpenLineage at commit 8f02abfb: the agents for Spark and Hive,
the integration for dbt, and version 1-0-1 of the facet.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any  # Any: JSON

import pytest

from demo.openlineage.foreign_events import NAME_MAX, ForeignLineage, lineage_of_event, read_events
from lakelog.common.errors import InvalidRequestError
from lakelog.common.json_fields import JSON_BYTES_MAX
from lakelog.lineage.columns.field_edges import Dataset, EdgeKind, FieldEdge, SourceField

HIVE = "hive://localhost:9083"
SOURCE = Dataset(HIVE, "test.t1")
RUN = "7c0a9ad2-3a75-4c3f-9d0b-0f4a4a9f7d11"


def transformation(kind: str, subtype: str | None = None, **more: object) -> dict[str, object]:
    return {"type": kind, **({} if subtype is None else {"subtype": subtype}), **more}


def input_field(field: str, *transformations: dict[str, object]) -> dict[str, object]:
    found: dict[str, object] = {"namespace": HIVE, "name": "test.t1", "field": field}
    return found | ({"transformations": list(transformations)} if transformations else {})


def event(facet: object, **more: object) -> dict[str, Any]:
    """An event of Hive's hook, with the facet of its output."""
    return {
        "eventTime": "2026-01-31T12:00:00.250Z",
        "eventType": "COMPLETE",
        "producer": "https://github.com/OpenLineage/OpenLineage/tree/1.54.0/integration/hive",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {"runId": RUN, "facets": {"processing_engine": {"version": "3.1.3", "name": "hive"}}},
        "job": {"namespace": "default", "name": "createtable_as_select.test.xxx", "facets": {}},
        "inputs": [{"namespace": HIVE, "name": "test.t1"}],
        "outputs": [{"namespace": HIVE, "name": "test.xxx", "facets": {"columnLineage": facet}}],
    } | more


def facet(*inputs: dict[str, object], dataset: object = (), **more: object) -> dict[str, object]:
    """The facet of an output of one field, `x`."""
    return {"fields": {"x": {"inputFields": list(inputs), **more}}, "dataset": list(dataset)}  # type: ignore[call-overload]  # an iterable


def lineage_of(found: object) -> ForeignLineage:
    (lineage,) = lineage_of_event(json.dumps(event(found)))
    return lineage


def kinds_of(found: object) -> set[tuple[str, EdgeKind, bool]]:
    """The inputs of the first field: their names, kinds and masking."""
    edges = lineage_of(found).lineage.fields[0].edges
    return {(edge.source.name, edge.kind, edge.is_masked) for edge in edges}


def test_an_event_tells_its_job_run_time_and_output() -> None:
    found = lineage_of(facet(input_field("a")))
    assert (found.job_namespace, found.job) == ("default", "createtable_as_select.test.xxx")
    assert (found.run_id, found.event_type) == (RUN, "COMPLETE")
    assert found.time_millis == 1_769_860_800_250
    assert found.output == found.lineage.target == Dataset(HIVE, "test.xxx")
    assert [one.name for one in found.lineage.fields] == ["x"]


def test_an_event_of_a_job_has_no_run() -> None:
    (found,) = lineage_of_event(json.dumps(event(facet(input_field("a")), run=None)))
    assert (found.run_id, found.event_type) == (None, None)


@pytest.mark.parametrize("kind", EdgeKind)
def test_each_kind_is_read(kind: EdgeKind) -> None:
    step = transformation(*kind.value, description="", masking=kind is EdgeKind.AGGREGATION)
    assert kinds_of(facet(input_field("a", step))) == {("a", kind, kind is EdgeKind.AGGREGATION)}


def test_an_input_may_have_several_transformations() -> None:
    steps = transformation("DIRECT", "IDENTITY"), transformation("INDIRECT", "CONDITIONAL", masking=True)
    expected = {("a", EdgeKind.IDENTITY, False), ("a", EdgeKind.CONDITIONAL, True)}
    assert kinds_of(facet(input_field("a", *steps))) == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("DIRECT", EdgeKind.TRANSFORMATION), ("INDIRECT", EdgeKind.CONDITIONAL)]
)
@pytest.mark.parametrize("subtype", [None, "", "OF_SOMEBODY"])
def test_a_subtype_of_a_producer_is_the_plainest_of_its_type(
    kind: str, expected: EdgeKind, subtype: str | None
) -> None:
    assert kinds_of(facet(input_field("a", transformation(kind, subtype)))) == {("a", expected, False)}


def test_inputs_of_dbt_have_no_transformations() -> None:
    assert kinds_of({"fields": {"x": {"inputFields": [input_field("a")]}}}) == {("a", EdgeKind.TRANSFORMATION, False)}


@pytest.mark.parametrize(
    ("old", "expected"), [("IDENTITY", (EdgeKind.IDENTITY, False)), ("MASKED", (EdgeKind.TRANSFORMATION, True))]
)
def test_the_kinds_of_version_1_0_1_are_read(old: str, expected: tuple[EdgeKind, bool]) -> None:
    found = facet(input_field("a"), transformationType=old, transformationDescription="SELECT a")
    assert kinds_of(found) == {("a", *expected)}
    assert lineage_of(found).lineage.fields[0].description == "SELECT a"


def test_the_edges_of_the_dataset_are_read() -> None:
    steps = transformation("INDIRECT", "GROUP_BY"), transformation("INDIRECT", "SORT")
    found = lineage_of(facet(dataset=[input_field("a", *steps), input_field("b")])).lineage.dataset
    source = SourceField(SOURCE, ("a",))
    assert found == {
        FieldEdge(source, EdgeKind.GROUP_BY),
        FieldEdge(source, EdgeKind.SORT),
        FieldEdge(SourceField(SOURCE, ("b",)), EdgeKind.FILTER),
    }


def test_each_output_with_the_facet_is_told() -> None:
    told = event(facet(input_field("a")))
    first = told["outputs"][0]
    told["outputs"] = [first, {**first, "name": "test.yyy"}, {"namespace": HIVE, "name": "bare", "facets": {}}]
    assert [one.output.name for one in lineage_of_event(json.dumps(told))] == ["test.xxx", "test.yyy"]


@pytest.mark.parametrize("outputs", [None, [], [{"namespace": HIVE, "name": "t"}]])
def test_an_event_without_the_facet_tells_nothing(outputs: object) -> None:
    assert lineage_of_event(json.dumps(event(None, outputs=outputs))) == []


def test_names_are_kept_as_they_are() -> None:
    name = "a.b\x1b[31m\u202e`'\"<script>"
    found = lineage_of({"fields": {name: {"inputFields": [input_field(name)]}}}).lineage.fields[0]
    assert found.name == name
    assert {edge.source.path for edge in found.edges} == {(name,)}


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    found = copy.deepcopy(event(facet(input_field("a", transformation("DIRECT", "IDENTITY")))))
    change(found)
    return json.dumps(found)


def facet_of(found: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = found["outputs"][0]["facets"]["columnLineage"]
    return inner


def input_of(found: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = facet_of(found)["fields"]["x"]["inputFields"][0]
    return inner


BROKEN: dict[str, tuple[str, list[str]]] = {
    "no JSON": ("{", ["Expecting"]),
    "no object": ("[1]", ["object", "a list of 1 item"]),
    "no Unicode": ('{"a": "\\ud800"}', ["surrogates"]),
    "deep": ("[" * 300 + "]" * 300, ["nested"]),
    "another object": ('{"a": 1}', ["'eventTime'", "missing"]),
    "no time": (changed(lambda found: found.update(eventTime="yesterday")), ["eventTime", "'yesterday'"]),
    "a time without a zone": (changed(lambda found: found.update(eventTime="2026-01-31T12:00:00")), ["zone"]),
    "no job": (changed(lambda found: found.pop("job")), ["'job'", "missing"]),
    "a job of another type": (changed(lambda found: found.update(job=[])), ["job must be an object"]),
    "outputs of another type": (changed(lambda found: found.update(outputs={})), ["outputs must be a list"]),
    "an output that is none": (changed(lambda found: found.update(outputs=[1])), ["outputs must hold objects"]),
    "a facet of another type": (
        changed(lambda found: found["outputs"][0]["facets"].update(columnLineage=1)),
        ["columnLineage must be an object", "1"],
    ),
    "no fields": (changed(lambda found: facet_of(found).pop("fields")), ["'fields'", "missing"]),
    "a field of another type": (changed(lambda found: facet_of(found)["fields"].update(x=1)), ["x must be an object"]),
    "an input without a field": (changed(lambda found: input_of(found).pop("field")), ["'field'", "missing"]),
    "a name that is a number": (changed(lambda found: input_of(found).update(name=5)), ["name must be a string", "5"]),
    "a long name": (changed(lambda found: input_of(found).update(field="x" * 9_000)), ["9000", str(NAME_MAX)]),
    "a long output": (
        changed(lambda found: facet_of(found)["fields"].update({"y" * 9_000: {"inputFields": []}})),
        ["9000"],
    ),
    "another type": (
        changed(lambda found: input_of(found)["transformations"][0].update(type="ODD")),
        ["'ODD'", "DIRECT or INDIRECT"],
    ),
    "masking of another type": (
        changed(lambda found: input_of(found)["transformations"][0].update(masking="yes")),
        ["masking", "'yes'"],
    ),
    "a value for all fields": (
        changed(lambda found: facet_of(found).update(dataset=[input_field("a", transformation("DIRECT"))])),
        ["DIRECT", "'a'", "INDIRECT"],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_event_is_an_error_with_the_file_the_line_and_what_was_found(name: str, tmp_path: Path) -> None:
    text, facts = BROKEN[name]
    path = tmp_path / "events.ndjson"
    path.write_text("\n" + text + "\n", "utf-8")
    with pytest.raises(InvalidRequestError) as caught:
        list(read_events(path))
    assert [fact for fact in ("events.ndjson', line 2", *facts) if fact not in str(caught.value)] == []


def test_the_lines_around_a_broken_one_are_read(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    good = json.dumps(event(facet(input_field("a"))))
    path.write_text("\n".join((good, "{", "", good, '{"b": 1}')), "utf-8")
    errors: list[InvalidRequestError] = []
    assert len(list(read_events(path, errors.append))) == 2
    assert [f"line {number}:" in str(error) for number, error in zip((2, 5), errors, strict=True)] == [True, True]


def test_a_line_that_is_too_long_is_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "events.ndjson"
    with path.open("wb") as file:
        file.write(b'"' + b"x" * (3 * JSON_BYTES_MAX) + b'"\n')
        file.write(json.dumps(event(facet(input_field("a")))).encode() + b"\n")
    errors: list[InvalidRequestError] = []
    assert len(list(read_events(path, errors.append))) == 1
    assert [str(JSON_BYTES_MAX) in str(error) and "line 1" in str(error) for error in errors] == [True]


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"nothing'.*name a file"):
        list(read_events(tmp_path / "nothing"))
