"""This machine's clock, and how long something has lasted.

Code that depends on the time takes the time or the clock as an argument, so that a test can set it.
"""

from __future__ import annotations

import time


def system_millis() -> int:
    """The time in milliseconds since 1970, by this machine's clock."""
    return time.time_ns() // 1_000_000


class Stopwatch:
    """The time since it was created: the longer one of the monotonic clock and the wall clock.

    The monotonic clock stands still while a machine sleeps, and the wall clock may be set back.
    """

    def __init__(self) -> None:
        """Start."""
        self._monotonic, self._wall = time.monotonic(), time.time()

    def seconds(self) -> float:
        """Seconds since the start, a machine's sleep included."""
        return max(time.monotonic() - self._monotonic, time.time() - self._wall)

    def millis(self) -> int:
        """As `seconds`, in whole milliseconds."""
        return round(self.seconds() * 1000)
