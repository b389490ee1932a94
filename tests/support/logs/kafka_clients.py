"""Counts of the Kafka clients that are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any  # Any: settings and clients of Kafka

import pytest

from lakelog.logstore.kafka.clients.clients import make_client
from lakelog.logstore.kafka.records import consumer, read_ahead


@contextmanager
def count_consumers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A list that gets an entry for each consumer that this process makes."""
    made: list[str] = []

    def counted(kind: Callable[..., Any], client_config: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
        made.append(kind.__name__)
        return make_client(kind, client_config, settings)

    with monkeypatch.context() as patch:
        for module in (consumer, read_ahead):
            patch.setattr(module, "make_client", counted)
        yield made
