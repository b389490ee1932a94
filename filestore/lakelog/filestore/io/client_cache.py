"""Clients of object stores and HDFS: one for each in a process, and none after a fork from a process with clients."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from lakelog.common.errors import InvalidRequestError

Client = TypeVar("Client")


class ClientCache(Generic[Client]):
    """The clients of one kind of store, by the settings that made them. A fork does not copy their threads."""

    def __init__(self, store: str) -> None:
        """Start without clients; `store` names the kind of store in errors."""
        self._store = store
        self._clients: dict[Hashable, Client] = {}
        self._lock = threading.Lock()
        self._is_orphaned = False
        os.register_at_fork(after_in_child=self._note_fork)

    def get(self, key: Hashable, make: Callable[[], Client]) -> Client:
        """The client of a key, created if missing. Raises InvalidRequestError if a client would wait forever."""
        if self._is_orphaned:
            raise InvalidRequestError(
                f"this process was forked from one that had used {self._store}, whose client does not work "
                "after a fork; start processes with multiprocessing.get_context('spawn'), or fork before the first use"
            )
        with self._lock:
            client = self._clients.get(key)
            if client is None:
                client = self._clients[key] = make()
            return client

    def _note_fork(self) -> None:
        self._is_orphaned = self._is_orphaned or bool(self._clients)
