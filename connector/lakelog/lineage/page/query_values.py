"""Values in queries of /api, each checked: a wrong one is a status and a sentence, never a failure."""

from __future__ import annotations

from lakelog.common.quoting import shown
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.questions.field_index import FieldIndex
from lakelog.lineage.columns.questions.field_questions import BOTH, DIRECTIONS, Asked, asked
from lakelog.lineage.columns.questions.periods import Period, period_at, period_between
from lakelog.lineage.page.page_errors import RequestError
from lakelog.lineage.page.page_state import PageState
from lakelog.lineage.page.time_expressions import seconds_of

DEPTH_MAX = 20
LIMIT_MAX = 1_000
NUMBER_MAX = (1 << 63) - 1


def number(name: str, text: str | None, *, default: int | None, least: int, most: int) -> int | None:
    """A whole number between two others; the default without one."""
    if text is None or text == "":
        return default
    is_number = text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20
    if not is_number or not least <= int(text) <= most:
        raise RequestError(400, f"{name} is {shown(text)}; expected a whole number from {least} to {most}.")
    return int(text)


def counted(name: str, text: str | None, *, default: int, least: int, most: int) -> int:
    """A whole number that has a default."""
    found = number(name, text, default=default, least=least, most=most)
    assert found is not None
    return found


def required(name: str, text: str | None) -> str:
    """A value that must be there."""
    if not text:
        raise RequestError(400, f"{name} is missing; expected a name.")
    return text


def dataset_in(ns: str | None, dataset: str | None, *, prefix: str = "") -> Dataset:
    """The dataset that two values name. A namespace may be empty, but has to be given."""
    if ns is None:
        raise RequestError(400, f"{f'{prefix}Ns' if prefix else 'ns'} is missing; expected a namespace.")
    return Dataset(ns, required(f"{prefix}Dataset" if prefix else "dataset", dataset))


def millis(name: str, text: str | None, now_millis: int) -> int | None:
    """The milliseconds of a time expression; None without one."""
    if text is None or text == "":
        return None
    try:
        found = seconds_of(text, now_millis // 1_000) * 1_000
    except ValueError:
        raise RequestError(
            400, f"{name} is {shown(text)}; expected seconds since 1970, or now and steps, such as now-1d+4h."
        ) from None
    if found < 0:
        raise RequestError(400, f"{name} is {shown(text)}, which is before 1970.")
    return found


def period_in(index: FieldIndex, state: PageState, start: str | None, end: str | None) -> Period:
    """The range of two times."""
    now = state.now_millis()
    first, last = millis("start", start, now), millis("end", end, now)
    if first is not None and last is not None and first > last:
        raise RequestError(400, "start is after end; expected a range of time, the end not included.")
    return period_between(index, first, last)


def question_in(
    state: PageState,
    index: FieldIndex,
    names: tuple[str | None, str | None, str | None],
    *,
    direction: str | None = None,
    depth: str | None = None,
    times: tuple[str | None, str | None, str | None] = (None, None, None),
    kinds: str | None = None,
) -> Asked:
    """What a request asks for: names are namespace, dataset and field, times are start, end and at."""
    ns, dataset, field = names
    owner, one = asked(index, dataset_in(ns, dataset), field or None)
    if direction not in {None, *DIRECTIONS}:
        raise RequestError(400, f"direction is {shown(direction)}; expected {', '.join(DIRECTIONS)}.")
    if kinds not in {None, "", "all", "direct"}:
        raise RequestError(400, f"kinds is {shown(kinds)}; expected all or direct.")
    start, end, at = times
    snapshot = number("at", at, default=None, least=0, most=NUMBER_MAX)
    if snapshot is None:
        period = period_in(index, state, start, end)
    elif start or end:
        raise RequestError(400, "at names a snapshot, start and end a time; give one of them.")
    else:
        period = period_at(index, owner, snapshot, state.histories.millis_of(owner.dataset, snapshot))
    return Asked(
        dataset=owner,
        field=one,
        direction=direction or BOTH,
        depth=counted("depth", depth, default=1, least=1, most=DEPTH_MAX),
        period=period,
        direct_only=kinds == "direct",
    )
