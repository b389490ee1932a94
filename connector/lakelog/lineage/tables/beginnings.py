"""Where branches begin, as edges too, and which of their snapshots are their own.

The fork file names the snapshot at which a branch was created, or up to which its table has taken it since. A branch
that was rolled back beyond that begins at an older snapshot: the newest that it still shares with its table. A branch
with which another engine has replaced its table begins at the newest snapshot that both have.

The rows that a branch began with are made from a snapshot of its table: an edge without a job, which is written to that
snapshot in the branch. Only questions use it: batches of jobs are other edges.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakelog.common.errors import LakelogError, UnsupportedError
from lakelog.common.quoting import escaped, is_unicode
from lakelog.filestore.metadata.origins import ReadMode, TableVersion
from lakelog.filestore.metadata.snapshots import Snapshot, SnapshotManager, is_same_commit
from lakelog.filestore.metadata.tables import Fork, TableStore, read_fork
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.lineage.records.sources import uuid_of
from lakelog.lineage.tables.edge_columns import FORK_OPERATION, TAKEN, TAKEN_SOMETIME, Edge
from lakelog.lineage.tables.found_tables import line_key, note_unreadable
from lakelog.warehouse.lineage_tables import SNAPSHOT_EDGES
from lakelog.warehouse.system_database import SystemDatabase

if TYPE_CHECKING:
    from lakelog.lineage.tables.edge_arrays import EdgeArrays

PIECE_SNAPSHOTS = 1_000  # held in memory at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The snapshot of its table at which a branch began, and when the branch was created, as far as that is known.

    A branch that its table `has_taken` begins again at a snapshot that was written to the branch: then the time is when
    the table took it. If the branch does not know that, `is_dated` is False, and the time is that of the snapshot.
    """

    version: TableVersion
    time_millis: int
    has_taken: bool = False
    is_dated: bool = True


def beginning_of(table: TableStore, branch: str) -> Beginning | None:
    """Where a branch begins; None if it began empty or shares no living snapshot with its table.

    Branches of other engines have no record of their beginning: they begin at the newest snapshot that both lines have.
    Raises CorruptDataError.
    """
    fork = read_fork(table, branch)
    if fork is None:
        common = _shared(table, branch)
        return None if common is None else Beginning(version=_version(common), time_millis=common.time_millis)
    version = forked_at(table, branch, fork)
    if version is None:
        return None
    if fork.taken_millis is not None and version.snapshot_id == fork.snapshot_id:
        return Beginning(version=version, time_millis=fork.taken_millis, has_taken=True)
    written = _time_of(table, branch, version)
    has_taken = written > fork.created_millis  # by an older version of lakelog, or by another engine
    time_millis = max(fork.created_millis, written)
    return Beginning(version=version, time_millis=time_millis, has_taken=has_taken, is_dated=not has_taken)


def forked_at(table: TableStore, branch: str, fork: Fork) -> TableVersion | None:
    """Where a branch with a fork file begins; None if it began empty or no longer shares anything."""
    if fork.snapshot_id is None:
        return None
    own, main = replace(table, branch=branch), replace(table, branch=MAIN_BRANCH).snapshots
    ids = own.snapshots.ids()
    if _leads_from(own, fork.snapshot_id, fork):
        taken = _taken_by_others(main, own.snapshots, [number for number in ids if number > fork.snapshot_id])
        return taken or TableVersion(snapshot_id=fork.snapshot_id, commit=fork.commit_uuid)
    older = (own.snapshots.find(number) for number in reversed(ids) if number < fork.snapshot_id)
    shared = (one for one in older if one is not None and is_same_commit(one, main.find(one.id)))
    found = next(shared, None)
    return None if found is None else _version(found)


def line_snapshots(table: TableStore, branch: str, first: int = 1) -> Iterator[Snapshot]:
    """The living snapshots of one line from an id on, oldest first; for a branch, those that its table lacks.

    Reads them in pieces. Raises UnsupportedError for a branch whose name cannot be in lineage.
    """
    check_line_name(table, branch)
    snapshots = replace(table, branch=branch).snapshots
    main = None
    if branch != MAIN_BRANCH:
        fork = read_fork(table, branch)
        if fork is None:  # from another engine, which copies snapshots of the table
            main = replace(table, branch=MAIN_BRANCH).snapshots
        else:
            began = forked_at(table, branch, fork)
            first = max(first, 1 if began is None else began.snapshot_id + 1)
    while piece := snapshots.living(first, count=PIECE_SNAPSHOTS):
        yield from (one for one in piece if main is None or not is_same_commit(one, main.find(one.id)))
        first = piece[-1].id + 1


