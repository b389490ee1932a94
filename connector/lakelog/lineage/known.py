"""All edges that are known: those of the system tables, and those of snapshots that were not fed yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.catalog.lineage_tables import SNAPSHOT_EDGES
from lakelog.catalog.system_database import SystemDatabase
from lakelog.catalog.system_tables import all_tables
from lakelog.lineage.edges import Edge, edge_table
from lakelog.lineage.feeding import is_deleted
from lakelog.lineage.job_status import job_statuses
from lakelog.lineage.progress import lines_of
from lakelog.lineage.projecting import edge_of

if TYPE_CHECKING:
    from lakelog.catalog.catalog import Catalog


def known_edges(catalog: Catalog) -> pa.Table:
    """The edges of all batches of a warehouse's tables, of expired snapshots too where these were fed.

    Without `data-lineage` they are those of the living snapshots. Tables have their present names. Edges of deleted
    jobs are left out. The columns are those of `lakelog.lineage.edges.EDGE_SCHEMA`.
    """
    return edge_table(known(catalog))


def known(catalog: Catalog) -> list[Edge]:
    """As `known_edges`, as dicts; times are milliseconds since 1970."""
    database = SystemDatabase.of(catalog)
    statuses = job_statuses(database)
    has_data = database.find(SNAPSHOT_EDGES) is not None
    names: dict[str, str] = {}
    unfed: list[Edge] = []
    for database_name, name, table in all_tables(catalog):
        if table.uuid:
            names.setdefault(table.uuid, f"{database_name}.{name}")
        for line in lines_of(table._files):
            for piece in line.unfed(start=None if has_data else 1):
                unfed += piece.edges
    snapshots = {_snapshot_of(edge) for edge in unfed}
    stored = [edge_of(row) for row in database.found(SNAPSHOT_EDGES)]
    found = [*(edge for edge in stored if _snapshot_of(edge) not in snapshots), *unfed]
    return [_present(edge, names) for edge in found if not is_deleted(statuses, edge)]


def _snapshot_of(edge: Edge) -> tuple[object, ...]:
    return tuple(edge.get(name) for name in ("sink_uuid", "sink_branch", "sink_snapshot", "sink_commit"))


def _present(edge: Edge, names: dict[str, str]) -> Edge:
    sides = [(f"{side}_table", names.get(str(edge.get(f"{side}_uuid")))) for side in ("sink", "source")]
    return {**edge, **{column: name for column, name in sides if name is not None}}
