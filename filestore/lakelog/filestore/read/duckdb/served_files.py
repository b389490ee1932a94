"""The reads whose files DuckDB opens by `file_system`: each as long as its owner holds it."""

from __future__ import annotations

from typing import Protocol
from weakref import WeakValueDictionary

from lakelog.filestore.formats.blocks.shared_input import SharedFile

PROTOCOL = "lakelog"


class ServedFiles(Protocol):
    """The files of a read, by their numbers."""

    def opened(self, number: int) -> SharedFile:
        """Open a file. Raises NotFoundError, CorruptDataError."""

    def size(self, number: int) -> int:
        """The bytes of a file."""


SERVED: WeakValueDictionary[str, ServedFiles] = WeakValueDictionary()
