"""/api: the answers of the page, over the datasets of the demo."""

from __future__ import annotations

import csv
import io
import json
from typing import Any  # Any: JSON

import pytest
from starlette.testclient import TestClient

from tests.support.lineage.demo_page import HOSTILE, WIDE, DemoHistories, demo_world, large_world
from tests.support.lineage.known_world import START, KnownWorld
from tests.support.lineage.page_client import client_of


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of(demo_world(), histories=DemoHistories())


def get(client: TestClient, path: str, status: int = 200, /, **values: object) -> Any:  # Any: JSON
    answer = client.get(path, params={key: str(one) for key, one in values.items()})
    assert answer.status_code == status, answer.text
    return answer.json()


def test_a_search_finds_datasets_and_fields_with_any_name(client: TestClient) -> None:
    for name in HOSTILE:
        found = get(client, "/api/search", q=name[:100].upper())
        assert name in {one["field"] for one in found["results"]}
    page = get(client, "/api/search", q="", limit=2, offset=1)
    assert (page["total"], [one["dataset"] for one in page["results"]]) == (10, ["customers", "revenue"])


def test_a_graph_has_the_form_that_the_page_reads(client: TestClient) -> None:
    found = get(client, "/api/graph", ns="db", dataset="scores", field="score", direction="up", depth=1)

    assert found["root"] == {"ns": "db", "dataset": "scores", "field": "score"}
    assert found["datasets"] == [
        {
            "id": 0,
            "ns": "db",
            "dataset": "scores",
            "foreign": False,
            "hop": 0,
            "fieldCount": 1,
            "shown": 1,
            "fields": [{"name": "score", "type": "STRING", "state": "dropped", "generated": False}],
            "moreUp": False,
            "moreDown": True,
        },
        {
            "id": 1,
            "ns": "db",
            "dataset": "revenue",
            "foreign": False,
            "hop": -1,
            "fieldCount": 4,
            "shown": 3,
            "fields": [
                {"name": name, "type": "STRING", "state": "present", "generated": False}
                for name in ("country", "total", "rank")
            ],
            "moreUp": True,
            "moreDown": False,
        },
    ]
    edge = {"kinds": ["IDENTITY"], "masked": False, "direct": True, "approximate": True, "opaque": True}
    assert found["edges"] == [
        {"source": [1, name], "target": [0, "score"], **edge} for name in ("country", "total", "rank")
    ]
    assert (found["datasetEdges"], found["total"], found["limit"], found["tooMany"]) == ([], 2, 60, False)


def test_edges_for_all_fields_are_beside_the_others_and_can_be_left_out(client: TestClient) -> None:
    values = {"ns": "db", "dataset": "revenue", "field": "total", "direction": "up"}

    found = get(client, "/api/graph", **values)["datasetEdges"]
    assert {"source": [1, "day"], "target": 0, "kinds": ["FILTER"], "masked": False, "approximate": False} in found

    direct = get(client, "/api/graph", kinds="direct", **values)
    assert (direct["datasetEdges"], direct["total"]) == ([], 2)


def test_a_graph_that_is_too_large_lists_the_neighbours() -> None:
    client = client_of(large_world())

    found = get(client, "/api/graph", ns="layer2", dataset="table_120", direction="both", depth=20, limit=10)

    assert (found["tooMany"], len(found["datasets"]), found["edges"]) == (True, 1, [])
    assert len(found["neighbours"]) + 1 == found["total"] > 10
    assert {one["hop"] > 0 for one in found["neighbours"]} == {True, False}


def test_a_wide_table_has_all_its_fields(client: TestClient) -> None:
    found = get(client, "/api/graph", ns="db", dataset="wide", direction="up", depth=1)
    assert found["datasets"][0]["shown"] == WIDE


def test_an_edge_has_its_writes_with_operations_and_runs(client: TestClient) -> None:
    ends = {"fromNs": "db", "fromDataset": "orders", "fromField": "amount", "toNs": "db", "toDataset": "revenue"}

    [write] = get(client, "/api/edge", toField="total", **ends)["writes"]
    assert (write["job"], write["sql"], write["kinds"]) == ("revenue", "sum(amount)", ["AGGREGATION"])
    assert [one["kind"] for one in write["operations"]] == ["READ", "TRANSFORM", "WRITE"]
    assert write["operations"][2]["dataset"] == {"ns": "db", "dataset": "revenue"}
    assert (write["runs"][0]["firstTime"], write["runs"][0]["lastBatch"]) == ("2023-11-14T22:15:20.000Z", 248)

    assert get(client, "/api/edge", toField="customer", **ends)["writes"] == []
    [whole] = get(client, "/api/edge", **(ends | {"fromField": "day"}))["writes"]
    assert (whole["kinds"], whole["sql"]) == (["FILTER"], "")


