"""Which statistics of a column manifests hold, and how long strings in them may be. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TRUNCATE = re.compile(r"^truncate\(\s*(?P<length>[1-9]\d*)\s*\)$")
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsMode:
    """What is kept for a column: null counts, and bounds; strings up to `length` characters, None means any length."""

    has_counts: bool = True
    has_bounds: bool = True
    length: int | None = None


def parse_stats_mode(text: str) -> StatsMode:
    """Parse `none`, `counts`, `truncate(N)` or `full`, in any case. Raises ValueError."""
    word = text.strip().lower()
    if word == "none":
        return StatsMode(has_counts=False, has_bounds=False)
    if word == "counts":
        return StatsMode(has_bounds=False)
    if word == "full":
        return StatsMode()
    match = _TRUNCATE.match(word)
    if match is None:
        raise ValueError("expected none, counts, truncate(N) or full")
    return StatsMode(length=int(match["length"]))


def stats_mode_text(text: str) -> str:
    """`text`, if `parse_stats_mode` accepts it. Raises ValueError."""
    parse_stats_mode(text)
    return text


def truncated_bounds(least: str, most: str, length: int) -> tuple[str, str] | None:
    """Bounds of at most `length` characters around two strings; None if no short string is above `most`."""
    above = _above(most, length)
    return None if above is None else (least[:length], above)


def _above(text: str, length: int) -> str | None:
    """The text, or a prefix of at most `length` characters whose last one is replaced by the next code point.

    None if no character of the prefix has a next code point.
    """
    if len(text) <= length:
        return text
    for at in range(length - 1, -1, -1):
        code_point = ord(text[at]) + 1
        if code_point in _SURROGATES:  # surrogates are not characters
            code_point = _SURROGATES.stop
        if code_point <= _LAST_CODE_POINT:
            return text[:at] + chr(code_point)
    return None
