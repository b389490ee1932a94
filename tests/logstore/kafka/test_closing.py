"""Clients that are closed: also those that wait for a broker which does not answer."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import cast

import pytest
from confluent_kafka import Consumer

from lakelog.logstore.kafka.clients import clients


class WaitingConsumer:
    """A consumer that does not end before it may."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.has_ended = threading.Event()

    def close(self) -> None:
        self.may_end.wait()
        self.has_ended.set()


def test_a_consumer_that_waits_for_its_broker_is_left_to_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_CLOSE_SECONDS", 0.01)
    waiting = WaitingConsumer()

    clients.close_consumer(cast("Consumer", waiting))

    assert not waiting.has_ended.is_set()
    waiting.may_end.set()
    assert waiting.has_ended.wait(10)


def test_clients_of_a_broker_that_is_down_make_no_threads() -> None:
    """By default librdkafka begins anew with the addresses that it was given: a thread a second, which leaks."""
    with socket.socket() as held:  # no broker answers at this port
        held.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{held.getsockname()[1]}"
        opened = [clients.make_client(Consumer, {"bootstrap.servers": address}, {"group.id": "x"}) for _ in range(5)]
        time.sleep(1)
        begun = set(Path("/proc/self/task").iterdir())
        seen = set(begun)
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            seen |= set(Path("/proc/self/task").iterdir())
        for client in opened:
            clients.close_consumer(client)
    assert len(seen - begun) < 5
