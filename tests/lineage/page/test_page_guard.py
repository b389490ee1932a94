"""Who may read lineage over HTTP: hosts, origins, tokens, methods, and the headers of answers."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lakelog.lineage.server.page_guard import is_loopback
from tests.support.lineage.known_world import KnownWorld
from tests.support.lineage.page_client import client_of

SEARCH = "/api/search"
TOKEN = "a-secret-token"


@pytest.fixture
def world() -> KnownWorld:
    return KnownWorld().table("db.t", "x")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8700", 200),
        ("localhost:8700", 200),
        ("LOCALHOST", 200),
        ("[::1]:8700", 200),
        ("127.8.8.8", 200),
        ("evil.example:8700", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("192.168.1.5:8700", 421),
        ("", 421),
        ("[", 421),
    ],
)
def test_a_server_of_this_machine_answers_to_its_own_names_alone(world: KnownWorld, host: str, status: int) -> None:
    assert client_of(world).get(SEARCH, headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("host", "status"), [("192.168.1.5:8700", 200), ("lake.example:8700", 200), ("evil.example", 421)]
)
def test_a_server_for_others_answers_to_addresses_and_to_its_names(world: KnownWorld, host: str, status: int) -> None:
    client = client_of(world, token=TOKEN, is_local=False, names=["Lake.example"])
    headers = {"host": host, "authorization": f"Bearer {TOKEN}"}
    assert client.get(SEARCH, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:8700", 200),
        ("http://127.0.0.1:9999", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_pages_of_other_origins_are_not_answered(world: KnownWorld, origin: str, status: int) -> None:
    assert client_of(world).get(SEARCH, headers={"origin": origin}).status_code == status


def test_a_page_of_another_site_cannot_embed_an_answer_but_can_link_to_the_page(world: KnownWorld) -> None:
    site = {"sec-fetch-site": "cross-site"}
    client = client_of(world)

    assert client.get(SEARCH, headers={**site, "sec-fetch-mode": "no-cors"}).status_code == 403
    assert client.get("/", headers={**site, "sec-fetch-mode": "navigate"}).status_code == 200


@pytest.mark.parametrize("path", [SEARCH, "/v3/namespaces/a/datasets/b/lineage/fields?start=0&end=1"])
@pytest.mark.parametrize(
    ("given", "status"),
    [
        (None, 401),
        ("", 401),
        (TOKEN, 401),
        (f"bearer {TOKEN}", 200),
        (f"Basic {TOKEN}", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer \u00fc", 401),
        (f"Bearer {TOKEN}", 200),
    ],
)
def test_lineage_needs_the_token(world: KnownWorld, path: str, given: str | None, status: int) -> None:
    headers = [] if given is None else [(b"authorization", given.encode("latin-1"))]
    answer = client_of(world, token=TOKEN).get(path, headers=headers)
    assert answer.status_code == status
    assert ("www-authenticate" in answer.headers) is (status == 401)


def test_the_files_of_the_page_need_no_token(world: KnownWorld, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>page")
    (tmp_path / "page.js").write_text("0")
    client = client_of(world, token=TOKEN, static=tmp_path)

    assert client.get("/").text == "<!doctype html>page"
    assert client.get("/static/page.js").text == "0"
    assert client.get("/docs").status_code == 200


def test_a_token_is_not_logged(world: KnownWorld, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        client_of(world, token=TOKEN).get(SEARCH, headers={"authorization": f"Bearer {TOKEN}"})
        client_of(world, token=TOKEN).get(SEARCH, headers={"authorization": f"Bearer {TOKEN}x"})
    assert TOKEN not in caplog.text


def test_a_file_of_the_page_is_kept_and_asked_for_by_its_tag(world: KnownWorld) -> None:
    client = client_of(world)
    first = client.get("/static/main.js")
    assert (first.status_code, first.headers["cache-control"]) == (200, "no-cache")
    assert client.get("/static/main.js", headers={"if-none-match": first.headers["etag"]}).status_code == 304
    assert client.get(SEARCH).headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/", SEARCH, "/nothing", "/static/nothing", "/docs", "/v3/x"])
@pytest.mark.parametrize("host", ["127.0.0.1", "evil.example"])
def test_each_answer_has_the_headers(world: KnownWorld, path: str, host: str) -> None:
    headers = client_of(world).get(path, headers={"host": host}).headers

    assert headers["content-security-policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "get", "X"])
@pytest.mark.parametrize("path", [SEARCH, "/", "/v3/x"])
def test_only_reading_is_answered(world: KnownWorld, method: str, path: str) -> None:
    client = client_of(world)
    request = client.build_request("GET", path)
    request.method = method

    answer = client.send(request)

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def test_head_is_get_without_the_body(world: KnownWorld) -> None:
    client = client_of(world)
    answer = client.head(SEARCH)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == client.get(SEARCH).headers["content-length"]


def test_a_long_query_is_refused(world: KnownWorld) -> None:
    assert client_of(world).get(SEARCH, params={"q": "x" * 9_000}).status_code == 414


@pytest.mark.parametrize("path", ["/static/../page_app.py", "/static/%2e%2e/page_app.py", "/static/..%2fpage_app.py"])
def test_no_other_file_is_served(world: KnownWorld, tmp_path: Path, path: str) -> None:
    (tmp_path / "static").mkdir()
    (tmp_path / "page_app.py").write_text("secret")
    client = client_of(world, static=tmp_path / "static")
    assert client.get(path).status_code == 404


def test_the_list_of_paths_loads_nothing_of_others(world: KnownWorld) -> None:
    text = client_of(world).get("/docs").text
    assert "/v3/namespaces/{ns}/endpoints/{dataset}/fields/lineage" in text
    assert not any(one in text for one in ("<script", "src=", "http://", "https://"))


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False), ("10.0.0.1", False)],
)
def test_a_loopback_address_is_this_machine(host: str, is_ours: bool) -> None:
    assert is_loopback(host) is is_ours
