"""Locks between processes, which the kernel drops when their holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakelog.common.errors import UnavailableError

_POLL_SECONDS = 0.02


@contextmanager
def exclusive_lock(path: Path, *, timeout_seconds: float, purpose: str) -> Iterator[int]:
    """Hold the lock file `path`, whose descriptor it gives; waits while another process holds it.

    A child process that inherits the descriptor holds the lock too, until it ends. Raises UnavailableError,
    naming `purpose`, when the lock is not free in time, its folder cannot be written, or the path is a link.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise UnavailableError(f"the lock {path} ({purpose}) cannot be made: {error}") from error
    try:
        if not _wait_for(descriptor, fcntl.LOCK_EX, timeout_seconds):
            raise UnavailableError(
                f"another process holds {path} ({purpose}) for more than {timeout_seconds:g} s; wait for it or end it"
            )
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock file `path` exclusively."""
    return not wait_until_free(path, timeout_seconds=0)


def wait_until_free(path: Path, *, timeout_seconds: float) -> bool:
    """Wait until no process holds the lock file `path`; False if one still does after the time-out.

    Raises UnavailableError for a file that cannot be opened, and for a link.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise UnavailableError(f"the lock {path} cannot be opened: {error}") from error
    try:
        return _wait_for(descriptor, fcntl.LOCK_SH, timeout_seconds)
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, kind: int, timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True
