"""Rebuilds the system tables from living snapshots; what these cannot restore stays unchanged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakelog.common.errors import LakelogError
from lakelog.filestore.metadata.snapshots import SnapshotManager
from lakelog.filestore.schema import TablePaths
from lakelog.lineage.tables.edge_columns import FORK_OPERATION
from lakelog.lineage.tables.feeding import feed_tables
from lakelog.lineage.tables.found_tables import note_unreadable
from lakelog.lineage.tables.progress import FedLine, lines_of
from lakelog.warehouse.lineage_tables import SNAPSHOT_EDGES
from lakelog.warehouse.system_database import SystemDatabase

if TYPE_CHECKING:
    from lakelog.warehouse.warehouse import Warehouse

_SNAPSHOT = ("sink_uuid", "sink_line", "sink_snapshot", "sink_commit")


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildResult:
    """What a rebuild read from snapshots, and what it left unchanged.

    `kept` has the tables with batches whose snapshots expired, were rolled back or were dropped with their branch, and
    their numbers: only the system tables have their lineage.
    """

    tables: int
    batches: int
    edges: int
    kept: Mapping[str, int] = field(default_factory=dict)


def rebuild(catalog: Warehouse) -> RebuildResult:
    """Read the lineage of all living snapshots into the system tables again, as if none had been fed.

    Lineage of snapshots that no longer live is kept and reported. The options say what is recorded, as for `feed`.
    Raises InvalidRequestError if neither is on.
    """
    return rebuild_catalog(catalog)


def rebuild_catalog(catalog: Warehouse, on_step: Callable[[str], None] = lambda _: None) -> RebuildResult:
    """Like `rebuild`; `on_step` is called after each step, with the name of the step."""
    database = SystemDatabase.of(catalog)
    fed = feed_tables(catalog, database, on_step, start=1).fed
    unreadable: set[tuple[object, ...]] = set()  # lines whose living snapshots are not known
    living: dict[tuple[object, ...], set[tuple[object, ...]]] = {}
    for _, _, table in catalog.stores():
        for line in lines_of(table):
            key = (table.uuid, line.branch)
            try:
                living.setdefault(key, set()).update(_living(line))
            except LakelogError as error:
                note_unreadable(replace(table, branch=line.branch).name, table.path, error)
                unreadable.add(key)
    return RebuildResult(
        tables=fed.tables, batches=fed.batches, edges=fed.edges, kept=_kept(database, living, unreadable)
    )


def _living(line: FedLine) -> list[tuple[object, ...]]:
    snapshots = SnapshotManager(line.table.file_io, TablePaths(line.table.path, line.branch))
    found: list[tuple[object, ...]] = []
    first = 1
    while piece := snapshots.living(first, count=1_000):
        found += [(one.id, one.uuid or "") for one in piece]
        first = piece[-1].id + 1
    return found


def _kept(
    database: SystemDatabase,
    living: Mapping[tuple[object, ...], set[tuple[object, ...]]],
    unreadable: Collection[tuple[object, ...]],
) -> Mapping[str, int]:
    columns = [*_SNAPSHOT, "user", "identifier", "sink_table"]
    rows = (row for row in database.found(SNAPSHOT_EDGES, [*columns, "operation"]))
    batches = {tuple(row[name] for name in columns) for row in rows if row["operation"] != FORK_OPERATION}
    known = (batch for batch in batches if batch[:2] not in unreadable)
    gone = (batch for batch in known if batch[2:4] not in living.get(batch[:2], set()))
    return dict(sorted(Counter(str(batch[-1]) for batch in gone).items()))
