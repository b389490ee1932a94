"""When the snapshot of a writer's writes is made."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from lakelog.protocol.writing import RETRY_SECONDS, IntervalBounds
from lakelog.streams.writes import Writes


@dataclass(slots=True)
class SnapshotTimes:
    """The time since the first write that no snapshot has. `bounds` None: each write makes a snapshot by itself."""

    bounds: IntervalBounds | None
    clock: Callable[[], float] = time.monotonic
    _since: float | None = None
    _not_before: float = 0.0

    def begin(self) -> None:
        """A write waits for its snapshot."""
        if self._since is None:
            self._since = self.clock()

    def end(self) -> None:
        """A snapshot has all writes."""
        self._since = None

    def put_off(self) -> None:
        """The snapshot could not be made: the store may answer later."""
        self._not_before = self.clock() + RETRY_SECONDS

    def is_due(self, writes: Writes) -> bool:
        """Whether the interval is over, or so much waits."""
        if self.bounds is None or self._since is None or self.clock() < self._not_before:
            return False
        return (
            self.clock() - self._since >= self.bounds.seconds
            or len(writes.pending) >= self.bounds.batches_max
            or writes.file_count >= self.bounds.files_max
            or writes.size_bytes >= self.bounds.bytes_max
        )

    def seconds_left(self) -> float | None:
        """How long until it is due by its interval; None where nothing waits."""
        if self.bounds is None or self._since is None:
            return None
        return max(self._since + self.bounds.seconds, self._not_before) - self.clock()
