"""The tags that a process has read, so that an expiry of a table with a thousand tags does not read them each time.

A tag's file may be replaced. It counts as the same file while its time and size are the same. It is cached only if it
was so old when it was read that no later change can have its time: stores count in milliseconds or in seconds.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakelog.filestore.io.fileio import FileEntry
    from lakelog.filestore.metadata.snapshots.tag_file import Tag

_SETTLED_MILLIS = 2_000
_SETTLED_OF_SECONDS_MILLIS = 60_000  # an object store has another clock
_TAGS_MAX = 20_000

_held: dict[str, tuple[int, int, Tag]] = {}
_lock = threading.Lock()


def cached_tag(path: str, entry: FileEntry) -> Tag | None:
    """The cached tag of a file that has not changed since it was read; None for any other file."""
    found = _held.get(path)
    if found is None or found[:2] != (entry.modified_millis, entry.size_bytes):
        return None
    return found[2]


def cache_tag(path: str, entry: FileEntry, tag: Tag, *, read_millis: int) -> None:
    """Cache the tag that a file held when it was read, after its listing."""
    is_of_seconds = entry.modified_millis % 1_000 == 0
    settled = _SETTLED_OF_SECONDS_MILLIS if is_of_seconds else _SETTLED_MILLIS
    if read_millis - entry.modified_millis < settled:
        return
    with _lock:
        if len(_held) >= _TAGS_MAX:
            _held.clear()
        _held[path] = entry.modified_millis, entry.size_bytes, tag
