"""Clients that are closed: also those that wait for a broker which does not answer."""

from __future__ import annotations

import threading
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
