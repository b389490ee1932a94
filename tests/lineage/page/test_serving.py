"""`lakelog lineage serve` over real tables: a process of its own, asked over a socket."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any  # Any: JSON

import pytest
import uvicorn

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError
from lakelog.lineage.page.page_state import PageState
from lakelog.lineage.server.page_app import page_app
from lakelog.lineage.server.serving import Connection, Door, listening_socket, serve
from lakelog.lineage.tables.warehouse_lineage import known_fields
from tests.support.lineage.field_tables import make_table, write_fields

TOKEN = "0123456789abcdef"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    catalog = Catalog(tmp_path / "lake")
    orders, report = make_table(catalog, "db.orders", "amount"), make_table(catalog, "db.report", "total")
    write_fields(orders, {"amount": []}, job="load")
    write_fields(report, {"total": [(orders, "amount")]}, job="nightly")
    return tmp_path / "lake"


@contextmanager
def served(lake: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and the address that it prints."""
    command = [sys.executable, "-m", "lakelog.cli", "lineage", "serve", "--port", "0", "-w", str(lake), *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def get(address: str, path: str, headers: Mapping[str, str] | None = None) -> Any:  # Any: JSON
    request = urllib.request.Request(f"{address}{path}", headers=dict(headers or {}))
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def test_a_warehouse_is_served_until_the_process_is_interrupted(lake: Path, tmp_path: Path) -> None:
    with served(lake, "--index", str(tmp_path / "index")) as (process, address):
        graph = get(address, "api/graph?ns=db&dataset=report&field=total&direction=up")
        assert [(one["dataset"], one["hop"]) for one in graph["datasets"]] == [("report", 0), ("orders", -1)]
        history = get(address, "api/dataset?ns=db&dataset=report")
        assert [(one["id"], one["job"]) for one in history["snapshots"]] == [(1, "nightly")]
        assert history["snapshots"][0]["sources"] == [{"table": "db.orders", "from": None, "to": 1}]
        found = get(address, "v3/namespaces/db/datasets/report/lineage/fields?start=0&end=now%2B1m")
        assert found == ["total"]

        marked = get(address, "api/graph?ns=db&dataset=orders&field=amount&direction=down&wrong=1")["datasets"]
        assert [(one["dataset"], one["tainted"]) for one in marked] == [
            ("orders", {"from": 1, "lastClean": None}),
            ("report", {"from": 1, "lastClean": None}),
        ]
        assert [one["tainted"] for one in marked[1]["fields"]] == [True]
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(address, "api/graph?ns=db&dataset=orders&field=amount&wrong=99")

        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_token_is_taken_from_the_environment_and_required(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_PAGE_TOKEN", TOKEN)
    with served(lake, "--host", "0.0.0.0") as (_, address):
        here = address.replace("0.0.0.0", "127.0.0.1")
        assert get(here, "api/search", {"authorization": f"Bearer {TOKEN}"})["total"] == 2
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get(here, "api/search")


def test_a_taken_port_is_an_error_of_the_command(lake: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InvalidRequestError, match="name another port"):
        serve([Catalog(lake)], Door(port=taken.getsockname()[1]), on_start=print)


@pytest.mark.parametrize(
    "door",
    [Door(host="0.0.0.0"), Door(host="::"), Door(token="short"), Door(token="ü" * 20), Door(token="a b" * 9)],
)
def test_a_door_is_not_open_to_everyone(door: Door) -> None:
    with pytest.raises(InvalidRequestError):
        door.check()


def test_what_is_written_later_is_served_after_a_refresh(lake: Path) -> None:
    catalog = Catalog(lake)
    state = PageState(lambda: known_fields(catalog), refresh_seconds=0)
    before = state.index().fingerprints
    assert state.index().fingerprints == before

    write_fields(make_table(catalog, "db.new", "x"), {"x": [(catalog.load_table("db.report"), "total")]})

    assert state.index().fingerprints != before
    state.close()


def connect(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").strip("/").partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


@pytest.mark.parametrize("begun", [b"", b"GET /api/search HTTP/1.1\r\nHost: "], ids=["silent", "half a request"])
def test_idle_connections_lock_nobody_out(lake: Path, begun: bytes) -> None:
    with served(lake) as (_, address), ExitStack() as opened:
        for _ in range(900):
            opened.enter_context(connect(address)).sendall(begun)
        assert get(address, "api/search")["total"] == 2


def test_a_connection_without_a_whole_request_is_closed(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.lineage.server.serving.HEADERS_SECONDS", 0.3)
    state = PageState(lambda: known_fields(Catalog(lake)))
    listening = listening_socket("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(page_app(state), http=Connection, lifespan="off", log_level="error"))
    serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    serving.start()
    try:
        with socket.create_connection(listening.getsockname(), timeout=60) as silent:
            assert silent.recv(1) == b""
        with socket.create_connection(listening.getsockname(), timeout=60) as slow, suppress(OSError):
            slow.sendall(b"GET / HTTP/1.1\r\nx: ")
            slow.settimeout(0.05)
            while True:  # refused once the server has closed it
                slow.sendall(b"x")
                with suppress(TimeoutError):
                    assert slow.recv(1) == b""
                    break
    finally:
        server.should_exit = True
        serving.join()
        state.close()