def test_a_dataset_has_its_snapshots_in_pages(client: TestClient) -> None:
    values = {"ns": "db", "dataset": "report", "limit": 200}

    first = get(client, "/api/dataset", **values)
    second = get(client, "/api/dataset", before=first["next"], **values)

    ids = [one["id"] for page in (first, second) for one in page["snapshots"]]
    assert (ids, second["next"]) == (list(range(300, 0, -1)), None)
    assert first["fields"][0] == {
        "name": "person",
        "type": "STRING",
        "id": 0,
        "state": "present",
        "hasLineage": True,
    }


def test_impact_has_a_row_for_each_field_below(client: TestClient) -> None:
    rows = get(client, "/api/impact", ns="db", dataset="customers", field="email")["rows"]
    assert rows == []

    rows = get(client, "/api/impact", ns="db", dataset="orders", field="amount", depth=1)["rows"]
    assert rows[0] == {
        "ns": "db",
        "dataset": "revenue",
        "field": "total",
        "hop": 1,
        "direct": True,
        "kinds": ["AGGREGATION"],
        "masked": False,
        "jobs": ["revenue"],
    }


def test_a_range_of_time_and_a_snapshot_choose_runs(client: TestClient) -> None:
    values = {"ns": "db", "dataset": "revenue", "field": "total", "direction": "up"}
    begin = START // 1_000

    for more, total in (
        ({"start": begin + 200 * 60, "end": begin + 201 * 60}, 3),
        ({"start": "now-23h", "end": "now"}, 1),
        ({"end": begin + 120}, 1),
        ({"at": 100}, 3),
    ):
        assert get(client, "/api/graph", **values, **more)["total"] == total
    answer = get(client, "/api/graph", 404, **values, at=1)
    assert "the snapshots from 2 to 250" in str(answer["error"])


def test_a_wrong_snapshot_marks_what_it_has_reached(client: TestClient) -> None:
    values = {"ns": "db", "dataset": "revenue", "field": "total", "direction": "down", "kinds": "direct", "depth": 1}

    marked = get(client, "/api/graph", **values, wrong=7)["datasets"]
    assert {one["dataset"]: one["tainted"] for one in marked} == {
        name: {"from": 7, "lastClean": 6} for name in ("revenue", "scores", "report")
    }
    assert all(field["tainted"] for one in marked for field in one["fields"])
    plain = get(client, "/api/graph", **values)["datasets"]
    assert not any("tainted" in one or any("tainted" in field for field in one["fields"]) for one in plain)

    where = {"ns": "db", "dataset": "report", "limit": 300, "wrongNs": "db", "wrongDataset": "revenue"}
    snapshots = get(client, "/api/dataset", **where, wrong=299)["snapshots"]
    assert [one["id"] for one in snapshots if one["tainted"]] == [300, 299]
    assert "tainted" not in get(client, "/api/dataset", **where)["snapshots"][0]


def test_impact_comes_in_pages(client: TestClient) -> None:
    values = {"ns": "db", "dataset": "orders", "field": "amount"}

    whole = get(client, "/api/impact", **values)
    pages = [get(client, "/api/impact", **values, limit=100, offset=at)["rows"] for at in range(0, whole["total"], 100)]

    assert [row for page in pages for row in page] == whole["rows"]
    assert len(whole["rows"]) == whole["total"] > WIDE
    assert get(client, "/api/impact", **values, offset=10**18)["rows"] == []
    assert get(client, "/api/impact", **values, start="now", end="now")["total"] == 0


def test_a_graph_with_too_many_edges_lists_the_neighbours() -> None:
    world = KnownWorld()
    columns = [f"c{at}" for at in range(150)]
    for name in ("db.s", "db.t"):
        world.table(name, *columns)
    world.write("db.t", {one: [f"db.s.{each}" for each in columns] for one in columns}, opaque=columns)

    found = get(client_of(world), "/api/graph", ns="db", dataset="t")

    assert (found["tooMany"], found["edges"]) == (True, [])
    assert found["neighbours"] == [{"ns": "db", "dataset": "s", "hop": -1, "fields": 150}]
    assert get(client_of(world), "/api/graph", ns="db", dataset="t", field="c1")["tooMany"] is False


@pytest.mark.parametrize("form", ["json", "csv"])
def test_an_export_is_a_file_to_save(client: TestClient, form: str) -> None:
    values = {"ns": "db", "dataset": "report", "direction": "both", "depth": "20", "format": form}
    answer = client.get("/api/export", params=values)

    assert answer.headers["content-disposition"] == f'attachment; filename="lineage.{form}"'
    if form == "json":
        expected = get(client, "/api/graph", **(values | {"format": ""}))
        assert json.loads(answer.text) == expected
    else:
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert HOSTILE[1] in {row["source_field"] for row in rows}
        assert {row["target_field"] for row in rows if row["kinds"] == "FILTER"} == {""}


GRAPH = {"ns": "db", "dataset": "report"}


