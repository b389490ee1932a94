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
from lakelog.common.errors import ConflictError
from lakelog.filestore.expire import take_lineage_of_branch, take_lineage_of_deleted
from lakelog.filestore.metadata.snapshots import BranchVerb
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
        return _take_files(table.store, table.branch(name).store, verb)
    from lakelog.filestore.refs import WholeBranch

    branch = table.branch(name)
    whole = WholeBranch.of(table.store, branch.store, verb)
    if verb is BranchVerb.REPLACE:
        whole.check_may_go()
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


def _take_files(main: FileStoreTable, branch: FileStoreTable, verb: BranchVerb) -> Snapshot:
    from lakelog.filestore.refs import take_branch

    snapshot = take_branch(main, branch, verb)
    if verb is BranchVerb.REPLACE:
        take_lineage_of_branch(main, branch.branch, snapshot)
    return snapshot


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
        whole.check_alone(snapshot)
    release_merged(whole.line, latest_of(table.store))
    return True


def _renew_log(table: TableHandle, left: LogToAdd, whole: WholeBranch) -> None:
    """End the log, commit the rows to the files, and add a log again, also where the rows do not fit any more."""
    from lakelog.filestore.refs import release_merged

    if table.log is not None:
        _check_at_rest(table)
        whole.line.keep()
        left.put()
        become(table, without_log(table))
    files = table.store
    try:
        replace(whole, main=files, line=replace(whole.line, main=files)).commit()
    except ConflictError:
        left.add()
        raise
    left.add()
    release_merged(whole.line, latest_of(table.store))
