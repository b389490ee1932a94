"""Deletes a branch: its folder, then the tag that kept its fork snapshot in the table.

Its data files are orphans afterwards, as in Paimon: `remove_orphan_files` deletes them.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.file_names import check_file_name
from lakelog.common.json_fields import optional, string
from lakelog.common.quoting import cause, listed
from lakelog.filestore.metadata.tables.forks import read_fork
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from lakelog.filestore.refs.branches.branch_steps import ACTION, DELETE, begin_step, check_place, end_step
from lakelog.filestore.refs.tags.tags import drop_tag
from lakelog.filestore.schema.paths import MAIN_BRANCH, TablePaths

logger = logging.getLogger("lakelog.filestore")

LAST_FOLDERS = ("schema",)  # of a branch that is deleted: without schemas there is no branch


def delete_branch(table: TableStore, name: str) -> None:
    """Delete a branch. Raises NotFoundError, and InvalidRequestError for a branch that an option of the table names."""
    check_unnamed(table, name, "deleted")
    if name == MAIN_BRANCH or name not in table.branch_names():
        check_place(table, name)
        raise NotFoundError(
            f"table {table.name} has no branch {name!r} to delete; its branches are "
            f"{listed(table.branch_names()[1:]) or 'none'}"
        )
    step = delete_step(_protecting_tag_of(table, name))
    begin_step(table, name, step)
    finish_delete(table, name, step)


def _protecting_tag_of(table: TableStore, name: str) -> str | None:
    """The tag that keeps the fork snapshot of a branch. If the branch does not say, later no branch names the tag."""
    try:
        fork = read_fork(table, name)
    except CorruptDataError as error:
        logger.warning("%s: the tag of the beginning of a branch stays until branches expire: %s", table.name, error)
        return None
    return None if fork is None else fork.protecting_tag


def delete_step(protecting_tag: str | None) -> dict[str, object]:
    """The step that deletes a branch and the tag of its fork snapshot."""
    return {ACTION: DELETE} if protecting_tag is None else {ACTION: DELETE, "protectingTag": protecting_tag}


def finish_delete(table: TableStore, name: str, step: Mapping[str, Any]) -> None:
    """Finish a step that was cut off."""
    paths = TablePaths(table.path, name)
    try:
        tag = optional(string, step, "protectingTag")
        if tag is not None:
            check_file_name(tag)
    except (KeyError, ValueError) as error:
        raise CorruptDataError(f"{paths.branch_step} is not the step of a branch: {cause(error)}; delete it") from error
    table.file_io.delete_tree(paths.own_root, last=LAST_FOLDERS)
    if tag is not None:
        with contextlib.suppress(NotFoundError):
            drop_tag(table, tag)
    end_step(table, name)


def check_unnamed(table: TableStore, name: str, what: str) -> None:
    """Raise InvalidRequestError for a branch from which reads of the table fill in partitions."""
    newest = table.schemas.latest() or table.schema
    for option in (SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH):
        if option.of(newest.options) == name:
            raise InvalidRequestError(
                f"branch {name!r} of table {table.name} cannot be {what}: the table's option {option.key} names it; "
                "remove the option first"
            )
