"""Steps of creating, renaming and deleting branches; a process may end between any two.

The file `branch/.lakelog-<name>` is written first and deleted last. While the file exists, the branch is not shown. The
file holds all that the step needs, and each act of the step can be done twice: the next call that changes branches
finishes a step that was cut off, even if its process is still running.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any  # Any: parsed JSON

from lakelog.common.errors import ConflictError, CorruptDataError, InvalidRequestError, NotFoundError
from lakelog.common.json_fields import check_json_size, parse_object
from lakelog.common.quoting import cause, shown
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.paths import BRANCH_PREFIX, BRANCH_STEP_PREFIX, MAIN_BRANCH, TablePaths

CREATE, DELETE, RENAME, MOVE = "create", "delete", "rename", "move"
ACTION = "action"


def check_is_main(table: TableStore, what: str) -> None:
    """Raise InvalidRequestError for the handle of a branch: only a table has branches."""
    if table.branch != MAIN_BRANCH:
        raise InvalidRequestError(
            f"{table.name} is a branch, and branches are {what} by the table itself: open it without the branch"
        )


def check_place(table: TableStore, branch: str) -> None:
    """Raise CorruptDataError if there is a file in place of a branch's folder."""
    path = TablePaths(table.path, branch).own_root
    if branch not in table.branch_names() and table.file_io.exists(path):
        raise CorruptDataError(
            f"{path} is a file, expected the folder of a branch or nothing: {table.name} has no branch {branch!r}, and "
            "can get one when the file is moved away"
        )


def begin_step(table: TableStore, branch: str, step: Mapping[str, object]) -> None:
    """Write the file of a step. Raises as `check_place`, and ConflictError while another step of the branch runs."""
    check_place(table, branch)
    path = TablePaths(table.path, branch).branch_step
    data = json.dumps(step).encode()
    try:
        check_json_size(data)
    except ValueError as error:
        raise InvalidRequestError(f"branch {branch!r} of {table.name} cannot be changed: its step: {error}") from error
    if not table.file_io.create_new(path, data):
        raise ConflictError(f"branch {branch!r} of {table.name} is changed by another call: call this again")


def replace_step(table: TableStore, branch: str, step: Mapping[str, object]) -> None:
    """Replace the step of a branch by another step."""
    table.file_io.write_bytes(TablePaths(table.path, branch).branch_step, json.dumps(step).encode())


def end_step(table: TableStore, branch: str) -> None:
    """Delete the file of a step that is done."""
    table.file_io.delete(TablePaths(table.path, branch).branch_step)


def read_step(table: TableStore, branch: str) -> Mapping[str, Any] | None:
    """The step of a branch that was begun; None without one. Raises CorruptDataError."""
    path = f"{table.paths.branches_dir}/{BRANCH_STEP_PREFIX}{branch}"
    try:
        data = table.file_io.read_bytes(path)
        if branch == MAIN_BRANCH or not _can_be_branch(table, branch):
            raise ValueError(f"{shown(branch)} is not the name of a branch, and the table itself has no such steps")
        return parse_object(data)
    except NotFoundError:
        return None
    except ValueError as error:
        raise CorruptDataError(
            f"{path} is not the step of a branch: {cause(error)}; delete the file, then the branch"
        ) from error


def _can_be_branch(table: TableStore, name: str) -> bool:
    try:
        TablePaths(table.path, name)
    except InvalidRequestError:
        return False
    return True


def protecting_tag_of(step: Mapping[str, Any]) -> str | None:
    """The tag that keeps the fork snapshot of a branch that is being created; None if the step names no tag."""
    fork = step.get("fork")
    tag = fork.get("protectingTag") if isinstance(fork, dict) else None
    return tag if isinstance(tag, str) else None


def stepping(names: list[str]) -> list[str]:
    """The branches with a step, among the names in the folder of branches. Pure."""
    return sorted(name.removeprefix(BRANCH_STEP_PREFIX) for name in names if name.startswith(BRANCH_STEP_PREFIX))


def dropped_folders(names: list[str]) -> list[str]:
    """The folders of branches whose deletion was cut off, among the names in the folder of branches. Pure."""
    return sorted(name for name in names if name.startswith(".") and name.lstrip(".").startswith(BRANCH_PREFIX))
