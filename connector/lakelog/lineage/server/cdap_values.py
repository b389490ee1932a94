"""Values in queries of /v3, with the statuses and texts of CDAP's handler.

Source: CDAP, `LineageHTTPHandler`. Beyond it, `levels` has a largest value, and lists come in pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final  # Any: items of JSON

from lakelog.common.quoting import cut
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.periods import Period, period_between
from lakelog.lineage.page.page_errors import RequestError
from lakelog.lineage.page.page_state import Answering
from lakelog.lineage.page.query_values import Query, whole
from lakelog.lineage.page.time_expressions import seconds_of

LEVELS_MAX: Final = 20
ITEMS_MAX: Final = 10_000
DIRECTION_TEXT: Final = (
    "Direction must be specified to get the field lineage summary and should be one of the following: "
    "[incoming, outgoing, both]."
)
_DIRECTIONS: Final = ("incoming", "outgoing", "both")
_TEXT_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange:
    """A range of time in seconds, the end not included, and the writes in an index with runs that overlap it."""

    index: FieldIndex
    start: int
    end: int
    period: Period


@dataclass(frozen=True, slots=True)
class ListPage:
    """A part of a list, and the number of all items of the list."""

    items: Sequence[Any]
    total: int


def range_of(query: Query, state: Answering) -> TimeRange:
    """The range that `start` and `end` name, in the index as it is now."""
    index = state.index()
    start, end = query.text("start"), query.text("end")
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
    period = period_between(index, first * 1_000, last * 1_000)
    return TimeRange(index=index, start=first, end=last, period=period)


def direction_of(query: Query, default: str | None = None) -> str:
    """incoming, outgoing or both, from any case."""
    text = query.text("direction")
    found = default if text is None else text.lower()
    if found not in _DIRECTIONS:
        raise RequestError(400, DIRECTION_TEXT)
    return found


def levels_of(query: Query, name: str, default: int) -> int:
    """A number of hops."""
    text = query.text(name)
    if text is None:
        return default
    found = whole(text)
    if found is None or found <= 0:
        raise RequestError(400, f"Invalid levels ({cut(text, _TEXT_MAX)}), should be greater than 0.")
    if found > LEVELS_MAX:
        raise RequestError(400, f"Invalid levels ({cut(text, _TEXT_MAX)}), should be at most {LEVELS_MAX}.")
    return found


def flag_of(query: Query, name: str) -> bool:
    """true or false, from any case; false without it."""
    text = query.text(name)
    if text is None or text.lower() == "false":
        return False
    if text.lower() != "true":
        raise RequestError(400, f"Invalid {name} ({cut(text, _TEXT_MAX)}), should be true or false.")
    return True


def chosen_of(query: Query, kind: str, known: Sequence[str]) -> frozenset[str]:
    """Values of a list of which each is one of the known, from any case; they are in upper case."""
    for text in query.texts(kind):
        if text.upper() not in known:
            raise RequestError(400, f"Invalid {kind} type {cut(text, _TEXT_MAX)}")
    return frozenset(text.upper() for text in query.texts(kind))


def in_pages(items: Sequence[Any], query: Query) -> ListPage:
    """The part of a list that `limit` and `offset` ask for."""
    size, begin = query.page(default=ITEMS_MAX, most=ITEMS_MAX)
    return ListPage(items[begin : begin + size], len(items))


def check_size(count: int, what: str) -> None:
    """Raise for an answer that is too large."""
    if count > ITEMS_MAX:
        raise RequestError(
            422, f"The answer has {count} {what}, more than {ITEMS_MAX}; ask for a shorter time or fewer levels."
        )
