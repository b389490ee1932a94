"""A cache of the parsed contents of files that never change, by path, within a memory limit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

Item = TypeVar("Item")
_OVERHEAD_BYTES = 200  # of one cached file


class NameCache(Generic[Item]):
    """The items of files, by path: those of the most recently used files, up to a total number of bytes.

    Safe to share between threads, and by all tables of a process: the names of files are unique.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[tuple[Item, ...], int]] = OrderedDict()
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        """The approximate memory of all cached items."""
        return self._bytes

    def get(self, path: str) -> tuple[Item, ...] | None:
        """The items of the file, or None if they are not cached."""
        with self._lock:
            held = self._held.get(path)
            if held is None:
                return None
            self._held.move_to_end(path)
            return held[0]

    def put(self, path: str, items: tuple[Item, ...], size_bytes: int) -> None:
        """Cache the items of a file, which take about `size_bytes` of memory."""
        with self._lock:
            if path in self._held:
                return
            self._held[path] = (items, size_bytes + _OVERHEAD_BYTES)
            self._bytes += size_bytes + _OVERHEAD_BYTES
            while self._bytes > self._bytes_max and self._held:
                _, (_, dropped) = self._held.popitem(last=False)
                self._bytes -= dropped

    def clear(self) -> None:
        """Drop all items."""
        with self._lock:
            self._held.clear()
            self._bytes = 0
