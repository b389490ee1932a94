"""Settings of Kafka clients that are harmless in a table: time-outs and sizes. Pure.

Each has the values that librdkafka accepts, so that a table with another value is refused when it is created and not by
the first stream. Rules between settings, such as `fetch.max.bytes` and `message.max.bytes`, are left to librdkafka.
Source: librdkafka 2.16, CONFIGURATION.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_INT_MAX = 2_147_483_647
_NUMBERS: Mapping[str, tuple[int, int]] = {  # the least and the most
    "batch.num.messages": (1, 1_000_000),
    "batch.size": (1, _INT_MAX),
    "compression.level": (-1, 12),
    "connections.max.idle.ms": (0, _INT_MAX),
    "delivery.timeout.ms": (0, _INT_MAX),
    "fetch.error.backoff.ms": (0, 300_000),
    "fetch.max.bytes": (0, 2_147_483_135),
    "fetch.message.max.bytes": (1, 1_000_000_000),
    "fetch.min.bytes": (1, 100_000_000),
    "fetch.queue.backoff.ms": (0, 300_000),
    "fetch.wait.max.ms": (0, 300_000),
    "linger.ms": (0, 900_000),
    "max.partition.fetch.bytes": (1, 1_000_000_000),
    "message.max.bytes": (1_000, 1_000_000_000),
    "message.timeout.ms": (0, _INT_MAX),
    "metadata.max.age.ms": (1, 86_400_000),
    "queue.buffering.max.kbytes": (1, _INT_MAX),
    "queue.buffering.max.messages": (0, _INT_MAX),
    "queue.buffering.max.ms": (0, 900_000),
    "queued.max.messages.kbytes": (1, 2_097_151),
    "queued.min.messages": (1, 10_000_000),
    "receive.message.max.bytes": (1_000, _INT_MAX),
    "reconnect.backoff.max.ms": (0, 3_600_000),
    "reconnect.backoff.ms": (0, 3_600_000),
    "request.timeout.ms": (1, 900_000),
    "retry.backoff.max.ms": (1, 300_000),
    "retry.backoff.ms": (1, 300_000),
    "socket.connection.setup.timeout.ms": (1_000, _INT_MAX),
    "socket.receive.buffer.bytes": (0, 100_000_000),
    "socket.send.buffer.bytes": (0, 100_000_000),
    "socket.timeout.ms": (10, 300_000),
    "transaction.timeout.ms": (1_000, _INT_MAX),
}
_WITH_DECIMALS = frozenset({"linger.ms", "queue.buffering.max.ms"})
_BOOLEANS = ("true", "false", "1", "0")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_WORDS: Mapping[str, tuple[str, ...]] = {
    "broker.address.family": ("any", "v4", "v6"),
    "compression.codec": _CODECS,
    "compression.type": _CODECS,
    "socket.keepalive.enable": _BOOLEANS,
    "socket.nagle.disable": _BOOLEANS,
}
_STRINGS = frozenset({"client.id", "client.rack"})
HARMLESS = _NUMBERS.keys() | _WORDS.keys() | _STRINGS
_NUMBER = re.compile(r"-?[0-9]{1,10}")
_DECIMALS = re.compile(r"(\.[0-9]{1,10})?$")


def expected_instead(key: str, value: str) -> str | None:
    """The expected values of a harmless setting, if its value does not fit; None if it does."""
    value = value.strip()
    if key in _NUMBERS:
        low, high = _NUMBERS[key]
        whole = _DECIMALS.sub("", value, count=1) if key in _WITH_DECIMALS else value
        fits = _NUMBER.fullmatch(whole) is not None and low <= float(value) <= high
        return None if fits else f"a number from {low} to {high}"
    words = _WORDS.get(key)
    if words is None or value.lower() in words:
        return None
    return f"one of {', '.join(words)}"
