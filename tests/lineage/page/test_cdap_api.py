"""/v3 beyond the truth: runs that overlap, renames, several writes, pages, and each wrong value of each path."""

from __future__ import annotations

from typing import Any  # Any: JSON
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from tests.support.lineage.demo_page import HOSTILE, demo_world
from tests.support.lineage.known_world import START, KnownWorld
from tests.support.lineage.page_client import client_of

T = "/v3/namespaces/db/datasets/t"
E = "/v3/namespaces/db/endpoints/t"
ALL = {"start": "0", "end": "now"}
BEGIN = START // 1_000


@pytest.fixture
def world() -> KnownWorld:
    return KnownWorld().table("db.s", "v", "w").table("db.t", "x", "y")


def get(client: TestClient, path: str, status: int = 200, /, **values: str) -> Any:  # Any: JSON
    answer = client.get(path, params={**ALL, **values})
    assert answer.status_code == status, answer.text
    return answer.json() if status == 200 else answer.text


def test_a_run_that_began_before_the_range_and_goes_on_has_lineage_in_it(world: KnownWorld) -> None:
    """CDAP looks at the start of a run alone: a query that started a month ago would have none."""
    world.write("db.t", {"x": ["db.s.v"]}, snapshots=(0, 1_000))
    client = client_of(world)
    month = {"start": str(BEGIN + 500 * 60), "end": str(BEGIN + 501 * 60)}

    assert get(client, f"{T}/lineage/fields", **month) == ["x"]
    assert get(client, f"{T}/lineage/fields/x", **month, direction="incoming")["incoming"] != []
    assert get(client, f"{T}/lineage/fields/x/operations", **month)["incoming"] != []
    assert get(client, f"{T}/lineage", **month)["relations"] != []
    assert get(client, f"{E}/fields/lineage", **month) != []
    assert get(client, f"{E}/fields/x/lineage", **month, direction="backward")["nodes"] != []
    later = {"start": str(BEGIN + 1_001 * 60), "end": str(BEGIN + 2_000 * 60)}
    assert get(client, f"{T}/lineage/fields", **later) == []
    assert get(client, f"{T}/lineage", **later)["relations"] == []


def test_the_levels_around_a_dataset_name_programs_and_datasets(world: KnownWorld) -> None:
    world.write("db.t", {"x": ["db.s.v"]}, job="first", run="1")
    world.write("db.t", {"x": ["db.s.v"]}, job="first", run="2")
    world.table("db.u", "z").write("db.u", {"z": ["db.t.x"]}, job="second", run="3")
    client = client_of(world)
    first, second = "spark.db.lakelog.first", "spark.db.lakelog.second"

    found = get(client, f"{T}/lineage", levels="1", collapse="run")

    relations = [(one["program"], one["data"], one["accesses"], sorted(one["runs"])) for one in found["relations"]]
    assert sorted(relations) == [
        (first, "dataset.db.s", ["read"], ["1", "2"]),
        (first, "dataset.db.t", ["write"], ["1", "2"]),
        (second, "dataset.db.t", ["read"], ["3"]),
        (second, "dataset.db.u", ["write"], ["3"]),
    ]
    assert found["programs"][first] == {
        "entityId": {"namespace": "db", "application": "lakelog", "type": "Spark", "program": "first"}
    }
    assert found["data"]["dataset.db.s"] == {"entityId": {"namespace": "db", "dataset": "s"}}
    apart = get(client, f"{T}/lineage", levels="1")["relations"]
    assert len(apart) == 6
    both = client.get(f"{T}/lineage", params=[*ALL.items(), ("collapse", "ACCESS"), ("collapse", "run")]).json()
    assert len(both["relations"]) == 4


def test_names_with_dots_do_not_share_a_key() -> None:
    world = KnownWorld()
    world.write("x.t", {"a": ["b.c.f"]})
    client = client_of(world)
    assert set(get(client, "/v3/namespaces/x/datasets/t/lineage")["data"]) == {"dataset.x.t", "dataset.b.c"}


