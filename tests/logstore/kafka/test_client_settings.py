"""The settings that clients of Kafka are made with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from lakelog.logstore.kafka.clients.clients import make_client

SERVERS = {"bootstrap.servers": "kafka:9092"}


def settings_of(given: Mapping[str, Any], **_logger: object) -> Mapping[str, Any]:
    """In place of a client: its settings."""
    return given


@pytest.mark.parametrize(("given", "expected"), [({}, "22"), ({"reconnect.backoff.ms": "500"}, "500")])
def test_a_client_connects_soon_unless_the_user_says_otherwise(given: dict[str, str], expected: str) -> None:
    made = make_client(settings_of, SERVERS | given, {"group.id": "x"})
    assert made["reconnect.backoff.ms"] == expected
    assert made["group.id"] == "x"
