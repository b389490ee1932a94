"""Tables and their snapshots as sources of a batch."""

from __future__ import annotations

from lakelog.filestore.metadata.origins import ReadMode, TableSource, TableVersion
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import TableStore, identity_of
from lakelog.filestore.schema import BRANCH_INFIX, MAIN_BRANCH


def uuid_of(table: TableStore) -> str:
    """What identifies a table in lineage: its uuid, or for a table of another engine its creation time."""
    return table.uuid or identity_of(table).partition(BRANCH_INFIX)[0]


def source_of_table(table: TableStore, *, mode: ReadMode) -> TableSource:
    """A table, or a branch of it, as a source from which nothing is read yet."""
    is_main = table.branch == MAIN_BRANCH
    return TableSource(
        table=table.name.partition(BRANCH_INFIX)[0],
        uuid=uuid_of(table),
        path=table.path,
        branch=None if is_main else table.branch,
        mode=mode,
    )


def version_of(snapshot: Snapshot | None) -> TableVersion | None:
    """A snapshot, and the commit that made it; None for the empty table."""
    return None if snapshot is None else TableVersion(snapshot_id=snapshot.id, commit=snapshot.uuid)
