"""The verbs for branches of a table, and for bringing back older states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Unpack

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed, shown
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.identity import latest_of
from lakelog.filestore.refs.states.travel import SnapshotChoice
from lakelog.filestore.verbs.write_verbs import WritableTable

if TYPE_CHECKING:
    from lakelog.filestore.commit.commit_clock import CommitClock
    from lakelog.filestore.refs.branches.branches import Branch
    from lakelog.filestore.refs.merges.branch_merge import BranchMerge
    from lakelog.filestore.refs.restore.restore import Restored
    from lakelog.filestore.refs.restore.rollback import RolledBack


class BranchedTable(WritableTable):
    """A table with the verbs of branches, and those that bring an older state back."""

    def create_branch(
        self,
        name: str,
        *,
        empty: bool = False,
        time_retained_millis: int | None = None,
        if_not_exists: bool = False,
        check: Callable[[Snapshot], None] | None = None,
        **which: Unpack[SnapshotChoice],
    ) -> Branch:
        """Create a branch from the newest snapshot, or from the one that arguments name, or an `empty` one with the
        columns.

        The branch shares the files of the table, only metadata are copied. `check` is called with the snapshot, and
        raises an error if no branch can begin there. Raises InvalidRequestError for a name that is not allowed,
        ConflictError for one that is taken.
        """
        from lakelog.filestore.refs.branches.branching import make_branch

        named = [key for key, value in which.items() if value is not None]
        if empty and named:
            raise InvalidRequestError(f"branch {shown(name)} is made empty or from {listed(named)}, not both")
        if which.get("branch"):
            raise InvalidRequestError(f"branch {shown(name)} is made from the table, not from another branch")
        snapshot = None if empty else self.snapshot(**which)
        if snapshot is not None and check is not None:
            check(snapshot)
        return make_branch(
            self,
            name,
            snapshot,
            tag=which.get("tag"),
            retained_millis=time_retained_millis,
            if_not_exists=if_not_exists,
        )

    def rename_branch(self, name: str, new_name: str) -> None:
        """Rename a branch; stop its writers first. Raises NotFoundError, ConflictError, InvalidRequestError."""
        from lakelog.filestore.refs.branches.branching import renamed

        renamed(self, name, new_name)

    def delete_branch(self, name: str, *, if_exists: bool = False) -> None:
        """Delete a branch; `remove_orphan_files` deletes the files that only the branch named. Raises NotFoundError."""
        from lakelog.filestore.refs.branches.branching import deleted

        deleted(self, name, if_exists=if_exists)

    def branches(self) -> list[Branch]:
        """The branches of the table, without the main one, by name."""
        from lakelog.filestore.refs.branches.branches import branch_list

        return branch_list(self)

    def expire_branches(self, *, age_millis: int | None = None, now_millis: int | None = None) -> list[str]:
        """Delete the branches whose time is over, and those that were not written for an age; returns their names."""
        from lakelog.filestore.refs.branches.branching import expire_branches

        return expire_branches(self, age_millis=age_millis, now_millis=now_millis)

    def merge_changes(
        self,
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

        merger = BranchMerger.of(self, self.on_branch(branch), base=base, on_conflict=on_conflict)
        if dry_run:
            plan = merger.plan(latest_of(self))
            plan.close()
            return plan.result
        self._check_has_no_log()
        commit = MergeCommit(self, merger)
        done = commit.done(self._committed(commit, clock))
        self._compact_waiting(clock)
        return done

    def fast_forward(self, branch: str) -> Snapshot:
        """Give the table what a branch has got since it began; returns the newest snapshot.

        Raises ConflictError if the table has changed since, and while a writer commits to either of them.
        """
        from lakelog.filestore.refs.branches.from_branch import fast_forward

        return fast_forward(self, self.on_branch(branch))

    def merge_branch(self, branch: str) -> Snapshot:
        """As `fast_forward`, and drop what the table has got since the branch began. The branch is kept."""
        from lakelog.filestore.refs.branches.from_branch import merge_branch

        return merge_branch(self, self.on_branch(branch))

    def replace_main(self, branch: str) -> Snapshot:
        """As `merge_branch`, and delete the branch."""
        from lakelog.filestore.refs.branches.from_branch import replace_main

        return replace_main(self, self.on_branch(branch))

    def restore(
        self,
        *,
        rewind_writers: bool = False,
        dry_run: bool = False,
        clock: CommitClock | None = None,
        **which: Unpack[SnapshotChoice],
    ) -> Restored:
        """Bring an older state back, in a new snapshot. See `lakelog.catalog.Table.restore`."""
        from lakelog.filestore.refs.restore.restore import restore_table
        from lakelog.filestore.verbs.restore_target import target_of

        self._check_has_no_log()
        target = target_of(self, which)
        return restore_table(self, target, rewind_writers=rewind_writers, dry_run=dry_run, clock=clock)

    def rollback(
        self, *, rewind_writers: bool = False, dry_run: bool = False, **which: Unpack[SnapshotChoice]
    ) -> RolledBack:
        """Delete all that is younger than a snapshot or tag. See `lakelog.catalog.Table.upkeep.rollback`."""
        from lakelog.filestore.refs.restore.rollback import roll_back
        from lakelog.filestore.verbs.restore_target import target_of

        if self.has_log:
            raise InvalidRequestError(
                f"table {self.name} has a log, which would still hold what a rollback deletes: use restore, which "
                "writes log and files"
            )
        return roll_back(self, target_of(self, which), rewind_writers=rewind_writers, dry_run=dry_run)
