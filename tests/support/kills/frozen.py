"""A process that stands still: alive, its connections open, and it answers nobody."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop all threads of a process while the block runs. `kill` returns before they have stopped: this waits."""
    os.kill(pid, signal.SIGSTOP)
    try:
        while not all(_is_stopped(thread) for thread in Path(f"/proc/{pid}/task").iterdir()):
            os.sched_yield()
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _is_stopped(thread: Path) -> bool:
    try:
        fields = (thread / "stat").read_text("ascii").rpartition(") ")[2]
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return True
    return fields.startswith("T")