def check_line_name(table: TableStore, branch: str) -> None:
    """Raise UnsupportedError for a branch whose name is not UTF-8: edges could not name it."""
    if not is_unicode(branch):
        raise UnsupportedError(
            f"branch '{escaped(branch)}' of {escaped(table.name)} has a name that is not UTF-8, as lineage needs it; "
            f"delete the branch with `delete_branch`, or rename its folder in {escaped(table.paths.branches_dir)}"
        )


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


def asked_line(
    graph: EdgeArrays, table: TableStore, snapshot_id: int, commit: str | None
) -> tuple[TableStore, str | None]:
    """The line that owns a snapshot, and its commit: by default the one that lives in the line in the question.

    A deleted branch may own snapshots below the beginning of a later branch with its name.
    """
    owner = owning_line(table, snapshot_id)
    found = _living_commit(table, snapshot_id) if commit is None else commit
    if owner is table or found is None or _living_commit(owner, snapshot_id) == found:
        return owner, found
    lines = (graph.line(line_key(one)) for one in (owner, table))
    is_owners, is_own = (line is not None and found in graph.commits_of(line, snapshot_id) for line in lines)
    return (table if is_own and not is_owners else owner), found


def _living_commit(table: TableStore, snapshot_id: int) -> str | None:
    """The commit that a number has in a line; None if it does not live there.

    A branch still has the snapshot at which it began even if its table was rolled back and reused its number.
    """
    found = table.snapshots.find(snapshot_id)
    return None if found is None else found.uuid


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
    table = database.find(SNAPSHOT_EDGES)
    columns = ["sink_uuid", "sink_line", "sink_snapshot", "sink_commit"]
    fed = [] if table is None else table.to_arrow(where=f"operation = '{FORK_OPERATION}'", columns=columns).to_pylist()
    return {(*(row[name] for name in columns[:3]), row["sink_commit"] or None) for row in fed}


def fork_edge(table: TableStore, branch: str) -> Edge | None:
    """The edge of a branch; None if it began empty. Raises CorruptDataError and UnsupportedError."""
    check_line_name(table, branch)
    began = beginning_of(table, branch)
    return None if began is None else _edge_of(table, branch, began)


def taken_edge(table: TableStore, branch: str, snapshot: Snapshot, *, taken_millis: int) -> Edge:
    """The edge of a branch that its table has taken up to a snapshot, and that no longer exists."""
    return _edge_of(table, branch, Beginning(version=_version(snapshot), time_millis=taken_millis, has_taken=True))


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
        "user": "branch",
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


def _leads_from(branch: TableStore, number: int, fork: Fork) -> bool:
    """Whether a branch still has the snapshot of its fork, or the snapshot has expired and was not rolled back.

    A rollback deletes the tag that keeps this snapshot in the branch.
    """
    snapshots = branch.snapshots
    found = snapshots.find(number)
    if found is not None:
        return found.uuid == fork.commit_uuid
    latest = snapshots.latest_id()
    if latest is None:
        return True
    if latest < number:
        return False
    tag = fork.protecting_tag
    return tag is None or branch.file_io.exists(branch.paths.tag(tag))


def _taken_by_others(main: SnapshotManager, own: SnapshotManager, ids: Sequence[int]) -> TableVersion | None:
    """The newest of a branch's own snapshots that its table also has; lines that diverge do not meet again."""

    def is_shared(number: int) -> bool:
        found = main.find(number)
        return found is not None and is_same_commit(found, own.find(number))

    if not ids or not is_shared(ids[0]):
        return None
    newest = ids[bisect.bisect_left(ids, True, lo=1, key=lambda number: not is_shared(number)) - 1]
    return _version(own.get(newest))


def _shared(table: TableStore, branch: str) -> Snapshot | None:
    """The last of a branch's oldest snapshots that its table has too, without a gap."""
    main, own = replace(table, branch=MAIN_BRANCH).snapshots, replace(table, branch=branch).snapshots
    found = None
    for number in own.ids():
        snapshot = main.find(number)
        if snapshot is None or not is_same_commit(snapshot, own.find(number)):
            break
        found = snapshot
    return found


def _time_of(table: TableStore, branch: str, version: TableVersion) -> int:
    """When a snapshot of a table or of its branch was committed; 0 if it lives in neither."""
    lines = (replace(table, branch=one).snapshots for one in (branch, MAIN_BRANCH))
    found = (line.find(version.snapshot_id) for line in lines)
    return next((one.time_millis for one in found if one is not None and one.uuid == version.commit), 0)


def _version(snapshot: Snapshot) -> TableVersion:
    return TableVersion(snapshot_id=snapshot.id, commit=snapshot.uuid)
