"""This machine's clock. What depends on it takes the time as an argument, or the clock, so that a test can own it."""

from __future__ import annotations

import time


def system_millis() -> int:
    """The time in milliseconds since 1970, by this machine's clock."""
    return time.time_ns() // 1_000_000
