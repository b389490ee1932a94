"""A cache of parsed small files that may be replaced: an item is returned only for the same bytes.

Every commit and read reads snapshots, and parsing one takes longer than reading its file. Tags have a cache of their
own, which needs no read: `lakelog.filestore.metadata.snapshots.tag_cache`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from lakelog.common.bounded_cache import BoundedCache

Item = TypeVar("Item")
_FILE_BYTES_MAX = 64 << 10  # a larger file is parsed each time
_SIZE_RATIO = 4  # memory of an item, in addition to its bytes


class ParsedFiles(Generic[Item]):
    """The files that a process has parsed and used last, up to a number of bytes. Thread-safe."""

    def __init__(self, bytes_max: int) -> None:
        self._held: BoundedCache[str, tuple[bytes, Item]] = BoundedCache(bytes_max=bytes_max)

    def get(self, path: str, data: bytes) -> Item | None:
        """The item parsed from these bytes of the file; None if it is not cached."""
        held = self._held.get(_key(path, data))
        return held[1] if held is not None and held[0] == data else None

    def put(self, path: str, data: bytes, item: Item) -> None:
        """Cache the item parsed from the bytes of the file."""
        if len(data) <= _FILE_BYTES_MAX:
            self._held.add(_key(path, data), (data, item), _SIZE_RATIO * len(data))

    def clear(self) -> None:
        """Drop all items."""
        self._held.clear()


def _key(path: str, data: bytes) -> str:
    return f"{path}\0{hash(data)}"
