"""The number of retries of a commit that lost a race, and the waits between them.

A commit waits for its turn in the line of those that have lost, see `lakelog.filestore.metadata.snapshots.commit_line`.
If the commit is alone in the line, and for changes of a schema, waits are a random part of a limit that doubles with
each lost race: so racing writers spread out until one of them has the time that it needs. The limit is at most the
duration of some tries; otherwise a writer that lost often would wait while writers that never lost commit again and
again. Source: Paimon, `FileStoreCommitImpl` (`commit.min-retry-wait`).
"""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.metadata.snapshots.commit_line import CommitTurn
from lakelog.filestore.options.writing import (
    COMMIT_MAX_RETRIES,
    COMMIT_MAX_RETRY_WAIT,
    COMMIT_MIN_RETRY_WAIT,
    COMMIT_TIMEOUT,
)

_DOUBLINGS_MAX = 32  # the longest wait is reached long before this
_TRIES_WAITED_MAX = 8  # a wait lasts at most as long as this many tries


class CommitTries:
    """The tries of one commit, by the options of its table."""

    def __init__(self, options: Mapping[str, str], clock: CommitClock) -> None:
        self._clock = clock
        self._retries_max = COMMIT_MAX_RETRIES.of(options)
        self._timeout_millis = COMMIT_TIMEOUT.of(options)
        self._wait_min_millis = COMMIT_MIN_RETRY_WAIT.of(options)
        self._wait_max_millis = COMMIT_MAX_RETRY_WAIT.of(options)
        self._started = self._try_started = clock.seconds()
        self._lost_count = 0

    def begin(self, turn: CommitTurn, next_id: int) -> bool:
        """Called before the first try to create the snapshot `next_id`: whether the commit has waited in the line."""
        has_waited = self._retries_max is None and turn.begin(next_id, limit_millis=self._timeout_millis)
        self._try_started = self._clock.seconds()
        return has_waited

    def has_another(self, turn: CommitTurn | None = None) -> bool:
        """Whether the commit may be tried again after it has lost; waits before it returns True.

        With `turn` it waits in the line of commits that have lost, or for a random time if it is alone.
        """
        doublings = min(self._lost_count, _DOUBLINGS_MAX)
        self._lost_count += 1
        if self._retries_max is not None and self._lost_count > self._retries_max:
            return False
        left_millis = self._timeout_millis - self._waited_millis
        if left_millis <= 0:
            return False
        try_millis = (self._clock.seconds() - self._try_started) * 1000
        if turn is not None and turn.wait(try_millis=int(try_millis), limit_millis=left_millis):
            self._try_started = self._clock.seconds()
            return True
        useful = max(self._wait_min_millis, try_millis * _TRIES_WAITED_MAX)
        longest = min(self._wait_min_millis << doublings, self._wait_max_millis, useful, left_millis)
        self._clock.sleep(longest * self._clock.chance() / 1000)
        self._try_started = self._clock.seconds()
        return True

    def __str__(self) -> str:
        """The number of lost races, the time, and the options that allow more."""
        return (
            f"lost {self._lost_count} races against other writers in {self._waited_millis} ms; commit again, or raise "
            f"{COMMIT_TIMEOUT.key}" + ("" if self._retries_max is None else f" and {COMMIT_MAX_RETRIES.key}")
        )

    @property
    def _waited_millis(self) -> int:
        return int((self._clock.seconds() - self._started) * 1000)
