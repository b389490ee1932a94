"""Where branches began, as edges: the rows that a branch began with are made from a snapshot of its table.

Such an edge is written to the snapshot at which the branch began, as the branch has it, by no job. It is a question's
alone: batches of jobs are other edges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.catalog.system.lineage_tables import SNAPSHOT_EDGES
from lakelog.catalog.system.system_database import SystemDatabase, plain_times
from lakelog.common.errors import LakelogError
from lakelog.filestore.metadata.snapshots.snapshot import is_same_commit
from lakelog.filestore.metadata.tables.forks import read_fork
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.paths import MAIN_BRANCH
from lakelog.lineage.records.record import ReadMode, TableVersion
from lakelog.lineage.records.sources import uuid_of
from lakelog.lineage.records.unreadable import note_unreadable, readable_tables
from lakelog.lineage.tables.edges import EDGE_SCHEMA, Edge, check_line_name, edge_table

if TYPE_CHECKING:
    from lakelog.catalog.catalog import Catalog

FORK_OPERATION = "BRANCH"  # of the edge of a fork
_USER = "branch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The snapshot of its table at which a branch began, and when the branch was made, as far as that is known.

    A branch that its table has taken begins anew at a snapshot that is younger than the branch: then it is that time.
    """

    version: TableVersion
    time_millis: int


def beginning_of(table: TableStore, branch: str) -> Beginning | None:
    """Where a branch began; None for one that began empty, or shares no living snapshot with its table.

    Branches of other engines have no record of it: they begin at the newest snapshot that both lines have. Raises
    CorruptDataError.
    """
    fork = read_fork(table, branch)
    if fork is not None:
        if fork.snapshot_id is None:
            return None
        version = TableVersion(snapshot_id=fork.snapshot_id, commit=fork.commit_uuid)
        return Beginning(version=version, time_millis=max(fork.created_millis, _time_of(table, branch, version)))
    main, own = replace(table, branch=MAIN_BRANCH).snapshots, replace(table, branch=branch).snapshots
    common = None
    for number in own.ids():
        snapshot = main.find(number)
        if snapshot is None or not is_same_commit(snapshot, own.find(number)):
            break
        common = snapshot
    if common is None:
        return None
    version = TableVersion(snapshot_id=common.id, commit=common.uuid)
    return Beginning(version=version, time_millis=common.time_millis)


def _time_of(table: TableStore, branch: str, version: TableVersion) -> int:
    """When a snapshot of a table or of its branch was committed; 0 for one that lives in neither."""
    lines = (replace(table, branch=one).snapshots for one in (branch, MAIN_BRANCH))
    found = (line.find(version.snapshot_id) for line in lines)
    return next((one.time_millis for one in found if one is not None and one.uuid == version.commit), 0)


def owning_line(table: TableStore, snapshot_id: int) -> TableStore:
    """The line that has a snapshot of a line as its own: the table for what a branch shares with it.

    A branch that the table has taken begins anew at its newest snapshot, so the table has those before it too.
    """
    if table.branch == MAIN_BRANCH:
        return table
    began, main = beginning_of(table, table.branch), replace(table, branch=MAIN_BRANCH)
    if began is None or snapshot_id > began.version.snapshot_id:
        return table
    own = table.snapshots.find(snapshot_id)
    is_shared = own is None or snapshot_id == began.version.snapshot_id
    return main if is_shared or is_same_commit(own, main.snapshots.find(snapshot_id)) else table


def fork_edges(catalog: Catalog) -> pa.Table:
    """The edges of the branches of a warehouse, of deleted ones too where they were fed.

    A branch that cannot be read has none, unless it was fed, and is named as unreadable.
    """
    stored = SystemDatabase.of(catalog).find(SNAPSHOT_EDGES)
    fed = [] if stored is None else plain_times(stored.to_arrow(where=f"operation = '{FORK_OPERATION}'")).to_pylist()
    found = {(row["sink_uuid"], row["sink_line"], row["sink_snapshot"]): _of_row(row) for row in fed}
    for _, _, table in readable_tables(catalog):
        for edge in readable_forks(table._files):
            key = edge["sink_uuid"], edge["sink_branch"], edge["sink_snapshot"]
            before = found.get(key)
            if before is not None and before["sink_commit"] == edge["sink_commit"]:  # the snapshot may have expired
                edge["sink_time"] = max(edge["sink_time"], before["sink_time"])
            found[key] = edge
    return edge_table(found.values())


def readable_forks(table: TableStore) -> Iterator[Edge]:
    """The edges of the branches of a table. A branch that cannot be read has none, and is named as unreadable."""
    for branch in table.branch_names()[1:]:
        try:
            edge = fork_edge(table, branch)
        except LakelogError as error:
            note_unreadable(replace(table, branch=branch).name, table.path, error)
            continue
        if edge is not None:
            yield edge


def fork_key(edge: Edge) -> tuple[object, ...]:
    """What the edge of a branch is known by."""
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
    """The edge of a branch; None for one that began with nothing. Raises CorruptDataError and UnsupportedError."""
    check_line_name(table, branch)
    began = beginning_of(table, branch)
    if began is None:
        return None
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
    }
