"""A process that is killed before it changes a file for the time that a test names.

What counts are the calls of the operating system, as Python's audit events name them: a folder is deleted file by file.
"""

from __future__ import annotations

import os
import signal
import sys

_CHANGES = frozenset({"os.rename", "os.link", "os.remove", "os.rmdir", "os.mkdir", "os.truncate"})
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def die_before_change(number: int) -> None:
    """Let this process be killed by SIGKILL before its change of this number from now on, from 1 on."""
    left = number

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        if event in _CHANGES or (event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
