"""Why a client has no connection: the reason that its callback gave, for requests that fail without a reason.

A request to a broker that refuses the connection fails with "transport failure" or a time-out. The reason, such as a
wrong password or a certificate of an unknown authority, goes only to the client's error callback. Source: librdkafka's
INTRODUCTION.md, "Error handling".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

NAME_CODES = frozenset({KafkaError._RESOLVE})
LOGIN_CODES = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError.UNSUPPORTED_SASL_MECHANISM}
)
TLS_CODES = frozenset({KafkaError._SSL})
_VAGUE_CODES = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._FAIL,
        KafkaError._NOENT,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._TRANSPORT,
    }
)
_WRONG_PROTOCOL = "security.protocol"  # librdkafka guesses this after answers that make no sense
_VALID_SECONDS = 60.0
_KEPT_MAX = 100
_Key = tuple[tuple[str, str], ...]


class ConnectionErrors:
    """The last reason for each configuration. Shared by all threads of a process."""

    def __init__(self) -> None:
        """Start without a reason."""
        self._lock = Lock()
        self._last: dict[_Key, tuple[float, KafkaError]] = {}

    def listener(self, client_config: Mapping[str, str]) -> Callable[[KafkaError], None]:
        """The error callback of a client with this configuration."""
        key = _key(client_config)

        def note(error: KafkaError) -> None:
            if _is_reason(error):
                with self._lock:
                    self._last[key] = (time.monotonic(), error)
                    while len(self._last) > _KEPT_MAX:
                        del self._last[next(iter(self._last))]

        return note

    def explained(self, error: KafkaError, client_config: Mapping[str, str]) -> KafkaError:
        """The reason noted in the last minute in place of an error without a reason; else the error itself."""
        if error.code() not in _VAGUE_CODES:
            return error
        with self._lock:
            noted_at, reason = self._last.get(_key(client_config), (0.0, error))
        return reason if time.monotonic() - noted_at < _VALID_SECONDS else error


CONNECTION_ERRORS = ConnectionErrors()


def collect_errors(client: AdminClient | Producer | Consumer) -> None:
    """Let an admin client or producer call its error callback now; a consumer calls it when it polls.

    Called after a failure: a client with a fatal error raises this error again here.
    """
    if not isinstance(client, Consumer):
        with suppress(KafkaException, SystemError):
            client.poll(0)


def _is_reason(error: KafkaError) -> bool:
    return error.code() in NAME_CODES | LOGIN_CODES | TLS_CODES or _WRONG_PROTOCOL in error.str()


def _key(client_config: Mapping[str, str]) -> _Key:
    return tuple(sorted(client_config.items()))
