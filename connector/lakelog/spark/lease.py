"""A lease on snapshots: a consumer file, which every engine that expires snapshots of the format respects.

It is the JSON object {"nextSnapshot": id} in `<table>/consumer/consumer-<id>`: no snapshot from that one on expires.
Spark does not tell a source that its query has stopped, so a lease can outlive the query; the engine that expires
snapshots drops files that nobody has renewed (`consumer.expiration-time`).
Source: Paimon spec, "Consumer ID".
"""

from __future__ import annotations

import json
import uuid

from lakelog.filestore.store import TableStore

PREFIX = "lakelog-stream-"


class SnapshotLease:
    """Keeps the snapshots of one table from a snapshot on, for one run of a query."""

    def __init__(self, table: TableStore) -> None:
        """Hold nothing yet."""
        self._table = table
        self._path = table.paths.consumer(f"{PREFIX}{uuid.uuid4().hex}")
        self._held: int | None = None

    def hold(self, snapshot_id: int) -> None:
        """Keep this snapshot and those after it; older ones are let go."""
        if self._held != snapshot_id:
            self._table.file_io.write_bytes(self._path, json.dumps({"nextSnapshot": snapshot_id}).encode())
            self._held = snapshot_id

    def release(self) -> None:
        """Keep nothing any more."""
        if self._held is not None:
            self._table.file_io.delete(self._path)
            self._held = None
