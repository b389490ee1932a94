"""The branches of a table."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from lakelog.catalog.names.durations import Age, Duration
from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.verbs.group import AnyTable, ListedGroup
from lakelog.filestore.metadata.snapshots import BranchVerb

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.refs import Branch, BranchMerge, SnapshotChoice


@naming_keywords
class TableBranches(ListedGroup[AnyTable, "Branch"]):
    """The branches of a table: `table.branches`, which can be iterated; `table.branch(name)` opens one.

    `merge` keeps the changes of both sides. `fast_forward` gives the table the state of the branch if the table has not
    changed, `replace_newer` and `replace_main` also if it has.
    """

    def create(
        self,
        name: str,
        *,
        empty: bool = False,
        time_retained: Duration | None = None,
        if_not_exists: bool = False,
        **which: Unpack[SnapshotChoice],
    ) -> Branch:
        """Create a branch at the newest snapshot, at one that `snapshot_id`, `tag` or `timestamp` names, or `empty`.

        Only metadata is copied, so this takes no longer for a large table. A tag `lakelog-fork-*` in the table and in
        the branch keeps the files that they share, until the branch is deleted. A branch begins without a log;
        `branch(name).log_store.add()` gives it one of its own. `expire` deletes the branch after `time_retained`.
        Raises InvalidRequestError for an impossible name: `main`, a number, or a name with a dot, a dollar sign or a
        slash; ConflictError for a name that is taken.

        >>> table.branches.create("repair", tag="friday", time_retained="7 d")
        >>> table.branch("repair").write(rows)
        """
        from lakelog.catalog.refs.branching import create_branch

        return create_branch(
            self._table.store, name, empty=empty, time_retained=time_retained, if_not_exists=if_not_exists, **which
        )

    def rename(self, name: str, new_name: str) -> None:
        """Give a branch another name. Raises NotFoundError, and ConflictError for a taken name or a running writer.

        >>> table.branches.rename("trial", "repair")
        """
        self._table.store.rename_branch(name, new_name)

    def delete(self, name: str, *, if_exists: bool = False) -> None:
        """Delete a branch with its snapshots and tags; `upkeep.remove_orphan_files` deletes files that only it named.

        Raises NotFoundError, and InvalidRequestError for a branch that `scan.fallback-branch` names.

        >>> table.branches.delete("trial")
        """
        from lakelog.catalog.refs.branching import delete_branch

        delete_branch(self._table, name, if_exists=if_exists)

    def expire(self, *, older_than: Age | None = None) -> builtins.list[str]:
        """Delete the branches whose `time_retained` is over; returns their names.

        `older_than`, a timedelta, a duration such as `30 d`, or a datetime, also deletes branches that were neither
        created nor written since then. A branch that an option of the table names stays.

        >>> gone = table.branches.expire(older_than="30 d")
        """
        from lakelog.catalog.refs.branching import expire_branches

        return expire_branches(self._table, older_than)

    def merge(
        self,
        branch: str,
        *,
        base: str | int | None = None,
        on_conflict: str | Mapping[str, str] = "fail",
        dry_run: bool = False,
    ) -> BranchMerge:
        """Merge what changed in a branch since it began, or since the last merge, into the table, in one snapshot.

        Both sides are compared by primary key with the state that they come from. A row that only the branch has
        changed, inserted or deleted becomes the branch's; a row that both have changed in the same way stays. A row
        that both have changed differently is a conflict: `on_conflict` makes it an error (`fail`), or takes the
        branch's row (`branch`) or the table's (`main`). With {column: rule} rows are merged column by column: a column
        that only one side has changed takes the value of that side, and for the others the rules are `fail`, `branch`,
        `main`, `sum` (both changes of a number are added up), `max` and `min`; `*` is for all columns that are not
        named, and for a delete against an update. Without a primary key rows are counted: what the branch inserted is
        inserted, what it deleted is deleted, and a conflict is a row that both sides deleted a different number of
        times.

        `base` is the snapshot or tag that both come from; only branches that other engines created need it: 0 for one
        that began empty. With `dry_run` nothing is written: the result says what would be done, and lists the first
        100,000 conflicts. Only files in which the sides differ are read (after a compaction, those of the commits since
        the branch began), within `read.memory-budget`. On a table with a log the merge is a batch statement, whose
        changes must fit in memory. Raises BranchConflictError for conflicts that no rule decides (then nothing is
        written); InvalidRequestError for columns that differ and for a branch without a known base; UnsupportedError
        for tables without a log whose merge engine combines rows; NotFoundError, ConflictError.

        >>> merged = table.branches.merge("trial", on_conflict={"amount": "sum", "*": "branch"})
        >>> print(merged.upserted, merged.deleted, merged.conflict_count)
        """
        from lakelog.catalog.refs.branch_merging import merge_changes

        return merge_changes(self._table, branch, base=base, on_conflict=on_conflict, dry_run=dry_run)

    def fast_forward(self, branch: str, *, renew_log: bool = False) -> Snapshot:
        """Give the table the snapshots, tags and columns that a branch got since it began; returns the newest snapshot.

        The branch stays, and continues from there. Raises ConflictError if the table has changed since, as its changes
        would be lost, and while a writer commits.

        A table with a log keeps its own snapshots, tags and columns, and gets the rows of the branch's newest snapshot
        in a new one, by a batch statement through the log, which readers of the log see like any other. With
        `renew_log` the log is ended, the files get the rows, and the table gets a log with a new topic, as with
        `restore`: readers that are started again continue with the files, or stop with `stream.on-restore=fail`.
        Without `renew_log` a call is refused if more than 256 MiB of files differ. If a call was cut off, make it
        again. Columns must be the same on both sides. Writers of the table and of the branch must be stopped before:
        ConflictError names the batch of a running writer.

        >>> table.branches.create("repair")
        >>> table.branch("repair").write(rows)
        >>> table.branches.fast_forward("repair")
        """
        return self._take(branch, BranchVerb.FAST_FORWARD, renew_log=renew_log)

    def replace_newer(self, branch: str, *, renew_log: bool = False) -> Snapshot:
        """Like `fast_forward`, but also removes the snapshots, tags and columns that the table got since the fork.

        `merge` keeps the changes of both. A stream that wrote the table continues with its next batch; batches that
        were removed are not written again. Stop writers of other engines before. On a table with a log only rows are
        replaced: its snapshots and tags stay, and older states can be read and restored.

        >>> table.branches.replace_newer("trial")
        """
        return self._take(branch, BranchVerb.MERGE, renew_log=renew_log)

    def replace_main(self, branch: str, *, renew_log: bool = False) -> Snapshot:
        """Like `replace_newer`, but also deletes the branch: its metadata becomes the table's.

        On a table with a log, which gets only the rows, a branch with tags of its own is refused.

        >>> table.branches.replace_main("trial")
        """
        return self._take(branch, BranchVerb.REPLACE, renew_log=renew_log)

    def _take(self, branch: str, verb: BranchVerb, *, renew_log: bool) -> Snapshot:
        from lakelog.catalog.refs.from_branch import take_branch

        return take_branch(self._table, branch, verb, renew_log=renew_log)

    def list(self) -> builtins.list[Branch]:
        """The branches of the table, sorted by name, also those of other engines; without the main branch.

        >>> names = [branch.name for branch in table.branches.list()]
        """
        return self._table.store.branches()

    def __contains__(self, name: str) -> bool:
        return any(branch.name == name for branch in self.list())
