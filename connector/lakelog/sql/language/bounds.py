"""Texts before they are parsed: how large they may be, and long lists of values, which are not parsed one by one.

A list is left out of the text: a parameter stands in its place, and carries its values into the tree.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import shown

TEXT_MAX = 16 << 20  # characters
DEPTH_MAX = 200  # brackets in brackets
DIGITS_MAX = 400  # of a number
_LIST_MIN = 1_000  # values of a list that is left out
LIST_NAME = "__lakelog_list_"  # of the parameter that stands for one, before its number
_FRAMES = 16_384  # of Python: a level of brackets takes up to 40, and some words nest without brackets

_VALUE = r"(?:-?\d{1,18}|'[^']*'|NULL)"
_PARTS = re.compile(
    rf"""
    \bIN\s*\((?P<list>(?:\s*{_VALUE}\s*,){{{_LIST_MIN - 1},}}+\s*{_VALUE}\s*)\)
    | \b[eE]'(?:[^'\\]|\\.|'')*+'?
    | '(?:[^']|'')*+'? | "(?:[^"]|"")*+"? | `[^`]*`? | (?<![\w$])(?P<tag>\$\w*\$).*?(?:(?P=tag)|\Z)
    | --[^\n]* | /\*.*?(?:\*/|\Z)
    | (?P<digits>\d{{{DIGITS_MAX + 1}}})
    | (?P<open>[(\[]) | (?P<close>[)\]])
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_LEFT_OUT = re.compile(rf":{LIST_NAME}(\d+)")
_INTEGERS = re.compile(r"[-\d\s,NULnul]*+")
_TEXTS = re.compile(r"'([^']*)'|\b(NULL)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """A text whose long lists are left out, and these lists as they are written."""

    text: str
    lists: tuple[str, ...] = ()

    def whole(self, part: str) -> str:
        """A part of the text, with its lists."""
        return _LEFT_OUT.sub(lambda found: self.lists[int(found[1])], part) if self.lists else part


def scanned(text: str, *, is_script: bool = False) -> Scanned:
    """The text without its long lists. Raises InvalidRequestError for a statement that is too large."""
    if len(text) > TEXT_MAX and not is_script:
        raise InvalidRequestError(f"a statement has {len(text):,} characters: at most {TEXT_MAX:,} are read; split it")
    lists: list[str] = []
    kept: list[str] = []
    end = depth = 0
    for part in _PARTS.finditer(text):
        match part.lastgroup:
            case "open":
                depth += 1
                if depth > DEPTH_MAX:
                    raise too_deep(text)
            case "close":
                depth -= 1
            case "digits":
                raise InvalidRequestError(f"{shown(text)}: a number has more than {DIGITS_MAX} digits")
            case "list":
                kept += (text[end : part.start("list")], f":{LIST_NAME}{len(lists)}")
                lists.append(part["list"])
                end = part.end("list")
    return Scanned(text="".join([*kept, text[end:]]), lists=tuple(lists))


def too_deep(text: str) -> InvalidRequestError:
    """The error of a text with too many levels."""
    return InvalidRequestError(f"{shown(text)} is nested too deeply: at most {DEPTH_MAX} levels are read")


def values_of_list(text: str) -> pa.Array:
    """The values of a list that was left out: whole numbers, or strings."""
    if _INTEGERS.fullmatch(text):
        found = [one.strip() for one in text.split(",")]
        numbers = pa.array([None if one.upper() == "NULL" else one for one in found], pa.string())
        return pc.cast(numbers, pa.int64())
    return pa.array([None if one[2] else one[1] for one in _TEXTS.finditer(text)], pa.string())


_LOCK = threading.Lock()
_before: list[int] = []  # the limit of each block that is open


@contextmanager
def deep_stack() -> Iterator[None]:
    """Let Python call as deeply in the block as `DEPTH_MAX` levels need."""
    with _LOCK:
        _before.append(sys.getrecursionlimit() if not _before else _before[0])
        sys.setrecursionlimit(max(_FRAMES, _before[0]))
    try:
        yield
    finally:
        with _LOCK:
            limit = _before.pop()
            if not _before:
                sys.setrecursionlimit(limit)
