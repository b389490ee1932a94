"""Work that a job hands over without waiting for it: one thread does it, in order."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread

WAITING_MAX = 1000  # pieces of work; a receiver that does not answer delays the first of them


class Outbox:
    """Pieces of work, done in the order in which they are handed over. The thread starts with the first piece.

    The thread does not keep the process alive. A piece of work must not raise: that would end the thread.
    """

    def __init__(self, name: str) -> None:
        """Start nothing yet."""
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = Lock()
        self._thread: Thread | None = None

    def put(self, work: Callable[[], None], *, is_last: bool = False) -> bool:
        """Hand work over; returns False when too much is waiting, unless the work is the last."""
        if not is_last and self._work.qsize() >= WAITING_MAX:
            return False
        with self._lock:
            self._work.put(work)
            if self._thread is None:
                self._thread = Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        return True

    def close(self, timeout: float) -> bool:
        """End the thread once all work is done; returns False if it is not done after `timeout` seconds."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is None:
                return True
            self._work.put(None)
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
