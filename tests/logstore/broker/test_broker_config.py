from __future__ import annotations

import random
from pathlib import Path

import pytest

from lakelog.common.errors import CorruptDataError
from lakelog.logstore.broker.broker_config import Endpoint, choose_endpoint, server_properties


def test_an_endpoint_survives_its_file(tmp_path: Path) -> None:
    endpoint = choose_endpoint(random.Random(1))

    endpoint.write(tmp_path / "endpoint.json")

    assert Endpoint.read(tmp_path / "endpoint.json") == endpoint
    assert [path.name for path in tmp_path.iterdir()] == ["endpoint.json"]


def test_an_unreadable_endpoint_is_named(tmp_path: Path) -> None:
    (tmp_path / "endpoint.json").write_text('{"port": 1}')

    with pytest.raises(CorruptDataError, match=r"endpoint.json is not readable"):
        Endpoint.read(tmp_path / "endpoint.json")


def test_ports_lie_outside_the_range_of_outgoing_connections() -> None:
    endpoints = [choose_endpoint(random.Random(seed)) for seed in range(20)]

    assert all(20_000 <= port < 32_000 for e in endpoints for port in (e.port, e.controller_port))
    assert all(e.port != e.controller_port for e in endpoints)


def test_the_broker_listens_on_loopback_only() -> None:
    text = server_properties(choose_endpoint(random.Random(1)), Path("/data"))
    settings = dict(line.split("=", 1) for line in text.splitlines())

    hosts = [part.split("://")[1].split(":")[0] for part in settings["listeners"].split(",")]
    assert hosts == ["127.0.0.1", "127.0.0.1"]


def test_a_folder_with_odd_letters_is_escaped_for_java() -> None:
    text = server_properties(choose_endpoint(random.Random(1)), Path("/a b\\ü😀"))

    assert "log.dirs=/a b\\\\\\u00fc\\ud83d\\ude00\n" in text
