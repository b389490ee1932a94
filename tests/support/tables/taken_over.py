"""The verbs that give a table the whole of a branch: as functions, and by the names that tests have as parameters."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakelog.filestore.metadata.snapshots.snapshot import BranchVerb
from lakelog.filestore.refs import take_branch

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot

fast_forward = partial(take_branch, verb=BranchVerb.FAST_FORWARD)
merge_branch = partial(take_branch, verb=BranchVerb.MERGE)
replace_main = partial(take_branch, verb=BranchVerb.REPLACE)
_VERBS = {"fast_forward": fast_forward, "merge_branch": merge_branch, "replace_main": replace_main}


def take_over(table: FileStoreTable, verb: str, branch: str) -> Snapshot:
    """Give the table the branch by `fast_forward`, `merge_branch` or `replace_main`."""
    return _VERBS[verb](table, table.on_branch(branch))
