"""The progress of long work, for a listener such as the command line. Costs nothing without one.

The listener belongs to the context that set it (`contextvars`): work reports from the thread that asked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
Listener = Callable[[str, int, int | None], None]  # what is counted, how many are done, and the total if it is known
_LISTENER: ContextVar[Listener | None] = ContextVar("lakelog_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Pass to `listener` what the work in this block reports."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def counted(items: Iterable[T], what: str, *, total: int | None = None) -> Iterator[T]:
    """The items, each reported when the next one is asked for: `what` names them, such as "files deleted"."""
    listener = _LISTENER.get()
    if listener is None:
        yield from items
        return
    listener(what, 0, total)
    for done, item in enumerate(items, 1):
        yield item
        listener(what, done, total)