def test_a_renamed_column_has_its_operations_under_its_present_name(world: KnownWorld) -> None:
    world.write("db.t", {"x": ["db.s.v"], "y": []}, sql={"x": "v + 1"})
    world.table("db.t", ("renamed", 0), ("y", 1)).table("db.s", ("first", 0), ("w", 1))
    client = client_of(world)

    [entry] = get(client, f"{T}/lineage/fields/renamed/operations", direction="incoming")["incoming"]
    assert [one["name"] for one in entry["operations"]] == ["read db.s", "make x", "write"]
    [entry] = get(client, "/v3/namespaces/db/datasets/s/lineage/fields/first/operations", direction="outgoing")[
        "outgoing"
    ]
    assert [one["description"] for one in entry["operations"]] == ["", "v + 1", ""]
    assert get(client, f"{T}/lineage/fields/x/operations")["incoming"] == []
    backward = get(client, f"{E}/fields/renamed/lineage", direction="backward")
    assert backward["nodes"][-1] == {
        "id": "make x.x",
        "label": "x",
        "destinationEndPoint": {"namespace": "db", "name": "t"},
    }


def test_writes_with_equal_names_of_operations_are_kept_apart(world: KnownWorld) -> None:
    world.write("db.t", {"x": ["db.s.v"]}, sql={"x": "v"}, run="1")
    world.write("db.t", {"x": ["db.s.w"]}, sql={"x": "w"}, run="2")

    found = get(client_of(world), f"{E}/fields/x/lineage", direction="BACKWARD")

    assert {one["name"]: one["description"] for one in found["operations"] if "make" in one["name"]} in (
        {"make x": "v", "make x (2)": "w"},
        {"make x": "w", "make x (2)": "v"},
    )
    assert len(found["connections"]) == 2
    assert len({one["id"] for one in found["nodes"]}) == len(found["nodes"]) == 4


def test_a_program_is_named_once_with_its_newest_run(world: KnownWorld) -> None:
    for run, snapshot in (("1", 5), ("2", 9)):
        world.write("db.t", {"x": ["db.s.v"]}, run=run, snapshots=(snapshot, snapshot))
    world.write("db.t", {"x": ["db.s.v"]}, job="other", run="3", snapshots=(7, 7))

    [entry] = get(client_of(world), f"{T}/lineage/fields/x/operations", direction="incoming")["incoming"]

    assert [(one["program"]["program"], one["lastExecutedTimeInSeconds"]) for one in entry["programs"]] == [
        ("job", BEGIN + 9 * 60),
        ("other", BEGIN + 7 * 60),
    ]


def test_lists_come_in_pages(world: KnownWorld) -> None:
    world.write("db.t", {"x": [], "y": []})
    client = client_of(world)

    answer = client.get(f"{T}/lineage/fields", params={**ALL, "limit": "1", "offset": "1"})

    assert (answer.json(), answer.headers["lakelog-total"]) == (["y"], "2")


def test_names_with_slashes_and_other_signs_are_parts_of_a_path() -> None:
    world = demo_world()
    world.write("db.report", {"total": ["s3://bucket.folder/file.parquet.a b/c%2F?#"]})
    client = client_of(world)
    ns, ds, field = (quote(one, safe="") for one in ("s3://bucket", "folder/file.parquet", "a b/c%2F?#"))

    found = get(client, f"/v3/namespaces/{ns}/datasets/{ds}/lineage/fields/{field}", direction="outgoing")
    assert found["outgoing"] == [{"dataset": {"namespace": "db", "dataset": "report"}, "fields": ["total"]}]
    for name in HOSTILE:
        path = f"/v3/namespaces/db/datasets/{quote(name, safe='')}/lineage/fields"
        assert get(client, path) == (["x", HOSTILE[1]] if name == HOSTILE[0] else [])


