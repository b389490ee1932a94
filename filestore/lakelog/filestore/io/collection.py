"""Pauses Python's garbage collector while many objects are created that all stay in use."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_enabled = False


@contextmanager
def paused_collection() -> Iterator[None]:
    """Prevent cyclic collection during the block, in any thread: it would visit all new objects again and again.

    Reference counting continues. Collection is set back when the last of nested or parallel pauses ends.
    """
    global _pauses, _was_enabled  # noqa: PLW0603 - the collector is one for the whole process
    with _lock:
        if _pauses == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1
    try:
        yield
    finally:
        with _lock:
            _pauses -= 1
            if _pauses == 0 and _was_enabled:
                gc.enable()
