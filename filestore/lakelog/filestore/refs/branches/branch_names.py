"""The names that branches may have. Source: Paimon, `BranchManager.validateBranch`; the proposal "Branches"."""

from __future__ import annotations

from lakelog.common.errors import InvalidRequestError
from lakelog.common.file_names import check_user_name, shown_name
from lakelog.filestore.schema.paths import MAIN_BRANCH


def check_branch_name(name: str) -> str:
    """The name, if a new branch can have it. Raises InvalidRequestError.

    A dot separates branch and tag in `VERSION AS OF branch.tag`, and a number names a snapshot there. Other engines may
    have created branches whose names do not pass: these can be read and deleted.
    """
    wrong = ""
    if name == MAIN_BRANCH:
        wrong = "that is the table itself"
    elif name.isdecimal():
        wrong = "a number names a snapshot"
    elif not name.strip() or name != name.strip():
        wrong = "a name has no spaces around it, and is not empty"
    elif "." in name:
        wrong = "a dot separates a branch from its tag or snapshot"
    elif "$" in name:
        wrong = "a dollar sign separates a table from its branch"
    if wrong:
        raise InvalidRequestError(f"{shown_name(name)} cannot be the name of a branch: {wrong}; choose another name")
    return check_user_name(name, "branch")
