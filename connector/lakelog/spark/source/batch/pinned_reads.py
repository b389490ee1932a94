"""Which snapshots the batch reads of this thread show: inside `consistent_read`, those that were chosen there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.origins import LineKey, TableVersion
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.refs import SnapshotChoice
from lakelog.lineage.answers.consistent import At, ConsistentSnapshots, consistent_snapshots
from lakelog.lineage.tables.found_tables import line_key
from lakelog.streams.phases.stream_head import check_same_commit


@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """The snapshots that reads show, by table or branch. `names` are the names of the tables."""

    lines: Mapping[LineKey, TableVersion]
    names: Sequence[str]

    def choice(self, table: FileStoreTable, given: SnapshotChoice) -> SnapshotChoice:
        """The snapshot that a read of a table shows.

        Raises InvalidRequestError for a table without a chosen snapshot and for a read that names another snapshot,
        NotFoundError for a snapshot that has expired.
        """
        named = [key for key, value in given.items() if value is not None]
        if named:
            raise InvalidRequestError(
                f"a read with consistent snapshots shows the one that was chosen: leave out {listed(named)}; a time is "
                "given as at= of consistent_read, a branch by the table's name, db.t$branch_b"
            )
        at = self.lines.get(line_key(table))
        if at is None:
            raise InvalidRequestError(
                f"table {table.name} is read with consistent snapshots of {listed(self.names)}: name it among them, or "
                "read it outside"
            )
        found = table.snapshots.get(at.snapshot_id)
        check_same_commit(table, at.snapshot_id, found=found.uuid, read=at.commit)
        return {"snapshot_id": at.snapshot_id}


PINS: ContextVar[Pins | None] = ContextVar("lakelog_pins", default=None)


def pins_with(table: TableStore, names: Sequence[str] | ConsistentSnapshots, catalog: Catalog, at: At | None) -> Pins:
    """The pins of a read that is to be consistent with other tables, or that uses snapshots chosen before."""
    if isinstance(names, ConsistentSnapshots):
        return pins_of(catalog, names)
    given = [names] if isinstance(names, str) else list(names)
    return pins_of(catalog, consistent_snapshots(catalog, list(dict.fromkeys([table.name, *given])), at))


def pins_of(catalog: Catalog, found: ConsistentSnapshots) -> Pins:
    """The pins of consistent snapshots."""
    lines = {line_key(catalog.load_table(name).store): at for name, at in found.snapshots.items()}
    return Pins(lines=lines, names=list(found))
