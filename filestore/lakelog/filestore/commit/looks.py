"""How a commit sees the table before it changes anything."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.io.network import both
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The newest snapshot, None before the first, and whether the table has got a schema after that of the handle.

    `at_seconds` is when it was read, by a monotonic clock.
    """

    snapshot: Snapshot | None
    has_newer_schema: bool
    at_seconds: float


def look_at(table: TableStore, clock: CommitClock) -> Look:
    """Read the newest snapshot, and beside it whether there is a newer schema."""
    at_seconds = clock.seconds()
    newer = table.paths.schema(table.schema.id + 1)
    latest, has_newer = both(table.file_io, table.snapshots.latest, lambda: table.file_io.exists(newer))
    return Look(snapshot=latest, has_newer_schema=has_newer, at_seconds=at_seconds)


def newest_schema_id(table: TableStore, look: Look) -> int:
    """The schema of the next snapshot: the newest one, which may be newer than that of the handle."""
    newest = max(table.schema.id, 0 if look.snapshot is None else look.snapshot.schema_id)
    if newest == table.schema.id and not look.has_newer_schema:
        return newest
    while table.file_io.exists(table.paths.schema(newest + 1)):
        newest += 1
    return newest
