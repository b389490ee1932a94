"""Parts of data files that lookups have read, kept for later lookups, within a memory limit.

An item is a part of one file, which never changes: the bounds of its row groups, or the key columns or the rows of one
row group. Key columns have priority over rows, which make room for them: with the keys of a file a lookup knows which
of its row groups it needs.

An item that was used recently is not replaced by another of its kind. Lookups of random keys use all items in turn:
with more items than room, the least recently used item is the next one needed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Hashable
from dataclasses import dataclass

LOOKUPS_KEPT = 4  # of the item's bucket: an item that none of them has used makes room
_RECENT_LOOKUPS = 64  # by which the buckets in use are counted
_OVERHEAD_BYTES = 200  # of one item


@dataclass(slots=True)
class _Item:
    value: object
    size_bytes: int
    used_at: int  # the number of the lookup


class GroupCache:
    """The kept items of all tables of a process. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: OrderedDict[Hashable, _Item] = OrderedDict()  # the least recently used first, as in `_rows`
        self._rows: OrderedDict[Hashable, _Item] = OrderedDict()
        self._bytes = 0
        self._lookup = 0
        self._recent: deque[str] = deque(maxlen=_RECENT_LOOKUPS)

    @property
    def size_bytes(self) -> int:
        """The approximate memory of all items."""
        return self._bytes

    def begin(self, bucket: str) -> None:
        """Note that a lookup in the bucket of this folder begins."""
        with self._lock:
            self._lookup += 1
            self._recent.append(bucket)

    def get(self, place: Hashable) -> object | None:
        """The item of a place; None if there is none."""
        with self._lock:
            for items in (self._keys, self._rows):
                item = items.get(place)
                if item is not None:
                    items.move_to_end(place)
                    item.used_at = self._lookup
                    return item.value
        return None

    def put_keys(self, place: Hashable, value: object, size_bytes: int, *, bytes_max: int) -> None:
        """Keep an item of keys if all items then take at most `bytes_max`; rows make room for it."""
        with self._lock:
            self._put(self._keys, place, _Item(value, size_bytes + _OVERHEAD_BYTES, self._lookup), bytes_max)

    def put_rows(self, place: Hashable, value: object, size_bytes: int, *, bytes_max: int) -> None:
        """Keep an item of rows if all items then take at most `bytes_max`."""
        with self._lock:
            self._put(self._rows, place, _Item(value, size_bytes + _OVERHEAD_BYTES, self._lookup), bytes_max)

    def _put(self, items: OrderedDict[Hashable, _Item], place: Hashable, item: _Item, bytes_max: int) -> None:
        if place in items or item.size_bytes > bytes_max:
            return
        room = bytes_max - item.size_bytes
        unused_since = self._lookup - LOOKUPS_KEPT * len(set(self._recent))
        for older in (self._rows, self._keys):
            while self._bytes > room and older and next(iter(older.values())).used_at <= unused_since:
                self._drop_oldest(older)
        while self._bytes > room and self._rows and items is self._keys:
            self._drop_oldest(self._rows)
        if self._bytes <= room:
            items[place] = item
            self._bytes += item.size_bytes

    def _drop_oldest(self, items: OrderedDict[Hashable, _Item]) -> None:
        _, item = items.popitem(last=False)
        self._bytes -= item.size_bytes

    def clear(self) -> None:
        """Drop all items."""
        with self._lock:
            self._keys.clear()
            self._rows.clear()
            self._bytes = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheShare:
    """A cache, and the number of bytes up to which the items of one table may fill it."""

    cache: GroupCache
    bytes_max: int
