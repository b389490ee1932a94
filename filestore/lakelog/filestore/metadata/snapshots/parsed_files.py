"""A cache of what small files parse to, for files that may be replaced: an item is given for the same bytes alone.

Snapshots are read by every commit and read, and to parse one takes longer than to read it. Tags have a cache of their
own, which needs no read: `lakelog.filestore.metadata.snapshots.tag_cache`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from lakelog.filestore.io.name_cache import NameCache

Item = TypeVar("Item")
_FILE_BYTES_MAX = 64 << 10  # a larger file is parsed each time
_SIZE_RATIO = 4  # memory of the bytes and of what they parse to, beside the bytes


class ParsedFiles(Generic[Item]):
    """The parsed files of a process, those used last, up to a number of bytes in all. Safe to share between threads."""

    def __init__(self, bytes_max: int) -> None:
        self._held: NameCache[tuple[bytes, Item]] = NameCache(bytes_max)

    def get(self, path: str, data: bytes) -> Item | None:
        """What these bytes of the file parse to; None when that is not cached."""
        held = self._held.get(_key(path, data))
        return held[0][1] if held is not None and held[0][0] == data else None

    def put(self, path: str, data: bytes, item: Item) -> None:
        """Cache what the bytes of the file parse to."""
        if len(data) <= _FILE_BYTES_MAX:
            self._held.put(_key(path, data), ((data, item),), _SIZE_RATIO * len(data))

    def clear(self) -> None:
        """Drop all items."""
        self._held.clear()


def _key(path: str, data: bytes) -> str:
    return f"{path}\0{hash(data)}"
