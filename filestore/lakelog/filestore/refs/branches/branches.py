"""The branches of a table as users see them."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.common.timestamps import shown_millis
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX, read_fork
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.branches.branch_steps import stepping
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
