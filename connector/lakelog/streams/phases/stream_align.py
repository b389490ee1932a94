"""Batches that end at snapshots: `stream.align=snapshot`.

A batch ends at the log offsets of a snapshot that holds no unfinished batch of a writer. While the newest snapshots
hold one, the stream waits for its writer, at most for `stream.align.timeout`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.protocol.state import LogState
from lakelog.protocol.statements import UnfinishedBatch, unfinished_batches
from lakelog.streams.options.align_options import STREAM_ALIGN, STREAM_ALIGN_TIMEOUT
from lakelog.streams.reading.offsets import LogOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlace:
    """A snapshot in the log: where the log continues after it, and the batches that it holds in part."""

    position: LogOffset
    unfinished: tuple[UnfinishedBatch, ...]
    time_millis: int

    @classmethod
    def of(cls, snapshot: Snapshot, log: LogState, bucket_count: int) -> SnapshotPlace:
        """The place of a snapshot with this state of the log."""
        return cls(
            position=LogOffset.of_snapshot(snapshot.id, log, bucket_count, commit=snapshot.uuid),
            unfinished=unfinished_batches(log),
            time_millis=snapshot.time_millis,
        )

    @property
    def is_whole(self) -> bool:
        """Whether a batch may end at this snapshot."""
        return not self.unfinished


class WriterWait:
    """How long a stream has waited for the writers of unfinished batches."""

    def __init__(
        self,
        table_name: str,
        timeout_millis: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_millis: Callable[[], int] = system_millis,
    ) -> None:
        """Wait for no writer yet."""
        self._table_name = table_name
        self._timeout_millis = timeout_millis
        self._clock = clock
        self._now_millis = now_millis
        self._since: float | None = None
        self._newest: Sequence[SnapshotPlace] = ()

    def proceeds(self) -> None:
        """The stream has something to read, or has read everything."""
        self._since, self._newest = None, ()

    def waits_behind(self, places: Sequence[SnapshotPlace]) -> None:
        """The stream has read everything up to these snapshots, oldest first, none of which is whole."""
        if self._since is None:
            self._since = self._clock()
        self._newest = places

    def check(self, *, is_fixed: bool) -> None:
        """Raise ConflictError when the stream has waited for too long; the error names the writers.

        A run that reads up to a fixed end does not wait: with `is_fixed`, the age of the oldest of the snapshots
        counts.
        """
        if self._since is None:
            return
        if is_fixed:
            waited_millis = self._now_millis() - self._newest[0].time_millis
        else:
            waited_millis = int((self._clock() - self._since) * 1000)
        if waited_millis <= self._timeout_millis:
            return
        newest = self._newest[-1]
        writers = ", ".join(map(str, newest.unfinished))
        user = newest.unfinished[0].user
        raise ConflictError(
            f"the snapshots of table {self._table_name} from {self._newest[0].position.consumed} on hold a part of "
            f"{writers}, whose writer has not come back in {waited_millis / 1000:.0f} s ({STREAM_ALIGN_TIMEOUT.key}): "
            f"{STREAM_ALIGN.key}=snapshot ends at whole snapshots only. Start that writer again, or, where it never "
            f"comes back, run `lakelog log abandon-writer {self._table_name} {user}`, then start this query again"
        )
