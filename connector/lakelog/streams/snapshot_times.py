"""When the snapshot of a writer's writes is made, and what is due behind it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event, Lock

from lakelog.common.errors import LakelogError
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.protocol.writing import RETRY_SECONDS, IntervalBounds
from lakelog.streams.writes import Writes

logger = logging.getLogger("lakelog.streams")

_UPKEEP_SECONDS = 1.0


class Upkeep:
    """What is due behind snapshots, such as compaction, in a thread of its own: for the newest one, once a second.

    A table without a log has a hundred snapshots a second: five small files at a time would be joined again and again.
    """

    def __init__(self, after_snapshot: Callable[[Snapshot], None]) -> None:
        """Start nothing yet."""
        self._after_snapshot = after_snapshot
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lakelog-upkeep")
        self._lock = Lock()
        self._newest: Snapshot | None = None  # its upkeep has not begun
        self._not_before = 0.0
        self._is_closing = Event()

    def begin(self, snapshot: Snapshot | None) -> None:
        """Do what is due behind a snapshot, once what is being done has ended."""
        if snapshot is None:
            return
        with self._lock:
            is_waiting, self._newest = self._newest is not None, snapshot
        if not is_waiting:
            self._thread.submit(self._run)

    def close(self) -> None:
        """Do what is due now, and wait for it."""
        self._is_closing.set()
        self._thread.shutdown()

    def _run(self) -> None:
        self._is_closing.wait(max(0.0, self._not_before - time.monotonic()))
        self._not_before = time.monotonic() + _UPKEEP_SECONDS
        with self._lock:
            snapshot, self._newest = self._newest, None
        assert snapshot is not None, "one was made"
        try:
            self._after_snapshot(snapshot)
        except LakelogError as error:  # the writes have taken effect; the next snapshot comes back to it
            logger.warning("the upkeep behind snapshot %d is left to the next one: %s", snapshot.id, error)


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
