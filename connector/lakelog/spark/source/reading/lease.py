"""Leases: snapshots and records of the log that a stream has not read yet are kept.

The lease on snapshots is a consumer file, which every engine that expires snapshots of the format respects: no snapshot
from the one in it on expires. That on a log is lakelog's own, see `lakelog.protocol.state.log_leases`. Spark does not
notify a source when its query stops, so a lease can outlive the query: it ends when it was not renewed for a day, see
`lakelog.filestore.metadata.tables.consumers`.
Source: Paimon spec, "Consumer ID".
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from lakelog.filestore.metadata.tables import LEASE_MILLIS, LEASE_PREFIX, ConsumerManager, TableStore
from lakelog.protocol.state import LogLeases

RENEWAL_SECONDS = LEASE_MILLIS / 1000 / 24
LOG_SECONDS = 60.0  # a lease on a log follows its stream so often at most: holding more than needed is no harm


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


class LogLease:
    """Keeps the records of a log from offsets on, for one run of a query."""

    def __init__(self, table: TableStore, topic_id: str) -> None:
        """Hold nothing yet."""
        self._leases = LogLeases(table, topic_id)
        self._id = uuid.uuid4().hex
        self._held: Mapping[int, int] | None = None
        self._renewed = 0.0

    def hold(self, offsets: Mapping[int, int]) -> None:
        """Keep the records from these offsets on: bucket -> next offset. Older ones are let go within a minute."""
        now = time.monotonic()
        age_seconds = now - self._renewed
        if self._held is None or age_seconds > RENEWAL_SECONDS or (age_seconds > LOG_SECONDS and self._held != offsets):
            self._leases.put(self._id, offsets)
            self._held, self._renewed = dict(offsets), now

    def renew(self, offsets: Mapping[int, int]) -> None:
        """Keep what is held, for another day; these offsets when nothing is held yet."""
        self.hold(offsets if self._held is None else self._held)

    def release(self) -> None:
        """Keep nothing any more."""
        if self._held is not None:
            self._leases.delete(self._id)
            self._held = None