@pytest.mark.parametrize(
    ("path", "values", "status", "text"),
    [
        ("/api/graph", {}, 400, "ns is missing"),
        ("/api/graph", {"ns": "db"}, 400, "dataset is missing"),
        ("/api/graph", {"ns": "db", "dataset": ""}, 400, "dataset is missing"),
        ("/api/graph", {"ns": "db", "dataset": "x"}, 404, "no lineage of fields names 'db.x'"),
        ("/api/graph", {**GRAPH, "field": "x"}, 404, "has no field 'x'"),
        ("/api/graph", {**GRAPH, "direction": "sideways"}, 400, "expected up, down, both"),
        ("/api/graph", {**GRAPH, "depth": "0"}, 400, "from 1 to 20"),
        ("/api/graph", {**GRAPH, "depth": "21"}, 400, "from 1 to 20"),
        ("/api/graph", {**GRAPH, "depth": "1.5"}, 400, "from 1 to 20"),
        ("/api/graph", {**GRAPH, "depth": "\u0663"}, 400, "from 1 to 20"),
        ("/api/graph", {**GRAPH, "depth": "9" * 5_000}, 400, "from 1 to 20"),
        ("/api/graph", {**GRAPH, "limit": "1001"}, 400, "from 1 to 1000"),
        ("/api/graph", {**GRAPH, "limit": "-1"}, 400, "from 1 to 1000"),
        ("/api/graph", {**GRAPH, "start": "yesterday"}, 400, "expected seconds since 1970, or now and steps"),
        ("/api/graph", {**GRAPH, "start": "now-99999999d"}, 400, "which is before 1970"),
        ("/api/graph", {**GRAPH, "end": "9" * 40}, 400, "expected seconds since 1970"),
        ("/api/graph", {**GRAPH, "start": "2", "end": "1"}, 400, "start is after end"),
        ("/api/graph", {**GRAPH, "at": "x"}, 400, "at is 'x'"),
        ("/api/graph", {**GRAPH, "at": str(1 << 63)}, 400, "at is"),
        ("/api/graph", {**GRAPH, "at": "1", "start": "1"}, 400, "give one of them"),
        ("/api/graph", {**GRAPH, "kinds": "FILTER"}, 400, "expected all or direct"),
        ("/api/search", {"limit": "0"}, 400, "from 1 to 1000"),
        ("/api/search", {"offset": "-1"}, 400, "offset is '-1'"),
        ("/api/edge", {"fromNs": "db"}, 400, "fromDataset is missing"),
        ("/api/edge", {"fromDataset": "orders"}, 400, "fromNs is missing"),
        ("/api/edge", {"fromNs": "db", "fromDataset": "orders", "toNs": "db"}, 400, "toDataset is missing"),
        (
            "/api/edge",
            {"fromNs": "db", "fromDataset": "orders", "toNs": "db", "toDataset": "report"},
            400,
            "fromField is missing",
        ),
        ("/api/graph", {**GRAPH, "wrong": "x"}, 400, "wrong is 'x'"),
        ("/api/dataset", {**GRAPH, "wrong": "1"}, 400, "wrongNs is missing"),
        ("/api/dataset", {**GRAPH, "wrong": "1", "wrongNs": "a", "wrongDataset": "b"}, 404, "names 'a.b'"),
        ("/api/dataset", {**GRAPH, "before": "x"}, 400, "before is 'x'"),
        ("/api/dataset", {**GRAPH, "limit": "x"}, 400, "limit is 'x'"),
        ("/api/impact", {**GRAPH, "depth": "x"}, 400, "depth is 'x'"),
        ("/api/export", {**GRAPH, "format": "exe"}, 400, "expected json or csv"),
        ("/api/export", {**GRAPH, "format": "svg"}, 400, "The page saves pictures"),
        ("/api/export", {**GRAPH, "format": "csv", "limit": "1", "depth": "5"}, 422, "ask for fewer hops"),
        ("/api/nothing", {}, 404, "nothing at this path"),
    ],
)
def test_a_wrong_request_has_its_status_and_its_text(
    client: TestClient, path: str, values: dict[str, str], status: int, text: str
) -> None:
    assert text in str(get(client, path, status, **values)["error"])


def test_halves_of_characters_in_names_are_shown_as_escapes() -> None:
    half = "half \ud800"
    world = KnownWorld().table("db.s", half).table("db.t", "x")
    world.write("db.t", {"x": [f"db.s.{half}"]}, sql={"x": half}, job=half, run=half)
    client = client_of(world)
    name = "half \\ud800"

    [write] = get(
        client, "/api/edge", fromNs="db", fromDataset="s", fromField=name, toNs="db", toDataset="t", toField="x"
    )["writes"]
    assert (write["job"], write["operations"]) == (name, [])  # no stored document has such names
    path = "/v3/namespaces/db/endpoints/t/fields/x/lineage"
    asked = {"start": "0", "end": "now", "direction": "backward"}
    assert client.get(path, params=asked).json()["connections"] == []
