"""The answers of /v3 against those that were written down from CDAP before the code: `fields/truth/cdap.json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any  # Any: JSON

import pytest

from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_operations import FieldOperation, OperationInput, OperationKind
from lakelog.lineage.page.time_expressions import seconds_of
from lakelog.lineage.server.cdap_answers import (
    Executed,
    NamedColumn,
    Program,
    dataset_summary,
    field_list,
    operations_answer,
    summary_of,
)
from lakelog.lineage.server.cdap_levels import Access, relations_around
from tests.support.lineage.known_world import KnownWorld, Source
from tests.support.lineage.page_client import NOW, client_of

TRUTH: Mapping[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent.parent / "fields" / "truth" / "cdap.json").read_text("utf-8")
)


def name_of(case: Mapping[str, Any]) -> str:
    return str(case.get("name") or case.get("time") or case.get("query") or "empty")


def cases(part: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", TRUTH[part], ids=map(name_of, TRUTH[part]))


def sorted_json(found: object) -> object:
    """Lists as sets: sorted by their text."""
    match found:
        case dict():
            return {key: sorted_json(one) for key, one in found.items()}
        case list():
            return sorted((sorted_json(one) for one in found), key=lambda one: json.dumps(one, sort_keys=True))
    return found


def column_of(text: str) -> NamedColumn:
    namespace, _, rest = text.partition("/")
    dataset, _, field = rest.rpartition(".")
    return NamedColumn(Dataset(namespace, dataset), field)


def operation_of(found: Mapping[str, Any]) -> FieldOperation:
    end = found.get("source") or found.get("destination")
    return FieldOperation(
        kind=OperationKind(found["type"]),
        name=found["name"],
        description=found["description"],
        dataset=None if end is None else Dataset(end["namespace"], end["name"]),
        inputs=tuple(OperationInput(origin=one["origin"], field=one["name"]) for one in found.get("inputs", ())),
        outputs=tuple(found.get("outputs", ())),
    )


@cases("fields")
def test_the_list_of_fields(case: Mapping[str, Any]) -> None:
    found = field_list(
        case["lineage"], case.get("schema", ()), prefix=case["prefix"], include_current=case["includeCurrent"]
    )
    assert sorted_json(found) == sorted_json(case["answer"])


@cases("summary")
def test_the_summary_of_a_field(case: Mapping[str, Any]) -> None:
    columns = [column_of(one) for one in case["fields"]]
    found = summary_of(case["direction"], {"incoming": columns, "outgoing": columns})
    assert sorted_json(found) == sorted_json(case["answer"])


@cases("datasets")
def test_the_summary_of_a_dataset(case: Mapping[str, Any]) -> None:
    relations: dict[str, list[tuple[Dataset, str, str]]] = {"incoming": [], "outgoing": []}
    for side, found_pairs in relations.items():
        for one in case[side]:
            for namespace, name, field in one["fields"]:
                own = one["field"][2]
                pair = (field, own) if side == "incoming" else (own, field)
                found_pairs.append((Dataset(namespace, name), *pair))
    fields = sorted({one["field"][2] for one in case["incoming"]})
    times = case["answer"]["start-ts"], case["answer"]["end-ts"]

    found = dataset_summary(
        Dataset(case["dataset"]["namespace"], case["dataset"]["name"]), case["direction"], times, fields, relations
    )

    assert sorted_json(found) == sorted_json(case["answer"])


@cases("operations")
def test_the_operations_of_runs(case: Mapping[str, Any]) -> None:
    groups = [
        (
            [operation_of(one) for one in group["operations"]],
            [Executed(Program("ns", name), seconds) for name, seconds in group["runs"]],
        )
        for group in case["runs"]
    ]

    found = operations_answer(groups)

    shown = [
        {
            "programs": [[one["program"]["program"], one["lastExecutedTimeInSeconds"]] for one in entry["programs"]],
            "operations": entry["operations"],
        }
        for entry in found
    ]
    assert sorted(shown, key=str) == sorted(case["answer"], key=str)


@cases("levels")
def test_the_levels_around_a_dataset(case: Mapping[str, Any]) -> None:
    accesses = [Access(Program("ns", one), Dataset("ns", data), kind, "run") for one, data, kind in case["access"]]
    for question in case["questions"]:
        found = relations_around(accesses, Dataset("ns", question["dataset"]), question["levels"])
        expected = case["access"] if question["relations"] == "all" else question["relations"]
        assert sorted([one.program.name, one.dataset.name, one.kind] for one in found) == sorted(expected)


@cases("times")
def test_a_time(case: Mapping[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(ValueError, match=f"^{re.escape(case['error'])}$"):
            seconds_of(case["time"], case["now"])
    else:
        assert seconds_of(case["time"], case["now"]) == case["seconds"]


def encoded(query: str) -> str:
    return query.replace(" ", "%20").replace("+", "%2B")


@cases("answers")
def test_the_status_and_the_text_of_a_request(case: Mapping[str, Any]) -> None:
    client = client_of(KnownWorld().table("ns1.test", "a"))

    answer = client.get(f"{case['path']}?{encoded(case['query'])}")

    assert answer.status_code == case["status"]
    if isinstance(case["body"], str):
        millis = (NOW - 1_000_000_000 * 86_400) * 1_000
        assert answer.text == case["body"].replace("{milliseconds}", str(millis))
    else:
        assert answer.json() == case["body"]


@pytest.mark.parametrize(
    ("case", "asked"),
    [(case, asked) for case in TRUTH["hr"] for asked in case["answers"]],
    ids=[asked["path"] for case in TRUTH["hr"] for asked in case["answers"]],
)
def test_the_example_of_the_design(case: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    world = KnownWorld()
    sources: dict[str, list[Source]] = {}
    for one in case["incoming"]:
        sources[one["field"][2]] = [".".join(source) for source in one["fields"]]
    [sink] = {".".join(one["field"][:2]) for one in case["incoming"]}
    world.write(sink, sources, job="hr", declared=[operation_of(one) for one in case["operations"]])

    answer = client_of(world).get(f"{asked['path']}?{asked['query']}")

    assert answer.status_code == asked["status"]
    body = answer.json()
    if asked["path"].endswith("/operations"):
        [entry], [expected] = body["incoming"], asked["body"]["incoming"]
        assert [one["program"]["program"] for one in entry["programs"]] == ["hr"]  # "the job"
        assert entry["operations"] == expected["operations"]
    else:
        assert sorted_json(body) == sorted_json(asked["body"])


@cases("hops")
def test_the_hops_from_an_end_point(case: Mapping[str, Any]) -> None:
    world = KnownWorld()
    made: dict[str, dict[str, list[Source]]] = {}
    for source, target in case["edges"]:
        column = column_of(target)
        fields = made.setdefault(".".join(column.dataset), {})
        fields.setdefault(column.field, []).append(source.replace("/", ".", 1))
    for sink, fields in made.items():
        world.write(sink, fields)
    client = client_of(world)

    for question in case["questions"]:
        body = client.get(f"{question['path']}?{question['query']}").json()
        if "body" in question:
            assert sorted_json(body) == sorted_json(question["body"])
        else:
            pairs = [
                [
                    one["source"]["name"],
                    one["destination"]["name"],
                    [[each["from"], each["to"]] for each in one["fieldmap"]],
                ]
                for one in body
            ]
            assert sorted_json(pairs) == sorted_json(question["pairs"])
