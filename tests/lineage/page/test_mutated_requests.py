"""Requests that are wrong in many ways at once: each has an answer, and none is a failure of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any  # Any: JSON
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from lakelog.catalog import Catalog
from lakelog.common.clock import system_millis
from lakelog.lineage.server.catalog_histories import CatalogHistories
from lakelog.lineage.tables.warehouse_lineage import known_fields
from tests.support.lineage.demo_page import HOSTILE, DemoHistories, demo_world
from tests.support.lineage.field_tables import make_table, write_fields
from tests.support.lineage.page_client import app_of, client_of, client_of_app

SEED = 43
NAMES = ["db", "revenue", "orders", "report", "total", "amount", "wide", "kafka", "events", "", *HOSTILE]
VALUES = [
    "",
    "0",
    "1",
    "2",
    "20",
    "-1",
    "now",
    "now-7d",
    "now+1d",
    "1700000000",
    "9" * 18,
    "9" * 30,
    "1e5",
    "0x10",
    "NaN",
    "true",
    "TRUE",
    "null",
    "up",
    "down",
    "both",
    "incoming",
    "OUTGOING",
    "backward",
    "forward",
    "access",
    "run",
    "workflow",
    "direct",
    "json",
    "csv",
    "svg",
    "\x00",
    "\r\nset-cookie: a=b",
    "' OR 1=1 --",
    "../../../etc/passwd",
    "${jndi:ldap://x}",
    "\u0661\u0662",
    "\ud7ff\uffff",
    "%",
    "%2F%2e%2e",
    *NAMES,
]
PARAMETERS = [
    "ns",
    "dataset",
    "field",
    "direction",
    "depth",
    "limit",
    "offset",
    "start",
    "end",
    "at",
    "kinds",
    "format",
    "q",
    "before",
    "fromNs",
    "fromDataset",
    "fromField",
    "toNs",
    "toDataset",
    "toField",
    "level",
    "levels",
    "collapse",
    "rollup",
    "prefix",
    "includeCurrent",
    "wrong",
    "wrongNs",
    "wrongDataset",
    "wrongField",
    "unknown",
]
API = ["search", "graph", "edge", "dataset", "impact", "export"]
CDAP = [
    "datasets/{}/lineage",
    "datasets/{}/lineage/fields",
    "datasets/{}/lineage/allfieldlineage",
    "datasets/{}/lineage/fields/{}",
    "datasets/{}/lineage/fields/{}/operations",
    "endpoints/{}/fields/lineage",
    "endpoints/{}/fields/{}/lineage",
]
STATUSES = {200, 400, 404, 405, 414, 421, 422}


def requests(seed: int, count: int, seen: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Methods and addresses: right ones of which some parts are changed; with one of the parameters that are `seen`."""
    random = Random(seed)
    for _ in range(count):
        pairs = _right(random)
        path = random.choice(list(pairs))
        values = list(pairs[path].items())
        values += [(random.choice(seen), random.choice(VALUES[:12]))] if seen else []
        for _ in range(random.choice([0, 1, 1, 2, 3])):
            values = _changed(random, values)
        query = "&".join(f"{_quoted(random, key)}={_quoted(random, value)}" for key, value in values)
        path = _changed_path(random, path) if random.random() < 0.2 else path
        yield random.choice(["GET"] * 18 + ["HEAD", "POST"]), f"{path}?{query}"


def _right(random: Random) -> dict[str, dict[str, str]]:
    """One request to each path."""
    name = {"ns": "db", "dataset": random.choice(["revenue", "report", "scores"]), "depth": "2"}
    edge = {"fromNs": "db", "fromDataset": "orders", "fromField": "amount", "toNs": "db", "toDataset": "revenue"}
    found = {f"/api/{one}": dict(edge if one == "edge" else name) for one in API}
    times = {"start": "0", "end": "now"}
    for one in CDAP:
        names = [quote(random.choice(NAMES[1:9]), safe="") for _ in range(2)]
        direction = random.choice(["incoming", "both", "backward", "forward"])
        found[f"/v3/namespaces/db/{one.format(*names)}"] = {**times, "direction": direction}
    return found


def _changed(random: Random, values: list[tuple[str, str]]) -> list[tuple[str, str]]:
    found = list(values)
    match random.randrange(4):
        case 0 if found:
            del found[random.randrange(len(found))]
        case 1 if found:
            at = random.randrange(len(found))
            found[at] = (found[at][0], random.choice(VALUES))
        case 2 if found:
            found.append((random.choice(found)[0], random.choice(VALUES)))  # twice
        case _:
            found.append((random.choice(PARAMETERS), random.choice(VALUES)))
    return found


def _changed_path(random: Random, path: str) -> str:
    parts = path.split("/")
    at = random.randrange(1, len(parts))
    parts[at] = quote(random.choice(VALUES), safe="")
    return "/".join(parts)


def _quoted(random: Random, text: str) -> str:
    """The text in a query; sometimes with halves of escapes, or bytes that are not UTF-8."""
    found = quote(text, safe="")
    return found + random.choice(["%", "%zz", "%ff", "%ed%a0%80", "+", "&", "="]) if random.random() < 0.05 else found


def check_answers(client: TestClient, seed: int, count: int, seen: Sequence[str] = ()) -> dict[int, int]:
    """Send requests, and check that each answer is one that is documented; returns how many had which status."""
    found: dict[int, int] = {}
    for number, (method, address) in enumerate(requests(seed, count, seen)):
        answer = client.request(method, address)
        where = f"request {number} of seed {seed}: {method} {address}"
        assert answer.status_code in STATUSES, f"{where}: {answer.status_code} {answer.text}"
        assert "set-cookie" not in answer.headers, where
        if method != "HEAD":
            is_json = answer.headers["content-type"].startswith("application/json")
            body: Any = json.loads(answer.text) if is_json else answer.text
            assert answer.status_code == 200 or (body["error"] if is_json else body), where
        found[answer.status_code] = found.get(answer.status_code, 0) + 1
    return found


@pytest.fixture(scope="module")
def client() -> TestClient:
    return client_of(demo_world(), histories=DemoHistories())


def test_each_of_a_thousand_mutated_requests_has_an_answer(client: TestClient) -> None:
    found = check_answers(client, SEED, 1_000)
    assert found[200] > 200  # they are not all refused at the door
    assert found[400] > 200


def test_mutated_requests_about_tables_that_are_there_have_answers(tmp_path: Path) -> None:
    """Their snapshots are read: by `at`, `wrong` and `before`."""
    catalog = Catalog(tmp_path / "lake")
    orders = make_table(catalog, "db.orders", "amount", "day")
    revenue, report = make_table(catalog, "db.revenue", "total"), make_table(catalog, "db.report", "total")
    for _ in range(3):
        write_fields(orders, {"amount": [], "day": []}, job="load")
        write_fields(revenue, {"total": [(orders, "amount")]}, dataset=[(orders, "day", "FILTER")], job="sum")
        write_fields(report, {"total": [(revenue, "total")]}, job="show")
    revenue.tags.create("release", snapshot_id=2)
    revenue.branches.create("what-if")
    app = app_of(known_fields(catalog), histories=CatalogHistories([catalog]), now=system_millis() // 1_000)

    found = check_answers(client_of_app(app), SEED, 300, seen=["at", "wrong", "before"])

    assert found[200] > 50


@pytest.mark.full
@pytest.mark.parametrize("seed", range(SEED + 1, SEED + 11))
def test_each_of_ten_thousand_mutated_requests_has_an_answer(client: TestClient, seed: int) -> None:
    check_answers(client, seed, 1_000)
