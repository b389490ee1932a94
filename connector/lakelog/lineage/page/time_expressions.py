"""Times in queries: seconds since 1970, or `now` with any number of steps, such as `now-1d+4h`.

Source: CDAP, "Time Math" and its parser: lower case, no spaces, units ms, s, m, h and d.
"""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SECONDS = re.compile(r"[0-9]{1,30}", re.ASCII)
_NOW = re.compile(r"now(?:[+-][0-9]{1,30}(?:ms|s|m|h|d))*", re.ASCII)
_STEP = re.compile(r"([+-])([0-9]+)(ms|s|m|h|d)", re.ASCII)
_TEXT_MAX = 200
_LONG_MAX = (1 << 63) - 1


def seconds_of(text: str, now_seconds: int) -> int:
    """The seconds since 1970 of a time; may be negative. Raises ValueError with CDAP's text."""
    short = text[: _TEXT_MAX + 1]
    if len(text) <= _TEXT_MAX and _SECONDS.fullmatch(text) and int(text) <= _LONG_MAX:
        return int(text)
    if len(text) <= _TEXT_MAX and _NOW.fullmatch(text):
        steps = [_seconds_in(*found) for found in _STEP.findall(text)]
        if all(abs(step) <= _LONG_MAX for step in steps):
            return now_seconds + sum(steps)
    raise ValueError(f"invalid time format {short}")


def _seconds_in(sign: str, count: str, unit: str) -> int:
    seconds = int(count) // 1_000 if unit == "ms" else int(count) * _UNITS[unit]
    return -seconds if sign == "-" else seconds
