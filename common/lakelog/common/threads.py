"""Parts of one piece of work, several at once, in threads that share one memory budget."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")


def thread_count(part_count: int, threads_max: int | None = None) -> int:
    """How many threads work on so many parts: one for each, at most one for each core and `threads_max`."""
    return min(part_count, os.cpu_count() or 1, threads_max or part_count)


def begun(pool: ThreadPoolExecutor, call: Callable[[], Result]) -> Future[Result]:
    """Begin a call in a thread of a pool.

    Once the main thread has ended, pools take no calls, but a thread of the user may still run: it makes the call now,
    and gets its error.
    """
    try:
        return pool.submit(call)
    except RuntimeError:
        if threading.main_thread().is_alive():
            raise
        done: Future[Result] = Future()
        done.set_result(call())
        return done


def in_threads(
    work: Callable[[Part, int], Result],
    parts: Sequence[Part],
    *,
    budget_bytes: int,
    threads_max: int | None = None,
    name: str = "lakelog",
    prepare: Callable[[], None] | None = None,
) -> Iterator[Result]:
    """What `work` returns for each part, in order, called with the part and the bytes that it may use.

    These are equal shares of `budget_bytes`, one for each thread; a thread works on one part at a time and begins with
    `prepare`. A single thread is the caller's own, unless there is something to prepare: a lookup ends before another
    thread would have started. Raises the error of the first part that failed, once the other parts that had begun have
    ended.
    """
    threads = thread_count(len(parts), threads_max)
    if threads == 0:
        return
    share = budget_bytes // threads
    if threads == 1 and prepare is None:
        for part in parts:
            yield work(part, share)
        return
    with ThreadPoolExecutor(threads, name, initializer=prepare) as pool:
        yield from pool.map(lambda part: work(part, share), parts)
