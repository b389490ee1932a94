"""Takes the lineage of snapshots before they expire, by the `lineage_keeper` of their table.

The consumer `lakelog-lineage` holds the snapshots whose lineage was not taken. A table without a keeper, such as one
that was opened without a catalog, keeps these snapshots.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lakelog.common.errors import LakelogError
from lakelog.common.quoting import escaped
from lakelog.filestore.metadata.snapshots.users import PropertyKey
from lakelog.filestore.metadata.tables.consumers import LINEAGE_CONSUMER, ConsumerManager

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
    from lakelog.filestore.metadata.tables.store import TableStore

logger = logging.getLogger("lakelog.filestore")


def take_lineage(table: TableStore, *, so: str = "its snapshots stay") -> None:
    """Take the lineage of a line. Errors are logged, with their consequence `so`: by default snapshots are kept."""
    keeper = table.lineage_keeper
    if keeper is not None:
        _try(table, lambda: keeper.take(table), so=so)


def take_lineage_of_branch(table: TableStore, branch: str, snapshot: Snapshot) -> None:
    """Record that the table has taken over a whole branch, which is deleted. Errors are logged."""
    keeper = table.lineage_keeper
    if keeper is not None:
        _try(table, lambda: keeper.take_branch(table, branch, snapshot), so="when it took the branch is not known")


def _try(table: TableStore, take: Callable[[], None], *, so: str) -> None:
    try:
        take()
    except LakelogError as error:
        logger.warning("%s: its lineage was not taken, so %s: %s", escaped(table.name), so, error)


def take_lineage_of_deleted(table: TableStore) -> None:
    """Take the lineage of a line before a call of a user deletes snapshots of it. Errors are logged."""
    take_lineage(table, so="that of the deleted snapshots is not known any more")


def unfed_from(table: TableStore) -> int | None:
    """The first snapshot of a line whose lineage was not taken; None for a line that is not held.

    It is 1 if the line has got other commits since: a rollback by another engine leaves the consumer where it was.
    """
    held = ConsumerManager(table.file_io, table.paths).consumer(LINEAGE_CONSUMER)
    if held is None:
        return None
    before = table.snapshots.find(held.next_snapshot - 1)
    is_other = before is not None and held.commit is not None and before.uuid != held.commit
    is_back = (table.snapshots.latest_id() or 0) < held.next_snapshot - 1
    return 1 if is_other or is_back else held.next_snapshot


def expires_lineage(table: TableStore, ids: range) -> bool:
    """Whether one of the snapshots has lineage that may not have been taken."""
    held = unfed_from(table)
    if held is not None:
        return held < ids.stop and bool(ids)
    found = (table.snapshots.find(number) for number in ids)
    return any(one is not None and PropertyKey.LINEAGE in one.properties for one in found)
