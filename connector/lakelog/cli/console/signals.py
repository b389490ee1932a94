"""Ctrl-C while a library runs, which looks at signals when it is done with a part of its work: maybe after seconds."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread


@contextmanager
def ending_by_signal(end: Callable[[], None]) -> Iterator[None]:
    """Call `end`, in another thread, when Ctrl-C is pressed in the block. KeyboardInterrupt is raised as always."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)

    def watch() -> None:
        while found := os.read(reading, 1):  # nothing once the other end is closed
            if found[0] == signal.SIGINT:
                end()

    watcher = Thread(target=watch, name="lakelog-ctrl-c", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
        watcher.join()
        os.close(reading)
