"""Values in queries of /v3, with the statuses and texts of CDAP's handler.

Source: CDAP, `LineageHTTPHandler`. Beyond it, `levels` has a largest value, and lists come in pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypeVar
from urllib.parse import unquote

from fastapi import Query

from lakelog.common.quoting import cut
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.periods import Period, period_between
from lakelog.lineage.page.json_answers import JsonAnswer
from lakelog.lineage.page.page_errors import RequestError
from lakelog.lineage.page.page_state import PageState
from lakelog.lineage.page.time_expressions import seconds_of

LEVELS_MAX: Final = 20
ITEMS_MAX: Final = 10_000
TOTAL_HEADER: Final = "lakelog-total"
DIRECTION_TEXT: Final = (
    "Direction must be specified to get the field lineage summary and should be one of the following: "
    "[incoming, outgoing, both]."
)
_DIRECTIONS: Final = ("incoming", "outgoing", "both")
_TEXT_MAX: Final = 200

Item = TypeVar("Item")
START = Annotated[str | None, Query(description="Seconds since 1970, or now and steps, such as now-7d; included.")]
END = Annotated[str | None, Query(description="Like start; not included.")]
TEXT = Annotated[str | None, Query()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """A range of time in seconds, the end not included, and the writes with runs that overlap it."""

    start: int
    end: int
    period: Period


def range_of(state: PageState, index: FieldIndex, start: str | None, end: str | None) -> TimeRange:
    """The range that two values name."""
    if start is None:
        raise RequestError(400, "Start time is required.")
    if end is None:
        raise RequestError(400, "End time is required.")
    now = state.now_millis() // 1_000
    try:
        first, last = seconds_of(start, now), seconds_of(end, now)
    except ValueError as error:
        raise RequestError(400, f"java.lang.IllegalArgumentException: {error}") from None
    for name, text, seconds in (("start", start, first), ("end", end, last)):
        if seconds < 0:
            raise RequestError(
                400, f"Invalid {name} time ({cut(text, _TEXT_MAX)} -> {seconds * 1_000}), should be >= 0."
            )
    if first > last:
        shown = f"({cut(start, _TEXT_MAX)} -> {first * 1_000}) should be lesser than end time"
        raise RequestError(400, f"Start time {shown} ({cut(end, _TEXT_MAX)} -> {last * 1_000}).")
    return TimeRange(start=first, end=last, period=period_between(index, first * 1_000, last * 1_000))


def direction_of(text: str | None, default: str | None = None) -> str:
    """incoming, outgoing or both, from any case."""
    found = default if text is None else text.lower()
    if found not in _DIRECTIONS:
        raise RequestError(400, DIRECTION_TEXT)
    return found


def levels_of(text: str | None, default: int) -> int:
    """A number of hops."""
    if text is None:
        return default
    digits = text.removeprefix("+")
    if not digits.isascii() or not digits.isdigit() or not digits.strip("0"):
        raise RequestError(400, f"Invalid levels ({cut(text, _TEXT_MAX)}), should be greater than 0.")
    digits = digits.lstrip("0")
    if len(digits) > len(str(LEVELS_MAX)) or int(digits) > LEVELS_MAX:
        raise RequestError(400, f"Invalid levels ({cut(text, _TEXT_MAX)}), should be at most {LEVELS_MAX}.")
    return int(digits)


def flag_of(name: str, text: str | None) -> bool:
    """true or false, from any case; false without it."""
    if text is None or text.lower() == "false":
        return False
    if text.lower() != "true":
        raise RequestError(400, f"Invalid {name} ({cut(text, _TEXT_MAX)}), should be true or false.")
    return True


def chosen_of(kind: str, texts: Sequence[str], known: Sequence[str]) -> frozenset[str]:
    """Values of a list of which each is one of the known, from any case; they are in upper case."""
    for text in texts:
        if text.upper() not in known:
            raise RequestError(400, f"Invalid {kind} type {cut(text, _TEXT_MAX)}")
    return frozenset(text.upper() for text in texts)


def named(ns: str, dataset: str) -> Dataset:
    """The dataset that two parts of a path name."""
    return Dataset(part_of(ns), part_of(dataset))


def part_of(text: str) -> str:
    """A part of a path, decoded: see `page_guard`."""
    return unquote(text)


def in_pages(items: Sequence[Item], limit: str | None, offset: str | None) -> JsonAnswer:
    """A part of a list, with the number of all items in a header."""
    size, begin = _count("limit", limit, ITEMS_MAX, 1, ITEMS_MAX), _count("offset", offset, 0, 0, (1 << 63) - 1)
    return JsonAnswer(list(items[begin : begin + size]), headers={TOTAL_HEADER: str(len(items))})


def check_size(count: int, what: str) -> None:
    """Raise for an answer that is too large."""
    if count > ITEMS_MAX:
        raise RequestError(
            422, f"The answer has {count} {what}, more than {ITEMS_MAX}; ask for a shorter time or fewer levels."
        )


def _count(name: str, text: str | None, default: int, least: int, most: int) -> int:
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and least <= int(text) <= most):
        raise RequestError(400, f"Invalid {name} ({cut(text, _TEXT_MAX)}), should be from {least} to {most}.")
    return int(text)
