"""A cache with a bound: what was not used for the longest time makes room."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
_OVERHEAD_BYTES = 200  # of one value


class BoundedCache(Generic[Key, Value]):
    """The values used last, up to a number of them, or of bytes of memory. Safe to share between threads."""

    def __init__(self, count_max: int = 0, *, bytes_max: int = 0) -> None:
        """Give one of the two bounds."""
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._held: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        """The approximate memory of all values."""
        return self._bytes

    def __contains__(self, key: Key) -> bool:
        return key in self._held

    def values(self) -> list[Value]:
        """All values, the one that was not used for the longest time first."""
        with self._lock:
            return [value for value, _ in self._held.values()]

    def get(self, key: Key) -> Value | None:
        """The value of a key, or None."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return None
            self._held.move_to_end(key)
            return held[0]

    def put(self, key: Key, value: Value, size_bytes: int = 0) -> None:
        """Hold a value in place of an earlier one of its key."""
        with self._lock:
            self._drop(key)
            self._hold(key, value, size_bytes)

    def add(self, key: Key, value: Value, size_bytes: int = 0) -> None:
        """Hold a value, unless there is one of its key."""
        with self._lock:
            if key not in self._held:
                self._hold(key, value, size_bytes)

    def take(self, key: Key) -> Value | None:
        """The value of a key, which is held no longer; None without one."""
        with self._lock:
            return self._drop(key)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._held.clear()
            self._bytes = 0

    def _hold(self, key: Key, value: Value, size_bytes: int) -> None:
        self._held[key] = value, size_bytes + _OVERHEAD_BYTES
        self._bytes += size_bytes + _OVERHEAD_BYTES
        while len(self._held) > self._count_max if self._count_max else self._bytes > self._bytes_max:
            _, (_, dropped) = self._held.popitem(last=False)
            self._bytes -= dropped

    def _drop(self, key: Key) -> Value | None:
        held = self._held.pop(key, None)
        if held is None:
            return None
        self._bytes -= held[1]
        return held[0]
