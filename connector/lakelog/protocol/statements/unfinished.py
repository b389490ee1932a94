"""Batches that a snapshot holds in part: what aligned readers wait for, and how they stop waiting for one.

A snapshot that took in another writer's transactions holds that writer's batch in part until the writer makes its own
snapshot. A reader that ends its batches at whole snapshots waits for that. If the writer does not come back, its batch
can be abandoned: a snapshot without rows lists it in the log state. Nothing is dropped. The parts stay in log and
files, and a writer that comes back completes its batch, whose other parts are then in a later snapshot.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import shown
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.protocol.access.place import check_no_copy
from lakelog.protocol.state.ports import SnapshotChange
from lakelog.protocol.state.state import Batch, LogState, TableState
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots

_ABANDONING_USER = "lakelog-log-abandon"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedBatch:
    """A batch from which a snapshot holds the transactions of `buckets`, maybe not all."""

    user: str
    identifier: int
    buckets: tuple[int, ...]

    def __str__(self) -> str:
        buckets = ", ".join(map(str, self.buckets))
        return f"batch {self.identifier} of {shown(self.user)} (bucket{'s' * (len(self.buckets) > 1)} {buckets})"


def unfinished_batches(log: LogState) -> tuple[UnfinishedBatch, ...]:
    """The batches that a snapshot holds in part and that are not abandoned, by user. Pure."""
    found: dict[tuple[str, int], list[int]] = {}
    for bucket, user, one in (
        (bucket, user, one)
        for ledger in (*(one.ledger for one in log.moved), log.ledger)
        for bucket, taken in sorted(ledger.items())
        for user, one in taken.items()
    ):
        if user not in log.abandoned or log.abandoned[user] < one.identifier:
            found.setdefault((user, one.identifier), []).append(bucket)
    return tuple(
        UnfinishedBatch(user=user, identifier=identifier, buckets=tuple(buckets))
        for (user, identifier), buckets in sorted(found.items())
    )


def abandon_writer(table: TableStore, topic_id: str, user: str) -> Snapshot:
    """Make a snapshot without rows, so that readers no longer wait for the user's unfinished batch.

    Raises NotFoundError when the newest snapshot holds no unfinished batch of the user, and for a copied folder like
    `check_no_copy`.
    """
    batch = Batch(user=f"{_ABANDONING_USER}-{uuid.uuid4()}", identifier=0, source_digest=None)
    snapshots = DriverSnapshots(table, topic_id)

    def decide(state: TableState) -> SnapshotChange:
        check_no_copy(table, state.place)
        log = state.logged
        mine = _of_user(unfinished_batches(log), user, table_name=table.path)
        newest = max(one.identifier for one in mine)
        lineage = [{"user": batch.user, "identifier": 0, "abandoned": {"user": user, "identifier": newest}}]
        return SnapshotChange(
            files=(),
            changelog=(),
            users=state.users,
            log=replace(log, abandoned={**log.abandoned, user: newest}),
            lineage=lineage,
        )

    snapshot_id = snapshots.append(batch, decide)
    assert snapshot_id is not None, "a decision that is never None makes a snapshot"
    return table.snapshots.get(snapshot_id)


def _of_user(found: Sequence[UnfinishedBatch], user: str, *, table_name: str) -> list[UnfinishedBatch]:
    mine = [one for one in found if one.user == user]
    if not mine:
        others = "; unfinished are " + ", ".join(map(str, found)) if found else "; no batch is unfinished"
        raise NotFoundError(
            f"the newest snapshot of table {table_name} holds no unfinished batch of {shown(user)}{others}"
        )
    return mine


def check_whole(log: LogState, *, snapshot_id: int, table_name: str) -> None:
    """Raise InvalidRequestError for a snapshot that holds a batch in part."""
    found = unfinished_batches(log)
    if found:
        raise InvalidRequestError(
            f"snapshot {snapshot_id} of table {table_name} holds {', '.join(map(str, found))} in part; name an older "
            "snapshot, or the one in which the batch ends"
        )
