"""Where branches began, as edges: the rows that a branch began with are made from a snapshot of its table.

Such an edge has no job; it is written to the snapshot at which the branch began, in the branch. Only questions use it:
batches of jobs are other edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.common.errors import LakelogError
from lakelog.filestore.metadata.origins import ReadMode, TableVersion
from lakelog.filestore.metadata.snapshots import Snapshot, is_same_commit
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.records.sources import uuid_of
from lakelog.lineage.records.unreadable import note_unreadable, readable_tables
from lakelog.lineage.tables.beginnings import Beginning, beginning_of, check_line_name
from lakelog.lineage.tables.edges import EDGE_SCHEMA, Edge, edge_table
from lakelog.warehouse.lineage_tables import SNAPSHOT_EDGES
from lakelog.warehouse.system_database import SystemDatabase, plain_times

if TYPE_CHECKING:
    from lakelog.warehouse.warehouse import Warehouse

FORK_OPERATION = "BRANCH"  # the operation of the edge of a fork
# The reason in the edge of a branch that its table has taken: then the branch continues after a snapshot of its own.
TAKEN = "the table has taken the branch up to here"
TAKEN_SOMETIME = f"{TAKEN}, and when is not known"
_USER = "branch"


def owning_line(table: TableStore, snapshot_id: int) -> TableStore:
    """The line that owns a snapshot of a line: the table, for what a branch shares with it.

    A branch that the table has taken begins again at its newest snapshot, so the table also has the earlier ones.
    """
    if table.branch == MAIN_BRANCH:
        return table
    began, main = beginning_of(table, table.branch), replace(table, branch=MAIN_BRANCH)
    if began is None or snapshot_id > began.version.snapshot_id:
        return table
    own = table.snapshots.find(snapshot_id)
    is_shared = own is None or snapshot_id == began.version.snapshot_id
    return main if is_shared or is_same_commit(own, main.snapshots.find(snapshot_id)) else table


def living_commit(table: TableStore, snapshot_id: int) -> str | None:
    """The commit that a number has in a line; None if it does not live there.

    A branch still has the snapshot at which it began even if its table was rolled back and reused its number.
    """
    found = table.snapshots.find(snapshot_id)
    return None if found is None else found.uuid


def fork_edges(catalog: Warehouse) -> pa.Table:
    """The edges of the branches of a warehouse, including deleted branches that were fed.

    A branch that cannot be read has none, unless it was fed, and is reported as unreadable.
    """
    stored = SystemDatabase.of(catalog).find(SNAPSHOT_EDGES)
    fed = [] if stored is None else plain_times(stored.to_arrow(where=f"operation = '{FORK_OPERATION}'")).to_pylist()
    found = {fork_key(edge): edge for edge in map(_of_row, fed)}
    for _, _, table in readable_tables(catalog):
        for edge in readable_forks(table):
            before = found.get(fork_key(edge))
            if before is not None:  # the snapshot may have expired
                edge["sink_time"] = max(edge["sink_time"], before["sink_time"])
                edge["why"] = edge["why"] or before["why"]
            found[fork_key(edge)] = edge
    return edge_table(found.values())


def readable_forks(table: TableStore) -> Iterator[Edge]:
    """The edges of the branches of a table. A branch that cannot be read has none, and is reported as unreadable."""
    for branch in table.branch_names()[1:]:
        try:
            edge = fork_edge(table, branch)
        except LakelogError as error:
            note_unreadable(replace(table, branch=branch).name, table.path, error)
            continue
        if edge is not None:
            yield edge


def fork_key(edge: Edge) -> tuple[object, ...]:
    """The key of the edge of a branch."""
    return edge["sink_uuid"], edge["sink_branch"], edge["sink_snapshot"], edge["sink_commit"]


def fork_keys(database: SystemDatabase) -> set[tuple[object, ...]]:
    """The keys of the branches whose edges were fed."""
    stored = database.find(SNAPSHOT_EDGES)
    fed = [] if stored is None else stored.to_arrow(where=f"operation = '{FORK_OPERATION}'").to_pylist()
    return {fork_key(_of_row(row)) for row in fed}


def _of_row(row: Edge) -> Edge:
    commit = row["sink_commit"] or None
    return {name: row[name] for name in EDGE_SCHEMA.names if name in row} | {
        "sink_branch": row["sink_line"],
        "sink_commit": commit,
    }


def fork_edge(table: TableStore, branch: str) -> Edge | None:
    """The edge of a branch; None if it began empty. Raises CorruptDataError and UnsupportedError."""
    check_line_name(table, branch)
    began = beginning_of(table, branch)
    if began is None:
        return None
    return _edge_of(table, branch, began)


def taken_edge(table: TableStore, branch: str, snapshot: Snapshot, *, taken_millis: int) -> Edge:
    """The edge of a branch that its table has taken up to a snapshot, and that no longer exists."""
    version = TableVersion(snapshot_id=snapshot.id, commit=snapshot.uuid)
    return _edge_of(table, branch, Beginning(version=version, time_millis=taken_millis, has_taken=True))


def _edge_of(table: TableStore, branch: str, began: Beginning) -> Edge:
    version, name = began.version, replace(table, branch=MAIN_BRANCH).name
    return {
        "operation": FORK_OPERATION,
        "sink_uuid": uuid_of(table),
        "sink_table": name,
        "sink_branch": branch,
        "sink_snapshot": version.snapshot_id,
        "sink_commit": version.commit,
        "sink_time": began.time_millis,
        "user": _USER,
        "identifier": 0,
        "source_kind": "table",
        "source_uuid": uuid_of(table),
        "source_table": name,
        "source_path": table.path,
        "mode": ReadMode.BATCH.value,
        "source_to": version.snapshot_id,
        "source_to_commit": version.commit,
        "exact": True,
        "why": None if not began.has_taken else TAKEN if began.is_dated else TAKEN_SOMETIME,
    }
