"""What users call on branches: creating, renaming, deleting, listing, and deleting by age.

Each call first finishes the steps of branches that were cut off.
"""

from __future__ import annotations

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.quoting import shown
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.parsing import LONG_MAX
from lakelog.filestore.options.reading import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from lakelog.filestore.refs.branches.branch_creating import create_branch, plan_branch
from lakelog.filestore.refs.branches.branch_finishing import drop_stale_tags, finish_steps
from lakelog.filestore.refs.branches.branch_names import check_branch_name
from lakelog.filestore.refs.branches.branch_removing import delete_branch
from lakelog.filestore.refs.branches.branch_renaming import rename_branch
from lakelog.filestore.refs.branches.branch_steps import check_is_main
from lakelog.filestore.refs.branches.branches import Branch, branch_list, find_branch
from lakelog.filestore.schema.paths import MAIN_BRANCH, TablePaths


def make_branch(
    table: TableStore,
    name: str,
    snapshot: Snapshot | None,
    *,
    tag: str | None = None,
    retained_millis: int | None = None,
    if_not_exists: bool = False,
    now_millis: int | None = None,
) -> Branch:
    """Create a branch from a snapshot of the table, living or tagged; None creates an empty branch."""
    if table.branch != MAIN_BRANCH:
        raise InvalidRequestError(
            f"{table.name} is a branch, and a branch has no branches: those of a table are side by side, and each "
            f"begins at a snapshot of the table. Make {shown(name)} of the table, without the branch; to begin with "
            f"the rows of {shown(table.branch)}, merge them into the table before (branches.merge), or write them"
        )
    check_branch_name(name)
    if retained_millis is not None and not 1 <= retained_millis <= LONG_MAX:
        raise InvalidRequestError(f"branch {name!r} cannot be kept for {retained_millis} ms; expected a time above 0")
    finish_steps(table)
    found = find_branch(table, name) if if_not_exists else None
    if found is not None:
        return found
    now = system_millis() if now_millis is None else now_millis
    step = plan_branch(table, snapshot, tag=tag, created_millis=now, retained_millis=retained_millis)
    create_branch(table, name, step)
    made = find_branch(table, name)
    if made is None:
        raise ConflictError(f"branch {name!r} of {table.name} was deleted while it was made")
    return made


def renamed(table: TableStore, old: str, new: str) -> None:
    """Rename a branch."""
    check_is_main(table, "renamed")
    finish_steps(table)
    rename_branch(table, old, new)


def deleted(table: TableStore, name: str, *, if_exists: bool = False) -> None:
    """Delete a branch."""
    check_is_main(table, "deleted")
    finish_steps(table)
    if if_exists and name not in table.branch_names()[1:]:
        return
    delete_branch(table, name)


def expire_branches(table: TableStore, *, age_millis: int | None = None, now_millis: int | None = None) -> list[str]:
    """Delete the branches whose time is over, and tags that kept fork snapshots of deleted branches; returns the
    branches.

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
        delete_branch(table, name)
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


__all__ = ["Branch", "branch_list", "deleted", "expire_branches", "make_branch", "renamed"]