PATHS = {
    f"{T}/lineage": {},
    f"{T}/lineage/fields": {},
    f"{T}/lineage/allfieldlineage": {"direction": "both"},
    f"{T}/lineage/fields/x": {"direction": "both"},
    f"{T}/lineage/fields/x/operations": {},
    f"{E}/fields/lineage": {},
    f"{E}/fields/x/lineage": {"direction": "forward"},
}
LIST_PATHS = [f"{T}/lineage/fields", f"{E}/fields/lineage"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"end": "1"}, "Start time is required."),
        ({"start": "1"}, "End time is required."),
        ({}, "Start time is required."),
        ({"start": "", "end": "1"}, "java.lang.IllegalArgumentException: invalid time format "),
        ({"start": "1", "end": "1.0"}, "java.lang.IllegalArgumentException: invalid time format 1.0"),
        ({"start": "\u0661", "end": "2"}, "java.lang.IllegalArgumentException: invalid time format \u0661"),
        (
            {"start": "now-" + "9" * 400 + "d", "end": "now"},
            f"java.lang.IllegalArgumentException: invalid time format now-{'9' * 197}",
        ),
        ({"start": "9" * 20, "end": "now"}, f"java.lang.IllegalArgumentException: invalid time format {'9' * 20}"),
        ({"start": "2", "end": "1"}, "Start time (2 -> 2000) should be lesser than end time (1 -> 1000)."),
        ({"start": "now-999999d", "end": "1"}, "Invalid start time (now-999999d -> -84699813600000), should be >= 0."),
    ],
)
def test_each_path_checks_the_range(world: KnownWorld, path: str, values: dict[str, str], text: str) -> None:
    answer = client_of(world).get(path, params={**PATHS[path], **values})
    assert (answer.status_code, answer.text) == (400, text)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("path", PATHS)
def test_each_path_answers_for_all_time_up_to_its_end(world: KnownWorld, path: str) -> None:
    world.write("db.t", {"x": ["db.s.v"]})
    values = {**PATHS[path], "start": "0", "end": str((1 << 63) - 1)}
    assert client_of(world).get(path, params=values).status_code == 200


@pytest.mark.parametrize("path", LIST_PATHS)
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"limit": "0"}, "limit is '0'; expected a whole number from 1 to 10000."),
        ({"limit": "x"}, "limit is 'x'; expected a whole number from 1 to 10000."),
        ({"offset": "-1"}, f"offset is '-1'; expected a whole number from 0 to {(1 << 63) - 1}."),
    ],
)
def test_each_list_checks_its_page(world: KnownWorld, path: str, values: dict[str, str], text: str) -> None:
    assert get(client_of(world), path, 400, **PATHS[path], **values) == text


@pytest.mark.parametrize(
    ("path", "values", "text"),
    [
        (f"{T}/lineage", {"levels": "x"}, "Invalid levels (x), should be greater than 0."),
        (f"{T}/lineage", {"levels": ""}, "Invalid levels (), should be greater than 0."),
        (f"{T}/lineage", {"levels": "21"}, "Invalid levels (21), should be at most 20."),
        (f"{T}/lineage", {"collapse": ""}, "Invalid collapse type "),
        (f"{T}/lineage", {"rollup": "app"}, "Invalid rollup type app"),
        (f"{E}/fields/lineage", {"level": "0"}, "Invalid levels (0), should be greater than 0."),
        (
            f"{E}/fields/lineage",
            {"level": "99999999999999999999999"},
            "Invalid levels (99999999999999999999999), should be at most 20.",
        ),
        (f"{T}/lineage/fields", {"includeCurrent": "yes"}, "Invalid includeCurrent (yes), should be true or false."),
        (
            f"{E}/fields/x/lineage",
            {"direction": "incoming"},
            "Direction must be specified and should be one of the following: [backward, forward].",
        ),
    ],
)
def test_each_other_value_is_checked(world: KnownWorld, path: str, values: dict[str, str], text: str) -> None:
    assert get(client_of(world), path, 400, **values) == text


@pytest.mark.parametrize("path", ["/v3", "/v3/", "/v3/namespaces/db/datasets/t/lineage/", "/v3/namespaces/db/x"])
def test_another_path_is_not_found(world: KnownWorld, path: str) -> None:
    assert client_of(world).get(path).status_code == 404


def test_time_stands_for_the_time_of_the_server(world: KnownWorld) -> None:
    world.write("db.t", {"x": ["db.s.v"]}, snapshots=(60, 60))
    client = client_of(world, now=BEGIN + 2 * 3_600)
    assert get(client, f"{T}/lineage/fields", start="now-61m", end="now-59m") == ["x"]
    assert get(client, f"{T}/lineage/fields", start="now-59m") == []
