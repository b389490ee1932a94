"""The state to which a restore or a rollback returns."""

from __future__ import annotations

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import listed
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.refs.states.travel import SnapshotChoice
from lakelog.filestore.verbs.read_verbs import ReadableTable

_WAYS = ("snapshot_id", "tag", "timestamp", "watermark", "version")


def target_of(table: ReadableTable, which: SnapshotChoice) -> Snapshot:
    """The snapshot or tag that the arguments name. Raises InvalidRequestError without exactly one, NotFoundError."""
    given = [name for name, value in which.items() if value is not None]
    if len(given) != 1 or given[0] not in _WAYS:
        raise InvalidRequestError(
            f"a restore or rollback of table {table.name} goes to one state, named by one of {listed(_WAYS)}; found "
            f"{listed(given) or 'none of them'}"
        )
    found = table.snapshot(**which)
    if found is None:
        raise NotFoundError(f"table {table.name} has no snapshot yet")
    return found
