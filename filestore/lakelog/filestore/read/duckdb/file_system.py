"""The file system of fsspec by which DuckDB opens `served_files`; imported when it does, since fsspec is large."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Any  # Any: duckdb and fsspec have no types here

from fsspec import AbstractFileSystem

from lakelog.common.errors import NotFoundError
from lakelog.filestore.formats.blocks.shared_input import SharedFile
from lakelog.filestore.read.duckdb.served_files import PROTOCOL, SERVED, ServedFiles

_WRITTEN = datetime(1970, 1, 1, tzinfo=UTC)  # a file has its own name for each read, so it never changes


def register(connection: Any) -> None:
    """Let a DuckDB open the files, if it cannot yet. Raises what DuckDB raises."""
    with _REGISTERING:
        if not connection.filesystem_is_registered(PROTOCOL):
            connection.register_filesystem(_FILES)


class _VerifiedFiles(AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The files of all reads, as DuckDB asks for them."""

    protocol = PROTOCOL
    cachable = False

    def open(self, path: str, *_: object, **__: object) -> SharedFile:
        """Open a file to read."""
        own, number = _found(path)
        return own.opened(number)

    def info(self, path: str, **_: object) -> dict[str, object]:
        """What is known about a file."""
        own, number = _found(path)
        return {"name": path, "size": own.size(number), "type": "file"}

    def glob(self, path: str, *_: object, **__: object) -> list[str]:
        """The path itself: it has no wildcards."""
        return [path]

    def modified(self, path: str) -> datetime:  # noqa: ARG002  # fsspec's
        """The same for each file."""
        return _WRITTEN


def _found(path: str) -> tuple[ServedFiles, int]:
    name, _, number = path.removeprefix(f"{PROTOCOL}://").partition("/")
    own = SERVED.get(name)
    if own is None:
        raise NotFoundError(f"{path} is a file of a relation of `to_duckdb` that is deleted; make the relation again")
    return own, int(number)


_FILES = _VerifiedFiles()
_REGISTERING = threading.Lock()
