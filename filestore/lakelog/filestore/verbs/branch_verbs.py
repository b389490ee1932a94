"""What takes a table to another state: a branch that is merged into it, an older state that is brought back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from lakelog.common.errors import InvalidRequestError, NotFoundError
from lakelog.common.quoting import listed
from lakelog.filestore.metadata.tables.identity import latest_of
from lakelog.filestore.refs.states.travel import STATES, SnapshotChoice, on_branch, snapshot_of
from lakelog.filestore.verbs.upkeep_verbs import check_has_no_log, compact_waiting
from lakelog.filestore.verbs.write_verbs import committed

if TYPE_CHECKING:
    from lakelog.filestore.commit.commit_clock import CommitClock
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
    from lakelog.filestore.metadata.tables.store import TableStore
    from lakelog.filestore.refs.merges.merge_plan import BranchMerge
    from lakelog.filestore.refs.restore.restore import Restored
    from lakelog.filestore.refs.restore.rollback import RolledBack


def merge_changes(
    table: TableStore,
    branch: str,
    *,
    base: str | int | None = None,
    on_conflict: str | Mapping[str, str] = "fail",
    dry_run: bool = False,
    clock: CommitClock | None = None,
) -> BranchMerge:
    """Merge what changed in a branch since it began, or since the last merge, into the table, in one snapshot.

    See `lakelog.catalog.Table.branches.merge`. Raises InvalidRequestError for tables with a log.
    """
    from lakelog.filestore.refs.merges.branch_merger import BranchMerger
    from lakelog.filestore.refs.merges.merge_commit import MergeCommit

    merger = BranchMerger.of(table, on_branch(table, branch), base=base, on_conflict=on_conflict)
    if dry_run:
        plan = merger.plan(latest_of(table))
        plan.close()
        return plan.result
    check_has_no_log(table)
    commit = MergeCommit(table, merger)
    done = commit.done(committed(table, commit, clock))
    compact_waiting(table, clock)
    return done


def restore(
    table: TableStore,
    *,
    rewind_writers: bool = False,
    dry_run: bool = False,
    clock: CommitClock | None = None,
    **which: Unpack[SnapshotChoice],
) -> Restored:
    """Bring an older state back, in a new snapshot. See `lakelog.catalog.Table.restore`."""
    from lakelog.filestore.refs.restore.restore import restore_table

    check_has_no_log(table)
    return restore_table(table, target_of(table, which), rewind_writers=rewind_writers, dry_run=dry_run, clock=clock)


def rollback(
    table: TableStore, *, rewind_writers: bool = False, dry_run: bool = False, **which: Unpack[SnapshotChoice]
) -> RolledBack:
    """Delete all that is younger than a snapshot or tag. See `lakelog.catalog.Table.upkeep.rollback`."""
    from lakelog.filestore.refs.restore.rollback import roll_back

    if table.has_log:
        raise InvalidRequestError(
            f"table {table.name} has a log, which would still hold what a rollback deletes: use restore, which "
            "writes log and files"
        )
    return roll_back(table, target_of(table, which), rewind_writers=rewind_writers, dry_run=dry_run)


def target_of(table: TableStore, which: SnapshotChoice) -> Snapshot:
    """The state to which a restore or rollback goes. Raises InvalidRequestError without exactly one, NotFoundError."""
    given = [name for name, value in which.items() if value is not None]
    if len(given) != 1 or given[0] not in STATES:
        raise InvalidRequestError(
            f"a restore or rollback of table {table.name} goes to one state, named by one of {listed(STATES)}; found "
            f"{listed(given) or 'none of them'}"
        )
    found = snapshot_of(table, which)
    if found is None:
        raise NotFoundError(f"table {table.name} has no snapshot yet")
    return found
