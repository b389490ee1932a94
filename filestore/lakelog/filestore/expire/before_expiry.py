"""What takes the lineage of snapshots before they expire: a port, which a part above the file store fills.

The consumer `lakelog-lineage` holds the snapshots that were not taken. Where nothing fills the port, as in a process
that has imported `lakelog.filestore` alone, they stay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from lakelog.common.errors import LakelogError
from lakelog.common.quoting import escaped
from lakelog.filestore.metadata.tables.consumers import LINEAGE_CONSUMER, ConsumerManager

if TYPE_CHECKING:
    from lakelog.filestore.metadata.tables.store import TableStore

logger = logging.getLogger("lakelog.filestore")

TakeLineage = Callable[["TableStore"], None]
_takers: dict[str, TakeLineage] = {}


def take_before_expiry(name: str, take: TakeLineage) -> None:
    """From now on call `take` with a line of which snapshots with lineage are about to expire.

    It moves, makes or deletes the consumer. One of a name replaces the one before.
    """
    _takers[name] = take


def has_lineage_taken() -> bool:
    """Whether anything takes lineage in this process."""
    return bool(_takers)


def take_lineage(table: TableStore, *, so: str = "its snapshots stay") -> None:
    """Have the lineage of a line taken. Errors are logged, with what follows from them: by default snapshots stay."""
    for name, take in _takers.items():
        try:
            take(table)
        except LakelogError as error:
            logger.warning("%s: its lineage was not taken by %s, so %s: %s", escaped(table.name), name, so, error)


def take_lineage_of_deleted(table: TableStore) -> None:
    """Have the lineage of a line taken before a call of a user deletes snapshots of it. Errors are logged."""
    take_lineage(table, so="that of the deleted snapshots is not known any more")


def unfed_from(table: TableStore) -> int | None:
    """The first snapshot of a line whose lineage was not taken; None for a line that is not held.

    It is 1 where the line has other commits since: a rollback by another engine leaves the consumer where it was.
    """
    held = ConsumerManager(table.file_io, table.paths).consumer(LINEAGE_CONSUMER)
    if held is None:
        return None
    before = table.snapshots.find(held.next_snapshot - 1)
    is_other = before is not None and held.commit is not None and before.uuid != held.commit
    is_back = (table.snapshots.latest_id() or 0) < held.next_snapshot - 1
    return 1 if is_other or is_back else held.next_snapshot
