"""The web service of docs/guide/service.md, as two processes of uvicorn; one of them is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any  # Any: JSON

import httpx2
import pytest

from lakelog.catalog import Catalog
from tests.test_docs import blocks

pytestmark = pytest.mark.integration

PAGE = "docs/guide/service.md"
STARTED = re.compile(r"Uvicorn running on (http://127\.0\.0\.1:\d+)")
ANSWER_SECONDS = 60.0


@dataclass(slots=True)
class Service:
    """A process that serves the page's application."""

    process: subprocess.Popen[bytes]
    address: str
    lines: list[dict[str, Any]] = field(default_factory=list)

    def put(self, number: int, status: str) -> str:
        """Write an order; returns its position."""
        answer = httpx2.put(f"{self.address}/orders", json={"id": number, "status": status}, timeout=ANSWER_SECONDS)
        assert answer.status_code == 200, answer.text
        position: str = answer.json()["position"]
        return position

    def status_of(self, number: int) -> str | None:
        """The status of an order; None without one."""
        answer = httpx2.get(f"{self.address}/orders/{number}", timeout=ANSWER_SECONDS)
        if answer.status_code == 404:
            return None
        assert answer.status_code == 200, answer.text
        status: str = answer.json()["status"]
        return status

    def listen(self) -> None:
        """Add each change to `lines`, until the process ends."""
        try:
            with httpx2.stream("GET", f"{self.address}/changes", timeout=None) as answer:
                for line in answer.iter_lines():
                    self.lines.append(json.loads(line))
        except httpx2.HTTPError:
            self.process.wait(ANSWER_SECONDS)  # only a kill ends the answer

    def kill(self) -> None:
        """End the process at once."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def serving(folder: Path, name: str) -> Iterator[Service]:
    """A process that serves, until it is killed at the latest at the end."""
    said = folder / f"{name}-{time.monotonic_ns()}.log"
    with said.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "service:app", "--port", "0"],
            cwd=folder,
            env={**os.environ, "SERVICE": name},
            stderr=written,
        )
    try:
        yield Service(process, _address(process, said))
    finally:
        process.kill()
        process.wait()


def _address(process: subprocess.Popen[bytes], said: Path) -> str:
    while process.poll() is None:
        if found := STARTED.search(said.read_text()):
            return found[1]
        time.sleep(0.05)
    raise AssertionError(said.read_text())


def test_two_processes_serve_one_table_and_a_kill_loses_no_order(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKELOG_KAFKA_BOOTSTRAP_SERVERS", bootstrap_servers)
    [code] = blocks(PAGE, "python")
    (tmp_path / "service.py").write_text(code)
    expected: dict[int, str] = {}
    with (
        serving(tmp_path, "service-1") as first,
        serving(tmp_path, "service-2") as second,
    ):
        listener = threading.Thread(target=second.listen)
        listener.start()
        number = 0
        while not second.lines:  # from now on it hears of each
            number += 1
            first.put(number, "heard of")
            expected[number] = "heard of"
        for number in range(100, 110):
            writer, reader = (first, second) if number % 2 else (second, first)
            writer.put(number, "new")
            assert reader.status_of(number) == "new"
            reader.put(number, "paid")
            expected[number] = "paid"
            assert writer.status_of(number) == "paid"
        assert first.status_of(99) is None
        first.kill()
        with serving(tmp_path, "service-1") as again:
            again.put(200, "after the kill")
            expected[200] = "after the kill"
            assert {number: second.status_of(number) for number in expected} == expected
        second.kill()
        listener.join(ANSWER_SECONDS)

    heard: dict[int, list[str]] = {}
    for line in second.lines:
        heard.setdefault(line["id"], []).append(line["status"])
    assert {number: heard[number] for number in range(100, 110)} == {
        number: ["new", "paid"] for number in range(100, 110)
    }
    orders = Catalog(tmp_path / "lake").load_table("shop.orders")
    orders.log_store.settle()
    assert {row["id"]: row["status"] for row in orders.to_arrow().to_pylist()} == expected
