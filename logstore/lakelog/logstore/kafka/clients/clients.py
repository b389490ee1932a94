"""Kafka clients: created with the user's configuration, and kept for the next use in this process."""

from __future__ import annotations

import logging
import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, Generic, TypeVar  # Any: settings of Kafka clients are of many types

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from lakelog.common.errors import OptionError, UnavailableError
from lakelog.logstore.client_settings import SERVERS_WAYS, without_secrets
from lakelog.logstore.kafka.clients.connection_errors import CONNECTION_ERRORS, collect_errors
from lakelog.logstore.kafka.clients.kafka_errors import kafka_error, servers_of
from lakelog.logstore.kafka.clients.rights import Right

_DEFAULTS = {
    "client.id": "lakelog",
    # Else a client whose brokers are all down makes threads of new ones again and again, which leak (librdkafka 2.16).
    "metadata.recovery.strategy": "none",
    # A new client waits half of it, at least 11 ms, before it connects to the broker that its first answer names: with
    # the default, 100, it is connected after 60 ms in place of 20. Later attempts wait longer and longer, as ever.
    "reconnect.backoff.ms": "22",
}
ANSWER_SECONDS = 10.0  # how long a broker may take to answer a request
_CLOSE_SECONDS = 1.0
_GRACE_SECONDS = 1.0  # the client itself ends a request; this is for one that does not

Client = TypeVar("Client")
Answer = TypeVar("Answer")
Key = tuple[object, ...]
Request = Callable[[AdminClient, float], Mapping[Any, Future[Answer]]]

_log = logging.getLogger("lakelog.kafka")
_log.addHandler(logging.NullHandler())  # otherwise Python prints warnings of a library without a handler


def make_client(kind: Callable[..., Client], client_config: Mapping[str, str], settings: Mapping[str, Any]) -> Client:
    """A client with the user's configuration, which `settings` override.

    Its log lines go to the logger `lakelog.kafka`. Raises OptionError for a configuration that the client refuses.
    """
    if not client_config.get("bootstrap.servers"):
        raise OptionError("option 'log.kafka.bootstrap.servers' is not set; expected host:port of a Kafka broker")
    given = {**_DEFAULTS, "error_cb": CONNECTION_ERRORS.listener(client_config), **client_config}
    try:
        return kind({**given, **settings}, logger=_log)
    except (KafkaException, ValueError, TypeError) as error:
        reason = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        raise OptionError(
            f"the Kafka client refuses its configuration: {without_secrets(reason, client_config)}; correct it"
            " where it was given: the table's option 'log.kafka.*', a profile, LAKELOG_KAFKA_* or the call"
        ) from None  # the cause may quote a secret


def connect(client: AdminClient | Producer | Consumer, seconds: float, *, topic: str | None = None) -> None:
    """Wait until a new client is connected to a broker that has been named to it. Raises KafkaException.

    `topic` limits the requested metadata to one topic; without it the metadata of all topics are requested.

    A client starts with the given addresses, and drops these connections once an answer has named the brokers. A
    pending request is lost then, and sent again after half a second to three (librdkafka 2.16). So here the first
    answer names the brokers, and the second comes from one of them.
    """
    try:
        for _ in range(2):
            client.list_topics(topic, seconds)
    except KafkaException:
        collect_errors(client)
        raise


def close_consumer(consumer: Consumer) -> None:
    """Leave the broker. Returns also where the client does not end: it may wait for its broker forever.

    Source: issue 3740 of librdkafka.
    """
    if sys.is_finalizing():  # no thread starts any more
        consumer.close()
        return
    closing = Thread(target=consumer.close, name="lakelog-close", daemon=True)
    closing.start()
    closing.join(_CLOSE_SECONDS)


def config_key(client_config: Mapping[str, str]) -> Key:
    """A configuration as a dictionary key."""
    return tuple(sorted(client_config.items()))


