"""Where branches begin, and which of their snapshots are their own.

The fork file names the snapshot at which a branch was created, or up to which its table has taken it since. A branch
that was rolled back beyond that begins at an older snapshot: the newest that it still shares with its table. A branch
with which another engine has replaced its table begins at the newest snapshot that both have.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakelog.common.errors import UnsupportedError
from lakelog.common.quoting import escaped, is_unicode
from lakelog.filestore.metadata.origins import TableVersion
from lakelog.filestore.metadata.snapshots import Snapshot, SnapshotManager, is_same_commit
from lakelog.filestore.metadata.tables import Fork, TableStore, read_fork
from lakelog.filestore.schema import MAIN_BRANCH

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
