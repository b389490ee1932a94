"""Values of requests, each checked: a wrong one is a status and a sentence, never a failure."""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.common.quoting import shown
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.field_questions import BOTH, DIRECTIONS, Asked, asked
from lakelog.lineage.columns.questions.periods import Period, period_at, period_between
from lakelog.lineage.page.page_errors import RequestError
from lakelog.lineage.page.page_state import Answering
from lakelog.lineage.page.time_expressions import seconds_of

DEPTH_MAX = 20
NUMBER_MAX = (1 << 63) - 1


class Query:
    """The values of a request by name, those of its path included; of one that is given twice, the last."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = list(pairs)
        self._values = dict(self._pairs)

    def text(self, name: str) -> str | None:
        """The value as it was given; None without it."""
        return self._values.get(name)

    def texts(self, name: str) -> list[str]:
        """All values of a name that may be repeated."""
        return [value for given, value in self._pairs if given == name]

    def required(self, name: str) -> str:
        """A value that must be there."""
        found = self.text(name)
        if not found:
            raise RequestError(400, f"{name} is missing; expected a name.")
        return found

    def number(self, name: str, *, least: int, most: int = NUMBER_MAX) -> int | None:
        """A whole number between two others; None without one."""
        text = self.text(name)
        if text is None or text == "":
            return None
        found = whole(text)
        if found is None or not least <= found <= most:
            raise RequestError(400, f"{name} is {shown(text)}; expected a whole number from {least} to {most}.")
        return found

    def page(self, *, default: int, most: int) -> tuple[int, int]:
        """How many items of a list are asked for, and how many to leave out before them."""
        return self.number("limit", least=1, most=most) or default, self.number("offset", least=0) or 0

    def dataset(self, prefix: str = "") -> Dataset:
        """The dataset that two values name. A namespace may be empty, but has to be given."""
        ns_name, name = (f"{prefix}Ns", f"{prefix}Dataset") if prefix else ("ns", "dataset")
        ns = self.text(ns_name)
        if ns is None:
            raise RequestError(400, f"{ns_name} is missing; expected a namespace.")
        return Dataset(ns, self.required(name))

    def period(self, index: FieldIndex, state: Answering) -> Period:
        """The range of the times `start` and `end`."""
        first, last = self._millis("start", state), self._millis("end", state)
        if first is not None and last is not None and first > last:
            raise RequestError(400, "start is after end; expected a range of time, the end not included.")
        return period_between(index, first, last)

    def _millis(self, name: str, state: Answering) -> int | None:
        text = self.text(name)
        if text is None or text == "":
            return None
        try:
            found = seconds_of(text, state.now_millis() // 1_000)
        except ValueError:
            raise RequestError(
                400, f"{name} is {shown(text)}; expected seconds since 1970, or now and steps, such as now-1d+4h."
            ) from None
        if found < 0:
            raise RequestError(400, f"{name} is {shown(text)}, which is before 1970.")
        return found * 1_000

    def question(self, index: FieldIndex, state: Answering, *, depth: int = 1) -> Asked:
        """What a request asks for about a dataset or a field; `depth` counts where it names none."""
        owner, one = asked(index, self.dataset(), self.text("field") or None)
        side, kinds = self.text("direction") or BOTH, self.text("kinds")
        if side not in DIRECTIONS:
            raise RequestError(400, f"direction is {shown(side)}; expected {', '.join(DIRECTIONS)}.")
        if kinds not in {None, "", "all", "direct"}:
            raise RequestError(400, f"kinds is {shown(kinds)}; expected all or direct.")
        snapshot = self.number("at", least=0)
        if snapshot is None:
            period = self.period(index, state)
        elif self.text("start") or self.text("end"):
            raise RequestError(400, "at names a snapshot, start and end a time; give one of them.")
        else:
            period = period_at(index, owner, snapshot, state.histories.millis_of(owner.dataset, snapshot))
        return Asked(
            dataset=owner,
            field=one,
            direction=side,
            depth=self.number("depth", least=1, most=DEPTH_MAX) or depth,
            period=period,
            direct_only=kinds == "direct",
        )


def whole(text: str) -> int | None:
    """The whole number that ASCII digits write, with a sign or without; None for another text.

    One of more than 19 digits, which no value allows, is one more than the largest.
    """
    digits = text[1:] if text[:1] in {"-", "+"} else text
    if not digits.isascii() or not digits.isdigit():
        return None
    digits = digits.lstrip("0") or "0"
    found = int(digits) if len(digits) <= 19 else NUMBER_MAX + 1
    return -found if text.startswith("-") else found
