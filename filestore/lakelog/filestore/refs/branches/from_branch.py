"""Brings a whole branch into its table: fast-forward, merge and replace, as a proposal for Paimon names them.

All three give the table the branch's snapshots, tags and schemas since the point where it began. A fast-forward is
refused if the table has changed since; a merge drops what the table has got since; a replacement does the same and then
deletes the branch. Users are kept: a stream that wrote the table continues with its next batch, and dropped batches are
not written again. Commits keep their uuids, so readers notice when a snapshot number means another commit. Source:
Paimon, `FileSystemBranchManager.fastForward`; the proposal "Branches".
"""

from __future__ import annotations

from dataclasses import replace

from lakelog.common.clock import system_millis
from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.filestore.metadata.snapshots.line_change import begin_change, decide, end_change, finish_change
from lakelog.filestore.metadata.snapshots.snapshot import BranchVerb, Snapshot
from lakelog.filestore.metadata.tables.identity import check_same_table
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.read.file_pruning import is_merged_on_read
from lakelog.filestore.refs.branches.branch_finishing import finish_cut_off
from lakelog.filestore.refs.branches.branch_removing import check_unnamed
from lakelog.filestore.refs.branches.branch_steps import check_is_main
from lakelog.filestore.refs.branches.line_plan import plan_change
from lakelog.filestore.refs.branches.lines import Lines
from lakelog.filestore.refs.restore.restored_state import StateDifference


def take_branch(table: TableStore, branch: TableStore, verb: BranchVerb, *, now_millis: int | None = None) -> Snapshot:
    """Give the table what the branch has got since it began, and drop what the table has got since.

    A fast-forward raises ConflictError if that would lose a change; a replacement deletes the branch, which is kept
    otherwise.
    """
    replaces = verb is BranchVerb.REPLACE
    if replaces:
        check_unnamed(table, branch.branch, "moved into the table")
    lines = Lines.of(*_settled(table, branch))
    if verb is BranchVerb.FAST_FORWARD:
        _check_loses_nothing(lines)
    return _take_over(lines, drops_branch=replaces, now_millis=now_millis)


def _check_loses_nothing(lines: Lines) -> None:
    """Raise ConflictError if the table has something that the branch lacks."""
    table, branch = lines.main, lines.branch
    ways = (
        "branches.merge (`lakelog table merge`) keeps the changes of both, branches.replace_newer and replace_main "
        "(`lakelog table branch replace-newer`, `replace-main`) drop those of the table"
    )
    lost = lines.lost_base()
    if lost is not None:
        commit = "" if lines.base is None or lines.base.uuid is None else f", of the commit {lines.base.uuid}"
        raise ConflictError(
            f"{branch.name} began at snapshot {lines.base_id}{commit}, and {lost}: a line was rolled back, or another "
            f"branch took the table's place since, and a fast-forward would lose what the table has: {ways}"
        )
    newer = lines.newer_of_main()
    if newer or lines.has_two_schemas():
        what = f"the snapshots {listed(map(str, newer))}" if newer else "columns or options"
        raise ConflictError(
            f"{table.name} has got {what} since {branch.name} began, and a fast-forward would lose that: {ways}"
        )
    if not lines.main_follows_base and _has_other_rows(lines):
        raise ConflictError(
            f"snapshots of {table.name} since {branch.name} began at snapshot {lines.base_id} have expired, and the "
            f"rows of the table are not those of that snapshot: a fast-forward would lose changes: {ways}"
        )


def _has_other_rows(lines: Lines) -> bool:
    """Whether the rows of the table differ from those of the base, as far as that is known."""
    newest = lines.main.snapshots.latest()
    if newest is None or lines.base_id == 0:
        return any(lines.main.live_files.of(newest).entries())
    if lines.base is None:
        return True
    between = StateDifference(lines.main, newest, lines.base, lines.branch)
    schema = lines.main.stored.schema
    if schema.primary_keys and not is_merged_on_read(schema) and any(one.file.level == 0 for one in between.removed):
        return True  # rows that wait for a compaction, which a comparison of reads does not see
    return next(between.rows(is_followed=False), None) is not None


def _settled(table: TableStore, branch: TableStore) -> tuple[TableStore, TableStore]:
    """Both lines with their newest schemas, after steps that were cut off are finished."""
    check_is_main(table, "taken into their table")
    check_same_table(table, None)
    finish_cut_off(table)
    newest = tuple(replace(line, schema=replace(line).schemas.latest() or line.schema) for line in (table, branch))
    if newest[0].has_log:
        raise InvalidRequestError(
            f"{table.name} has a log, from which its readers would not learn that snapshots are replaced: "
            "lakelog.catalog.Table brings the rows of the branch through the log"
        )
    if newest[1].has_log:
        raise InvalidRequestError(
            f"{branch.name} has a log, and {table.name} has none: end the log of the branch with "
            f"branch({branch.branch!r}).remove_log() or `lakelog log remove`, then call this again"
        )
    return newest[0], newest[1]


def _take_over(lines: Lines, *, drops_branch: bool, now_millis: int | None) -> Snapshot:
    table, branch, file_io = lines.main, lines.branch, lines.main.file_io
    change = plan_change(lines, drops_branch=drops_branch, now_millis=now_millis or system_millis())
    begin_change(file_io, table.path, change)
    seen = (replace(table).snapshots.latest_id() or 0, replace(branch).snapshots.latest_id() or 0)
    is_overtaken = seen != (max(lines.main_ids, default=0), lines.head)
    if not decide(file_io, table.path, change, goes=not is_overtaken):
        end_change(file_io, table.path, change)
        raise ConflictError(
            f"a writer has committed to {table.name} or {branch.name} meanwhile: nothing was changed; stop the "
            "writers, then call this again"
        )
    finish_change(file_io, table.path, change)
    return replace(table).snapshots.get(lines.head)
