"""Renames a branch: its files are copied under the new name, then the old branch is closed and deleted.

Both are hidden by their steps until the end. The newest snapshot of the old branch is deleted first: a writer that
commits on top of it meanwhile finds that its base is missing, and takes its snapshot back. If a writer was faster, its
snapshot is found, the old branch stays as it is, and nothing is renamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import ConflictError, CorruptDataError, NotFoundError
from lakelog.common.file_names import check_file_name
from lakelog.common.json_fields import string
from lakelog.common.quoting import cause, listed
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.branches.branch_names import check_branch_name
from lakelog.filestore.refs.branches.branch_removing import LAST_FOLDERS, check_unnamed, delete_step, finish_delete
from lakelog.filestore.refs.branches.branch_steps import (
    ACTION,
    DELETE,
    MOVE,
    RENAME,
    begin_step,
    check_place,
    end_step,
    read_step,
    replace_step,
)
from lakelog.filestore.schema.paths import MAIN_BRANCH, TablePaths
from lakelog.filestore.schema.schema_manager import SchemaManager

# Copied in this order, so that each file names only files that are already copied. A folder in a folder comes first.
_FOLDERS = ("lakelog/statements", "lakelog/writers", "lakelog", "tag", "changelog", "snapshot", "consumer", "schema")


def rename_branch(table: TableStore, old: str, new: str) -> None:
    """Rename a branch. Raises NotFoundError, and ConflictError for a name that is taken or if a writer was faster."""
    check_branch_name(new)
    check_unnamed(table, old, "renamed")
    names = table.branch_names()
    if old == MAIN_BRANCH or old not in names:
        raise NotFoundError(
            f"table {table.name} has no branch {old!r} to rename; its branches are {listed(names[1:]) or 'none'}"
        )
    check_place(table, new)
    if is_branch(table, new):
        raise ConflictError(f"table {table.name} has a branch {new!r} already: choose another name, or delete it")
    begin_step(table, new, {ACTION: RENAME, "from": old})
    begin_step(table, old, {ACTION: MOVE, "to": new})
    source, target = TablePaths(table.path, old), TablePaths(table.path, new)
    table.file_io.delete_tree(target.own_root)  # files that a writer of a deleted branch of that name has left
    _copy(table, source, target)
    if not _close(table, source, target):
        _take_back(table, source, target)
        end_step(table, old)
        end_step(table, new)
        raise ConflictError(
            f"branch {old!r} of table {table.name} cannot be renamed now: a writer has committed meanwhile; stop the "
            "writers of the branch, and call this again"
        )
    replace_step(table, old, delete_step(None))  # from here on the branch is renamed
    finish_delete(table, old, delete_step(None))
    end_step(table, new)


def finish_rename(table: TableStore, new: str, step: Mapping[str, Any]) -> None:
    """Finish a step that was cut off: it is taken back, unless the old branch is being deleted already."""
    target = TablePaths(table.path, new)
    try:
        old = check_branch_name(string(step, "from"))
    except (KeyError, ValueError) as error:
        raise CorruptDataError(
            f"{target.branch_step} is not the step of a branch: {cause(error)}; delete the file"
        ) from error
    source_step = read_step(table, old) or {}
    if source_step.get(ACTION) == DELETE:
        finish_delete(table, old, source_step)
    elif is_branch(table, old):
        _take_back(table, TablePaths(table.path, old), target)
    if source_step.get(ACTION) == MOVE:
        end_step(table, old)
    end_step(table, new)


def finish_move(table: TableStore, old: str, step: Mapping[str, Any]) -> None:
    """As `finish_rename`, for a renaming found by the step of the old branch."""
    try:
        new = check_branch_name(string(step, "to"))
    except (KeyError, ValueError) as error:
        path = TablePaths(table.path, old).branch_step
        raise CorruptDataError(f"{path} is not the step of a branch: {cause(error)}; delete the file") from error
    renaming = read_step(table, new)
    if renaming is not None and renaming.get("from") == old:
        finish_rename(table, new, renaming)
    else:
        end_step(table, old)


def is_branch(table: TableStore, name: str) -> bool:
    """Whether there is a branch of that name. Lists a folder."""
    return bool(SchemaManager(table.file_io, TablePaths(table.path, name)).list_ids())


def _copy(table: TableStore, source: TablePaths, target: TablePaths) -> None:
    for folder in _FOLDERS:
        for name in table.file_io.list_names(f"{source.own_root}/{folder}"):
            if name.startswith(".") or f"{folder}/{name}" in _FOLDERS:
                continue
            try:
                check_file_name(name)
            except ValueError as error:
                raise CorruptDataError(
                    f"{source.own_root}/{folder} has a file {cause(error)}: it is not one of the branch; delete it"
                ) from error
            try:
                data = table.file_io.read_bytes(f"{source.own_root}/{folder}/{name}")
            except NotFoundError:  # expired meanwhile
                continue
            table.file_io.write_bytes(f"{target.own_root}/{folder}/{name}", data)


def _close(table: TableStore, source: TablePaths, target: TablePaths) -> bool:
    """Delete the newest snapshot of the old branch; False if a writer has committed since the branch was copied."""
    copied = SnapshotManager(table.file_io, target).ids()
    newest = max(copied, default=0)
    if newest:
        table.file_io.delete(source.snapshot(newest))
    living = SnapshotManager(table.file_io, source).ids()
    for expired in set(copied[:-1]) - set(living):
        table.file_io.delete(target.snapshot(expired))
    return max(living, default=0) < max(newest, 1)


def _take_back(table: TableStore, source: TablePaths, target: TablePaths) -> None:
    """Put back what was deleted of the old branch, and delete the new one."""
    copied = max(SnapshotManager(table.file_io, target).ids(), default=None)
    living = SnapshotManager(table.file_io, source).ids()
    if copied is not None and max(living, default=0) < copied:
        table.file_io.create_new(source.snapshot(copied), table.file_io.read_bytes(target.snapshot(copied)))
    table.file_io.delete_tree(target.own_root, last=LAST_FOLDERS)
