"""What users call on branches: creating, renaming, deleting, listing, and deleting by age.

Each call first finishes the steps of branches that were cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.quoting import listed, shown
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.parsing import LONG_MAX
from lakelog.filestore.options.reading import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from lakelog.filestore.refs.branches import branch_creating, branch_removing, branch_renaming
from lakelog.filestore.refs.branches.branch_finishing import drop_stale_tags, finish_steps
from lakelog.filestore.refs.branches.branch_names import check_branch_name
from lakelog.filestore.refs.branches.branch_steps import check_is_main
from lakelog.filestore.refs.branches.branches import Branch, branch_list, find_branch
from lakelog.filestore.refs.states.travel import SnapshotChoice, snapshot_of
from lakelog.filestore.schema.paths import MAIN_BRANCH, TablePaths


def create_branch(
    table: TableStore,
    name: str,
    *,
    empty: bool = False,
    time_retained_millis: int | None = None,
    if_not_exists: bool = False,
    check: Callable[[Snapshot], None] | None = None,
    **which: Unpack[SnapshotChoice],
) -> Branch:
    """Create a branch from the newest snapshot, or the one that arguments name, or an `empty` one with the columns.

    The branch shares the files of the table, only metadata are copied. `check` is called with the snapshot, and raises
    an error if no branch can begin there. Raises InvalidRequestError for a name that is not allowed, ConflictError for
    one that is taken.
    """
    named = [key for key, value in which.items() if value is not None]
    if empty and named:
        raise InvalidRequestError(f"branch {shown(name)} is made empty or from {listed(named)}, not both")
    if which.get("branch"):
        raise InvalidRequestError(f"branch {shown(name)} is made from the table, not from another branch")
    snapshot = None if empty else snapshot_of(table, which)
    if snapshot is not None and check is not None:
        check(snapshot)
    if table.branch != MAIN_BRANCH:
        raise InvalidRequestError(
            f"{table.name} is a branch, and a branch has no branches: those of a table are side by side, and each "
            f"begins at a snapshot of the table. Make {shown(name)} of the table, without the branch; to begin with "
            f"the rows of {shown(table.branch)}, merge them into the table before (branches.merge), or write them"
        )
    check_branch_name(name)
    if time_retained_millis is not None and not 1 <= time_retained_millis <= LONG_MAX:
        raise InvalidRequestError(
            f"branch {name!r} cannot be kept for {time_retained_millis} ms; expected a time above 0"
        )
    finish_steps(table)
    found = find_branch(table, name) if if_not_exists else None
    if found is not None:
        return found
    step = branch_creating.plan_branch(
        table, snapshot, tag=which.get("tag"), created_millis=system_millis(), retained_millis=time_retained_millis
    )
    branch_creating.create_branch(table, name, step)
    made = find_branch(table, name)
    if made is None:
        raise ConflictError(f"branch {name!r} of {table.name} was deleted while it was made")
    return made


def rename_branch(table: TableStore, old: str, new: str) -> None:
    """Rename a branch; stop its writers first. Raises NotFoundError, ConflictError, InvalidRequestError."""
    check_is_main(table, "renamed")
    finish_steps(table)
    branch_renaming.rename_branch(table, old, new)


def delete_branch(table: TableStore, name: str, *, if_exists: bool = False) -> None:
    """Delete a branch; `remove_orphan_files` deletes the files that only the branch named. Raises NotFoundError."""
    check_is_main(table, "deleted")
    finish_steps(table)
    if if_exists and name not in table.branch_names()[1:]:
        return
    branch_removing.delete_branch(table, name)


def expire_branches(table: TableStore, *, age_millis: int | None = None, now_millis: int | None = None) -> list[str]:
    """Delete the branches whose time is over, and their protecting tags; returns the branches.

    These are the branches whose retention time has passed, and with an age also those that were neither created nor
    written since. Branches that an option of the table names are kept.
    """
    check_is_main(table, "expired")
    finish_steps(table)
    now = system_millis() if now_millis is None else now_millis
    options = (table.schemas.latest() or table.schema).options
    named = {SCAN_FALLBACK_BRANCH.of(options), SCAN_PRIMARY_BRANCH.of(options)}
    due = [one.name for one in branch_list(table) if one.name not in named and _is_due(table, one, age_millis, now)]
    for name in due:
        branch_removing.delete_branch(table, name)
    drop_stale_tags(table)
    return due


def _is_due(table: TableStore, branch: Branch, age_millis: int | None, now_millis: int) -> bool:
    if branch.expires_millis is not None and branch.expires_millis < now_millis:
        return True
    if age_millis is None:
        return False
    newest = SnapshotManager(table.file_io, TablePaths(table.path, branch.name)).latest()
    written = branch.created_millis if newest is None else max(branch.created_millis, newest.time_millis)
    return written < now_millis - age_millis
