"""Trying again after a service did not answer, until it has been silent for too long."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lakelog.common.errors import UnavailableError

Answer = TypeVar("Answer")

_WAIT_SECONDS = 0.1
_WAIT_SECONDS_MAX = 1.0


class Patience:
    """How long a call is tried again: for `seconds` after its first failure. A success resets the time."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """The time begins with the first failure. With 0 seconds this failure is also the last."""
        self._seconds = seconds
        self._clock = clock
        self._wait = wait
        self._failed_at: float | None = None
        self._failures = 0

    def succeeded(self) -> None:
        """A call succeeded: reset the time."""
        self._failed_at = None
        self._failures = 0

    def allows(self) -> bool:
        """Whether there is time left after a failure, which may be the first; time counts from the first one on."""
        now = self._clock()
        if self._failed_at is None:
            self._failed_at = now
        return now - self._failed_at < self._seconds

    def keep_trying(self, call: Callable[[], Answer]) -> Answer:
        """What `call` returns in the end. Raises its UnavailableError when the time is over, other errors at once."""
        while True:
            try:
                return call()
            except UnavailableError as error:
                self.bear(error)

    def bear(self, error: UnavailableError) -> None:
        """Return after a short wait if the call may be tried again. Raises `error` when the time is over."""
        if not self.allows():
            raise error
        self._wait(min(_WAIT_SECONDS * 2**self._failures, _WAIT_SECONDS_MAX))
        self._failures = min(self._failures + 1, 10)
