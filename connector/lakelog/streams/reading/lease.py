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
from collections.abc import Callable, Mapping
from copy import copy
from typing import Generic, TypeVar

from lakelog.filestore.metadata.tables import LEASE_MILLIS, LEASE_PREFIX, ConsumerManager, TableStore
from lakelog.protocol.state import LogLeases

RENEWAL_SECONDS = LEASE_MILLIS / 1000 / 24
LOG_SECONDS = 60.0  # a lease on a log follows its stream at most this often: holding more than needed does no harm
Place = TypeVar("Place")


class Lease(Generic[Place]):
    """Keeps what is behind a place, for one run of a query: from a snapshot on, or from offsets of a log on."""

    def __init__(
        self, put: Callable[[str, Place], None], delete: Callable[[str], None], *, name: str, follows_seconds: float = 0
    ) -> None:
        """Hold nothing yet. `put` and `delete` write the lease `name`; a held place moves after `follows_seconds`."""
        self._put = put
        self._delete = delete
        self._name = name
        self._follows_seconds = follows_seconds
        self._held: Place | None = None
        self._renewed = 0.0

    def hold(self, place: Place) -> None:
        """Keep what is behind a place; what is before it is let go once the lease follows."""
        now = time.monotonic()
        age_seconds = now - self._renewed
        has_moved = self._held != place and age_seconds >= self._follows_seconds
        if self._held is None or has_moved or age_seconds > RENEWAL_SECONDS:
            self._put(self._name, place)
            self._held, self._renewed = copy(place), now

    def renew(self, place: Place) -> None:
        """Keep what is held, for another day; if nothing is held yet, what is behind this place."""
        self.hold(place if self._held is None else self._held)

    def release(self) -> None:
        """Keep nothing any more."""
        if self._held is not None:
            self._delete(self._name)
            self._held = None


def snapshot_lease(table: TableStore) -> Lease[int]:
    """A lease on the snapshots of a table, from the number of one on."""
    consumers = ConsumerManager(table.file_io, table.paths)
    return Lease(consumers.put, consumers.delete, name=f"{LEASE_PREFIX}{uuid.uuid4().hex}")


def log_lease(table: TableStore, topic_id: str) -> Lease[Mapping[int, int]]:
    """A lease on the records of a log: bucket -> the next offset to read."""
    leases = LogLeases(table, topic_id)
    return Lease(leases.put, leases.delete, name=uuid.uuid4().hex, follows_seconds=LOG_SECONDS)
