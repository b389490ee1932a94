"""How far the lineage of a line was fed: two consumers of the line hold what was not fed.

`lakelog-lineage` names the first snapshot that was not fed, with the uuid of the commit before it: after a rollback
numbers are reused, and the line is fed from its oldest snapshot. While the ledger of the newest snapshot names batches
whose parts are in older snapshots, a lease holds those snapshots: their sources belong to the batch once it is whole. A
lease ends after a day, so that a writer that never comes back does not hold snapshots forever.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lakelog.common.errors import LakelogError
from lakelog.filestore.expire import unfed_from
from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.snapshots import PropertyKey, Snapshot, SnapshotManager
from lakelog.filestore.metadata.tables import LEASE_PREFIX, LINEAGE_CONSUMER, ConsumerManager, TableStore
from lakelog.filestore.schema import TablePaths
from lakelog.lineage.tables.beginnings import line_snapshots
from lakelog.lineage.tables.edges import Edge, LineBatches, edges_of_batch
from lakelog.protocol.state import LogState
from lakelog.protocol.statements import unfinished_batches
from lakelog.warehouse.system_database import SystemDatabase

logger = logging.getLogger("lakelog.lineage")

_held: set[tuple[object, ...]] = set()  # lines that this process has already held
PARTS_LEASE = f"{LEASE_PREFIX}lineage-parts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfed:
    """Edges of batches that were not fed, and the snapshot up to which they go.

    `parts_from` is the oldest snapshot with a part of an unfinished batch.
    """

    edges: list[Edge]
    batch_count: int
    last: Snapshot
    parts_from: int | None


@dataclass(frozen=True, slots=True)
class FedLine:
    """One line of a table."""

    table: TableStore
    branch: str

    @property
    def consumers(self) -> ConsumerManager:
        """The consumers of the line."""
        return ConsumerManager(self.table.file_io, TablePaths(self.table.path, self.branch))

    def start(self) -> int:
        """The first snapshot that was not fed; 1 if the line was never fed, or was rolled back or replaced since."""
        return unfed_from(replace(self.table, branch=self.branch)) or 1

    def unfed(self, *, start: int | None = None, edges_max: int | None = None) -> Iterator[Unfed]:
        """What was not fed, oldest first, in pieces of about `edges_max` edges; with `start`, all from there on."""
        first = self.start() if start is None else start
        lease = self.consumers.find(PARTS_LEASE) if start is None else None
        batches, edges, count, log = LineBatches(), list[Edge](), 0, ""
        last: Snapshot | None = None
        for snapshot in line_snapshots(self.table, self.branch, min(first, first if lease is None else lease)):
            for whole in batches.take(snapshot):
                if snapshot.id >= first:
                    edges += edges_of_batch(self.table, self.branch, whole)
                    count += 1
            last, log = snapshot, snapshot.properties.get(PropertyKey.LOG_STATE, log)
            if edges_max is not None and len(edges) >= edges_max:
                yield Unfed(edges=edges, batch_count=count, last=last, parts_from=_parts_from(batches, log))
                edges, count, last = [], 0, None
        if last is not None and last.id >= first:
            yield Unfed(edges=edges, batch_count=count, last=last, parts_from=_parts_from(batches, log))

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


def _parts_from(batches: LineBatches, log: str) -> int | None:
    """The oldest snapshot with a part of an unfinished batch; what is not a writer's batch never becomes whole."""
    if not batches.parts or not log:
        return None
    unfinished = unfinished_batches(LogState.from_json(log, where="a snapshot with parts of batches"))
    keys = {(batch.user, batch.identifier) for batch in unfinished}
    return min((part[0].snapshot_id for key, part in batches.parts.items() if key in keys), default=None)


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
