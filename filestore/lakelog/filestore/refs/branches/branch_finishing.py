"""Finishes steps of branches that were cut off, and removes what is left of deleted branches."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from lakelog.common.clock import system_millis
from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.common.file_names import check_file_name
from lakelog.common.quoting import shown
from lakelog.filestore.metadata.snapshots.line_change import settle_change
from lakelog.filestore.metadata.tables.forks import PROTECTING_PREFIX, read_fork
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.branches.branch_creating import finish_create
from lakelog.filestore.refs.branches.branch_removing import delete_step, finish_delete
from lakelog.filestore.refs.branches.branch_renaming import finish_move, finish_rename
from lakelog.filestore.refs.branches.branch_steps import (
    ACTION,
    CREATE,
    DELETE,
    MOVE,
    RENAME,
    dropped_folders,
    protecting_tag_of,
    read_step,
    stepping,
)
from lakelog.filestore.refs.tags.tags import drop_tag
from lakelog.filestore.schema.paths import MAIN_BRANCH, TablePaths


def finish_cut_off(table: TableStore) -> None:
    """Finish, or take back, the steps of branches that were cut off. If a step still runs, its own call fails."""
    finish_steps(table)
    settle_change(table.file_io, table.path, now_millis=system_millis())


def finish_steps(table: TableStore) -> None:
    """Finish every step of a branch that was cut off; lists one folder. Raises CorruptDataError."""
    table = replace(table, branch=MAIN_BRANCH)
    names = table.file_io.list_names(table.paths.branches_dir)
    for name in stepping(names):
        finish_step(table, name)
    for name in dropped_folders(names):
        table.file_io.delete_tree(f"{table.paths.branches_dir}/{check_file_name(name)}")


def finish_step(table: TableStore, name: str) -> None:
    """Finish the step of a branch, if there is one."""
    step = read_step(table, name)
    if step is None:
        return
    action = step.get(ACTION)
    if action == CREATE:
        try:
            finish_create(table, name, step)
        except NotFoundError:  # a schema to copy is missing: the table's line was replaced meanwhile
            finish_delete(table, name, delete_step(protecting_tag_of(step)))
    elif action == DELETE:
        finish_delete(table, name, step)
    elif action == RENAME:
        finish_rename(table, name, step)
    elif action == MOVE:
        finish_move(table, name, step)
    else:
        path = TablePaths(table.path, name).branch_step
        raise CorruptDataError(f"{path} has the action {shown(action)}, which is not known; delete the file")


def drop_stale_tags(table: TableStore) -> list[str]:
    """Delete the tags that kept fork snapshots of branches which another engine has deleted; returns their names.

    A branch that is created meanwhile is safe: its step is written before its tag, and tags are listed before branches.
    """
    table = replace(table, branch=MAIN_BRANCH)
    tags = [tag for tag in table.snapshots.tags() if tag.startswith(PROTECTING_PREFIX)]
    if not tags:
        return []
    used: set[str | None] = set()
    for name in stepping(table.file_io.list_names(table.paths.branches_dir)):
        used.add(protecting_tag_of(read_step(table, name) or {}))
    for name in table.branch_names()[1:]:
        found = read_fork(table, name)
        used.add(None if found is None else found.protecting_tag)
    stale = [tag for tag in tags if tag not in used]
    for tag in stale:
        with contextlib.suppress(NotFoundError):
            drop_tag(table, tag)
    return stale
