"""What users call on branches: creating, renaming, deleting, listing, and deleting by age.

Each call first finishes the steps of branches that were cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Unpack

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.options import LONG_MAX
from lakelog.common.quoting import listed, shown
from lakelog.common.timestamps import shown_millis
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX, read_fork
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from lakelog.filestore.refs.branches import branch_creating, branch_removing, branch_renaming
from lakelog.filestore.refs.branches.branch_finishing import drop_stale_tags, finish_steps
from lakelog.filestore.refs.branches.branch_names import check_branch_name
from lakelog.filestore.refs.branches.branch_steps import check_is_main, stepping
from lakelog.filestore.refs.states.travel import SnapshotChoice, snapshot_of
from lakelog.filestore.schema.paths import BRANCH_PREFIX, MAIN_BRANCH, TablePaths
from lakelog.filestore.schema.schema_manager import SchemaManager


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A branch: its name, when it was created, and where it began.

    `snapshot_id` and `tag` are those of the table at which it began: None for a branch that began empty, or that
    another engine created. `expires_millis` is when `expire_branches` deletes it; None means never.
    """

    name: str
    created_millis: int
    snapshot_id: int | None = None
    tag: str | None = None
    expires_millis: int | None = None
    is_own: bool = True

    def __repr__(self) -> str:
        began = "empty" if self.snapshot_id is None else f"at snapshot {self.snapshot_id}"
        return f"Branch({self.name!r}, {began}, {shown_millis(self.created_millis)})"


def branch_list(table: TableStore) -> list[Branch]:
    """The branches of a table, by name, without the main branch and those that are not complete."""
    entries = table.file_io.list_entries(table.paths.branches_dir)
    hidden = stepping([entry.name for entry in entries])
    found = []
    for entry in sorted(entries, key=lambda entry: entry.name):
        name = entry.name.removeprefix(BRANCH_PREFIX)
        if name and entry.is_folder and entry.name != name and name not in hidden:
            branch = find_branch(table, name, modified_millis=entry.modified_millis)
            found += [] if branch is None else [branch]
    return found


def find_branch(table: TableStore, name: str, *, modified_millis: int = 0) -> Branch | None:
    """One branch; None if it does not exist. `modified_millis` is the time of its folder."""
    schemas = SchemaManager(table.file_io, TablePaths(table.path, name))
    ids = schemas.list_ids()
    if not ids:
        return None
    fork = read_fork(table, name)
    if fork is None:
        created = modified_millis or schemas.get(min(ids)).time_millis
        return _foreign(table, name, created)
    return Branch(
        name=name,
        created_millis=fork.created_millis,
        snapshot_id=fork.snapshot_id,
        tag=fork.tag,
        expires_millis=None if fork.retained_millis is None else fork.created_millis + fork.retained_millis,
    )


def _foreign(table: TableStore, name: str, created_millis: int) -> Branch:
    """A branch of another engine: it began at the tag that it shares with the table, as Paimon copies it."""
    ours, theirs = (SnapshotManager(table.file_io, TablePaths(table.path, line)) for line in (MAIN_BRANCH, name))
    shared = [tag for tag in {*ours.tags()} & {*theirs.tags()} if not tag.startswith(PROTECTING_PREFIX)]
    found = [(theirs.find_tag(tag), ours.find_tag(tag)) for tag in shared]
    same = [(own.snapshot.id, own.name) for own, other in found if own and other and own.snapshot == other.snapshot]
    snapshot_id, tag = min(same, default=(None, None))
    return Branch(name=name, created_millis=created_millis, snapshot_id=snapshot_id, tag=tag, is_own=False)


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
