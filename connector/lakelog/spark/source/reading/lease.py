"""Leases keep the snapshots and log records that a stream has not read yet.

The lease on snapshots is a consumer file, which every engine that expires snapshots of the format respects: the
snapshot in it and later ones do not expire. The lease on a log is lakelog's own, see
`lakelog.protocol.state.log_leases`. Spark does not notify a source when its query stops, so a lease can outlive the
query: it ends when it was not renewed for a day, see `lakelog.filestore.metadata.tables.consumers`.
Source: Paimon spec, "Consumer ID".
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from lakelog.filestore.metadata.tables import LEASE_MILLIS, LEASE_PREFIX, ConsumerManager, TableStore
from lakelog.protocol.state import LogLeases

RENEWAL_SECONDS = LEASE_MILLIS / 1000 / 24
LOG_SECONDS = 60.0  # a lease on a log follows its stream at most this often: holding more than needed does no harm


class SnapshotLease:
    """Keeps the snapshots of one table from a snapshot on, for one run of a query."""

    def __init__(self, table: TableStore) -> None:
        """Hold nothing yet."""
        self._consumers = ConsumerManager(table.file_io, table.paths)
        self._id = f"{LEASE_PREFIX}{uuid.uuid4().hex}"
        self._held: int | None = None
        self._renewed = 0.0

    def hold(self, snapshot_id: int) -> None:
        """Keep this snapshot and those after it; release older ones."""
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
        """Keep the records from these offsets on: bucket -> next offset. Older ones are released within a minute."""
        now = time.monotonic()
        age_seconds = now - self._renewed
        if self._held is None or age_seconds > RENEWAL_SECONDS or (age_seconds > LOG_SECONDS and self._held != offsets):
            self._leases.put(self._id, offsets)
            self._held, self._renewed = dict(offsets), now

    def renew(self, offsets: Mapping[int, int]) -> None:
        """Keep what is held for another day; if nothing is held yet, keep these offsets."""
        self.hold(offsets if self._held is None else self._held)

    def release(self) -> None:
        """Keep nothing any more."""
        if self._held is not None:
            self._leases.delete(self._id)
            self._held = None
