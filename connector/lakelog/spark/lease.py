"""A lease on snapshots: a consumer file, which every engine that expires snapshots of the format respects.

No snapshot from the one in it on expires. Spark does not tell a source that its query has stopped, so a lease can
outlive the query: it ends when it was not renewed for a day, see `lakelog.filestore.consumers`.
Source: Paimon spec, "Consumer ID".
"""

from __future__ import annotations

import time
import uuid

from lakelog.filestore.consumers import LEASE_MILLIS, LEASE_PREFIX, ConsumerManager
from lakelog.filestore.store import TableStore

RENEWAL_SECONDS = LEASE_MILLIS / 1000 / 24


class SnapshotLease:
    """Keeps the snapshots of one table from a snapshot on, for one run of a query."""

    def __init__(self, table: TableStore) -> None:
        """Hold nothing yet."""
        self._consumers = ConsumerManager(table.file_io, table.paths)
        self._id = f"{LEASE_PREFIX}{uuid.uuid4().hex}"
        self._held: int | None = None
        self._renewed = 0.0

    def hold(self, snapshot_id: int) -> None:
        """Keep this snapshot and those after it; older ones are let go."""
        now = time.monotonic()
        if self._held != snapshot_id or now - self._renewed > RENEWAL_SECONDS:
            self._consumers.put(self._id, snapshot_id)
            self._held, self._renewed = snapshot_id, now

    def release(self) -> None:
        """Keep nothing any more."""
        if self._held is not None:
            self._consumers.delete(self._id)
            self._held = None