class ClientPool(Generic[Client]):
    """Clients that are open and idle, at most `size_max` of them; the least recently used one is closed first."""

    def __init__(self, size_max: int, close: Callable[[Client], object]) -> None:
        self._size_max = size_max
        self._close = close
        self._lock = Lock()
        self._idle: OrderedDict[Key, Client] = OrderedDict()
        self._left_to_parent: list[OrderedDict[Key, Client]] = []
        os.register_at_fork(after_in_child=self._forget)

    def take(self, key: Key) -> Client | None:
        """Take the idle client of `key` out of the pool; None without one."""
        with self._lock:
            return self._idle.pop(key, None)

    def put(self, key: Key, client: Client) -> None:
        """Keep a client that is not in use."""
        dropped: list[Client] = []
        with self._lock:
            older = self._idle.pop(key, None)
            if older is not None:
                dropped.append(older)
            self._idle[key] = client
            while len(self._idle) > self._size_max:
                dropped.append(self._idle.popitem(last=False)[1])
        for idle in dropped:
            self._close(idle)

    def look(self, key: Key) -> Client | None:
        """The client of `key`, which stays in the pool: for clients that threads share."""
        with self._lock:
            return self._idle.get(key)

    def drop(self, key: Key, client: Client) -> None:
        """Close this client, if it is the one of `key`."""
        with self._lock:
            if self._idle.get(key) is not client:
                return
            del self._idle[key]
        self._close(client)

    def clear(self) -> None:
        """Close every idle client."""
        with self._lock:
            clients = list(self._idle.values())
            self._idle.clear()
        for client in clients:
            self._close(client)

    def _forget(self) -> None:
        # A fork does not copy the threads of a client: the child can neither use it nor close it.
        self._left_to_parent.append(self._idle)
        self._idle = OrderedDict()
        self._lock = Lock()


class _UnknownAnswerError(Exception):
    """A client has answered without an error, and the answer means that it does not know the value."""


def any_answer(_answer: object) -> bool:
    """The test for requests whose answers are either what was asked for, or errors."""
    return True


_admins: ClientPool[AdminClient] = ClientPool(4, close=lambda _admin: None)


def ask(
    client_config: Mapping[str, str],
    doing: str,
    request: Request[Answer],
    *,
    may_repeat: bool = True,
    seconds: float = ANSWER_SECONDS,
    rights: Sequence[Right] = (),
    is_known: Callable[[Answer], bool] = any_answer,
) -> list[Answer]:
    """The answers to an admin request, in its order, after `seconds` at most.

    `rights` are the rights that the answers need, in their order; the last right is that of all further answers. An
    answer that is not `is_known` does not count: a broker that dies while it is asked leaves answers without an error.

    All threads share one client. After a restart of the broker a client that was open before may fail forever. So a
    kept client gets half of the time, and if it fails, a new one gets the other half; a request that may not be
    repeated goes to a new client at once. Raises the errors of `kafka_error`.
    """
    key = config_key(client_config)
    kept = _admins.look(key) if may_repeat else None
    if kept is not None:
        try:
            return _ask(kept, request, seconds / 2, [], is_known)
        except (KafkaException, TimeoutError, _UnknownAnswerError):
            _admins.drop(key, kept)
    limit_seconds = seconds if kept is None else seconds / 2
    answers: list[Answer] = []
    try:
        return _ask(_new_admin(client_config, key, limit_seconds), request, limit_seconds, answers, is_known)
    except KafkaException as error:
        right = rights[min(len(answers), len(rights) - 1)] if rights else None
        raise kafka_error(error.args[0], doing, client_config, right=right) from error
    except TimeoutError as error:
        raise UnavailableError(
            f"{doing}: Kafka at {servers_of(client_config)} did not answer in {seconds:.0f} s; check that the"
            f" brokers run and that {SERVERS_WAYS} names them, then try again"
        ) from error
    except _UnknownAnswerError as error:
        raise UnavailableError(
            f"{doing}: Kafka at {servers_of(client_config)} gave neither an answer nor an error, as when a broker is"
            " stopped while it is asked; check that the brokers run, then try again"
        ) from error


def _ask(
    admin: AdminClient,
    request: Request[Answer],
    seconds: float,
    answers: list[Answer],
    is_known: Callable[[Answer], bool],
) -> list[Answer]:
    """Ask, and add the answers one by one."""
    try:
        for future in request(admin, seconds).values():
            answer = future.result(seconds + _GRACE_SECONDS)
            if not is_known(answer):
                raise _UnknownAnswerError
            answers.append(answer)  # answers before an error are counted
    except (KafkaException, TimeoutError, _UnknownAnswerError):
        collect_errors(admin)
        raise
    return answers


def _new_admin(client_config: Mapping[str, str], key: Key, seconds: float) -> AdminClient:
    admin = make_client(AdminClient, client_config, {})
    connect(admin, seconds)
    _admins.put(key, admin)
    return admin
