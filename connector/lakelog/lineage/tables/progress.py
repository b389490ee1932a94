"""How far the lineage of a line was fed: two consumers of the line hold what was not fed.

`lakelog-lineage` names the first snapshot that was not fed, with the uuid of the commit before it: after a rollback
numbers are reused, and the line is fed from its oldest snapshot. While the ledger of the newest snapshot names batches
whose parts are in older snapshots, a lease holds those snapshots: their sources belong to the batch once it is whole. A
lease ends after a day, so that a writer that never comes back does not hold snapshots forever.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from lakelog.common.errors import LakelogError
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.snapshots import SnapshotManager
from lakelog.filestore.metadata.tables import LINEAGE_CONSUMER, ConsumerManager, TableStore
from lakelog.filestore.schema import TablePaths
from lakelog.lineage.tables.edges import PARTS_LEASE, Unfed
from lakelog.warehouse.system_database import SystemDatabase

logger = logging.getLogger("lakelog.lineage")

_held: set[tuple[object, ...]] = set()  # lines that this process has already held


@dataclass(frozen=True, slots=True)
class FedLine:
    """One line of a table."""

    table: TableStore
    branch: str

    @property
    def consumers(self) -> ConsumerManager:
        """The consumers of the line."""
        return ConsumerManager(self.table.file_io, TablePaths(self.table.path, self.branch))

    def move(self, fed: Unfed) -> None:
        """Record that this was fed; does nothing on a line without lineage. The lease comes first: it holds more."""
        consumers = self.consumers
        held = consumers.consumer(LINEAGE_CONSUMER)
        if held is None and not fed.edges and fed.parts_from is None:
            return
        if consumers.find(PARTS_LEASE) != fed.parts_from:
            if fed.parts_from is None:
                consumers.delete(PARTS_LEASE)
            else:
                consumers.put(PARTS_LEASE, fed.parts_from)
        consumers.put(LINEAGE_CONSUMER, fed.last.id + 1, commit=fed.last.uuid)

    def is_held(self) -> bool:
        """Whether the consumer exists."""
        return self.consumers.find(LINEAGE_CONSUMER) is not None

    def hold(self, options: Mapping[str, str] | None = None) -> None:
        """Keep the snapshots of the line until they are fed, unless they are kept already.

        `options` are those with which a catalog switches lineage on.
        """
        if not self.is_held():
            snapshots = SnapshotManager(self.table.file_io, TablePaths(self.table.path, self.branch))
            self.consumers.put(LINEAGE_CONSUMER, snapshots.earliest_id() or 1, lineage_options=options)

    def held_options(self) -> Mapping[str, str]:
        """The options with which the line was held."""
        held = self.consumers.consumer(LINEAGE_CONSUMER)
        return {} if held is None else held.lineage_options

    def release(self) -> None:
        """Release everything."""
        for consumer_id in (LINEAGE_CONSUMER, PARTS_LEASE):
            self.consumers.delete(consumer_id)


def lines_of(table: TableStore) -> list[FedLine]:
    """The lines of a table, the main one first. Lists a folder."""
    return [FedLine(table, branch) for branch in table.branch_names()]


def hold_lineage(table: TableStore) -> None:
    """If lineage is recorded, keep the snapshots that a writer is about to make until their lineage is fed.

    Call it once per query or statement: it reads the options of the warehouse. Errors are logged: lineage fails no
    write.
    """
    try:
        if replace(SystemDatabase.beside(table, warehouse_of(table.path)), given={}).switches().is_on:
            FedLine(table, table.branch).hold()
    except LakelogError as error:
        logger.warning("%s: its snapshots are not held until their lineage is fed: %s", table.name, error)


def hold_once(table: TableStore) -> None:
    """Keep the snapshots of a line whose handle switches lineage on, at the first call for it in this process.

    The consumer has the options, so that an expiry by another program feeds. After an error, which is logged, the next
    call tries again.
    """
    key = (table.path, table.branch, table.uuid, *sorted(table.lineage_options.items()))
    if key in _held:
        return
    try:
        FedLine(table, table.branch).hold(table.lineage_options)
        _held.add(key)
    except LakelogError as error:
        logger.warning("%s: its snapshots are not held until their lineage is fed: %s", table.name, error)
