"""Taking a whole branch over into its table: through the files alone, or through log and files.

On a table with a log the rows of the branch are a batch statement, as in a restore. When they are too many for one, the
log is ended, the files get the rows, and the table gets a log with a new topic: see `lakelog.catalog.refs.restoring`.
Source: docs/rfcs/0035-branches.md, "Tables with a log".
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.catalog.logs.statements import after_statement, check_takes_statements, logged_table
from lakelog.catalog.refs.branching import check_holds_whole_batches, delete_branch
from lakelog.catalog.refs.restoring import (
    STATEMENT_BYTES_MAX,
    LogToAdd,
    become,
    needs_new_log,
    size_bytes,
    too_large,
    without_log,
)
from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.filestore.expire import take_lineage_of_branch, take_lineage_of_deleted
from lakelog.filestore.metadata.snapshots import BranchVerb, is_same_commit
from lakelog.filestore.metadata.tables import latest_of

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.refs import WholeBranch
    from lakelog.warehouse.handle import TableHandle


def take_branch(table: TableHandle, name: str, verb: BranchVerb, *, renew_log: bool) -> Snapshot:
    """Give the table the content of a branch. See `Table.branches`."""
    left = LogToAdd(table)
    left.finish_cut_off()
    take_lineage_of_deleted(table.branch(name).store)
    take_lineage_of_deleted(table.store)
    if table.log is None and left.read() is None:
        return _take_files(table.store, verb, name)
    from lakelog.filestore.refs import WholeBranch

    branch = table.branch(name)
    if verb is BranchVerb.REPLACE:
        _check_may_go(table.store, branch.store)
    whole = WholeBranch.of(table.store, branch.store, verb)
    _check_branch(branch, whole)
    if table.log is not None and _is_stated(table, whole, renew_log=renew_log):
        left.delete()
    else:
        _renew_log(table, left, whole)
    if verb is BranchVerb.REPLACE:
        whole.check_branch_stayed()
        delete_branch(table, name, if_exists=True)
    newest = latest_of(table.store)
    assert newest is not None, "the rows of a branch are in a snapshot"
    return newest


def _take_files(files: FileStoreTable, verb: BranchVerb, name: str) -> Snapshot:
    from lakelog.filestore.refs import fast_forward, merge_branch, replace_main

    branch = files.on_branch(name)
    match verb:
        case BranchVerb.FAST_FORWARD:
            return fast_forward(files, branch)
        case BranchVerb.MERGE:
            return merge_branch(files, branch)
        case BranchVerb.REPLACE:
            snapshot = replace_main(files, branch)
            take_lineage_of_branch(files, name, snapshot)
            return snapshot


def _check_may_go(main: FileStoreTable, branch: FileStoreTable) -> None:
    """Raise InvalidRequestError for a branch that an option names, or whose deletion would lose tags."""
    from lakelog.filestore.refs import check_unnamed

    check_unnamed(main, branch.branch, "moved into the table")
    theirs, ours = branch.snapshots, main.snapshots
    tags = [
        tag
        for tag in theirs.tags()
        if not tag.startswith("lakelog-")
        and not (tag in ours.tags() and is_same_commit(ours.tagged(tag), theirs.tagged(tag)))
    ]
    if tags:
        raise InvalidRequestError(
            f"branch {branch.branch!r} has the tag(s) {listed(tags)}, which would be deleted with it: a table with a "
            "log gets the rows of a branch and not its snapshots. Use branches.replace_newer, after which the branch "
            "stays, or delete the tags"
        )


def _check_branch(branch: TableHandle, whole: WholeBranch) -> None:
    """Raise ConflictError while a log of the branch is being written, InvalidRequestError for a partial batch."""
    if branch.log is not None:
        _check_at_rest(branch)
    check_holds_whole_batches(branch.store, whole.snapshot)


def _check_at_rest(table: TableHandle) -> None:
    logged = logged_table(table)  # raises without the extra
    from lakelog.protocol.statements import check_at_rest

    check_at_rest(logged)


def _is_stated(table: TableHandle, whole: WholeBranch, *, renew_log: bool) -> bool:
    """Run the batch statement, unless the table is to get a new log; returns whether it ran.

    Raises InvalidRequestError where too many files differ for a statement.
    """
    from lakelog.filestore.refs import release_merged
    from lakelog.protocol.statements import LoggedMerge

    check_takes_statements(table)
    found = whole.difference(latest_of(table.store))
    if not found.is_empty and renew_log:
        return False
    if size_bytes(found) > STATEMENT_BYTES_MAX:
        raise needs_new_log(table, f"to take branch {whole.line.name!r} as the state", too_large(found))
    _, snapshot = LoggedMerge(logged=logged_table(table), merger=whole).run()
    after_statement(table, snapshot)
    if snapshot is not None:
        _check_alone(table, whole, snapshot)
    release_merged(whole.line, latest_of(table.store))
    return True


def _check_alone(table: TableHandle, whole: WholeBranch, snapshot: Snapshot) -> None:
    """Raise ConflictError if another writer committed in between, so that the table has rows beside the branch's."""
    from lakelog.filestore.metadata.origins import batches_of

    others = {one.user for one in batches_of(snapshot)} - {snapshot.commit_user}
    if others and whole.verb is not BranchVerb.FAST_FORWARD:
        raise ConflictError(
            f"{listed(sorted(others))} wrote {table.name} while snapshot {snapshot.id} took in the rows of branch "
            f"{whole.line.name!r}: the table has the rows of both, and the branch was kept; stop the writers, then "
            "call this again"
        )


def _renew_log(table: TableHandle, left: LogToAdd, whole: WholeBranch) -> None:
    """End the log, commit the rows to the files, and add a log again, also where the rows do not fit any more."""
    from lakelog.filestore.refs import WholeBranchCommit, release_merged

    if table.log is not None:
        _check_at_rest(table)
        whole.line.keep()
        left.put()
        become(table, without_log(table))
    files = table.store
    try:
        WholeBranchCommit(files, replace(whole, main=files, line=replace(whole.line, main=files))).run()
    except ConflictError:
        left.add()
        raise
    left.add()
    release_merged(whole.line, latest_of(table.store))
