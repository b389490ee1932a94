"""Makes files of this machine durable, several at once: the system writes them to the disk together.

A call that makes one file durable waits for the disk, and on most file systems for the journal of all files. So the
data files of a write need not be durable when they are written: `LaterSyncs` collects them. A commit makes them durable
together with its manifests, before a snapshot names them; a logged write beside Kafka, before the log names them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import TypeVar

from lakelog.common.errors import NotFoundError, UnavailableError
from lakelog.common.threads import begun

_THREADS = 8
Item = TypeVar("Item")
_later: ContextVar[list[str] | None] = ContextVar("LaterSyncs", default=None)


class LaterSyncs:
    """The files that a thread writes to local folders inside of `collected`, and does not make durable."""

    def __init__(self) -> None:
        self.paths: list[str] = []  # those of folders too, if names of new folders in them are not durable

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Collect files; may be entered again."""
        token = _later.set(self.paths)
        try:
            yield
        finally:
            _later.reset(token)

    def sync(self) -> None:
        """Make the files and their names durable. Raises NotFoundError and UnavailableError."""
        if self.paths:
            sync_at_once([*dict.fromkeys([*self.paths, *map(os.path.dirname, self.paths)])])


def synced_at_once(items: Iterator[Item]) -> Iterator[Item]:
    """The same items; files that their source writes meanwhile are its own, and are not collected."""
    while True:
        token = _later.set(None)
        try:
            item = next(items)
        except StopIteration:
            return
        finally:
            _later.reset(token)
        yield item


def is_synced_later(path: str) -> bool:
    """Whether a file or folder is made durable by whoever collects such files, which then has its path."""
    paths = _later.get()
    if paths is None:
        return False
    paths.append(path)
    return True


def sync_at_once(paths: Sequence[str]) -> None:
    """Make files, and the names in folders, durable. Raises NotFoundError and UnavailableError.

    A folder that the file system cannot sync is left out.
    """
    if len(paths) > 1:
        pool = _threads.pool()
        for synced in [begun(pool, partial(_sync, path)) for path in paths]:
            synced.result()
    else:
        for path in paths:
            _sync(path)


def _sync(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise NotFoundError(f"{path} does not exist") from error
    except OSError as error:
        if not os.path.isdir(path):  # noqa: PTH112  # paths are strings, as everywhere in the file store
            raise UnavailableError(f"{path}: {error.strerror or error}") from error


class _Threads:
    """The threads that wait for the disk. A process that was forked starts its own."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)

    def pool(self) -> ThreadPoolExecutor:
        """The threads, started if there are none."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_THREADS, "lakelog-sync")
            return self._pool

    def _forget(self) -> None:
        self._pool, self._lock = None, threading.Lock()


_threads = _Threads()
