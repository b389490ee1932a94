"""Where a table is now: its newest snapshot, and how far its log can be read."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.common.patience import Patience
from lakelog.filestore.metadata.identity import UUID_KEY, check_same_table
from lakelog.filestore.metadata.snapshot import Snapshot
from lakelog.filestore.table import FileStoreTable
from lakelog.logstore.kafka.offsets import last_stable_offsets
from lakelog.protocol.state import LogState
from lakelog.protocol.stores import LogTarget, read_state
from lakelog.spark.source.offsets import LogOffset

HEAD_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """How far a stream may read: up to this snapshot, and up to these offsets of the log; `epochs` are its leaders'."""

    snapshot_id: int
    ends: Mapping[int, int]
    epochs: Mapping[int, int]


class TableHead:
    """Looks where a table is, at most ten times a second; or always says where it was once."""

    def __init__(self, table: FileStoreTable, target: LogTarget | None) -> None:
        """Look at nothing yet."""
        self._table = table
        self._target = target
        self._seen: tuple[float, Head] | None = None
        self._fixed: Head | None = None
        self._checked: tuple[int, str | None] | None = None  # the newest snapshot that is known to be the table's

    @property
    def is_fixed(self) -> bool:
        """Whether it says where the table was once."""
        return self._fixed is not None

    def fix(self, patience: Patience) -> None:
        """Say from now on where the table is now."""
        self._fixed = patience.keep_trying(self._look)

    def now(self) -> Head:
        """Where the table is. Raises UnavailableError."""
        if self._fixed is not None:
            return self._fixed
        if self._seen is None or time.monotonic() - self._seen[0] > HEAD_SECONDS:
            self._seen = (time.monotonic(), self._look())
        return self._seen[1]

    def _look(self) -> Head:
        newest = self._table.snapshots.latest()
        self._check_same_table(newest)
        ends: dict[int, int] = {}
        epochs: dict[int, int] = {}
        if self._target is not None:
            stable = last_stable_offsets(self._target.topic, self._table.bucket_count)
            held = position_after(self._table, newest, self._target).offsets
            ends = {bucket: readable_end(held.get(bucket, 0), at.offset) for bucket, at in stable.items()}
            epochs = {bucket: at.leader_epoch for bucket, at in stable.items() if at.leader_epoch is not None}
        return Head(snapshot_id=newest.id if newest else 0, ends=ends, epochs=epochs)

    def _check_same_table(self, newest: Snapshot | None) -> None:
        """Raise ConflictError when the folder holds another table; a snapshot is asked once."""
        if newest is not None and (newest.id, newest.uuid) != self._checked:
            check_same_table(self._table, newest.properties.get(UUID_KEY))
            self._checked = newest.id, newest.uuid


def position_after(table: FileStoreTable, snapshot: Snapshot | None, target: LogTarget) -> LogOffset:
    """Where the log goes on after a snapshot; its beginning before the first."""
    if snapshot is None:
        log, snapshot_id = LogState(topic_id=target.topic_id), 0
    else:
        log = read_state(table, snapshot, topic_id=target.topic_id).logged
        snapshot_id = snapshot.id
    return LogOffset.of_snapshot(snapshot_id, log, table.bucket_count)


def readable_end(held: int, stable: int) -> int:
    """How far a bucket can be read: to the last stable offset, or to what the newest snapshot holds.

    The last stable offset may lag behind a snapshot. One step behind a transaction that a snapshot holds it has only
    passed the transaction's end mark, which is no record: nothing to make a batch of.
    """
    return held if stable <= held + (1 if held else 0) else stable
