"""The branches of a table, and older states of it that are brought back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

from lakelog.catalog.names.durations import Age, Duration
from lakelog.catalog.verbs.log import TableLogVerbs

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
    from lakelog.filestore.refs.branches.branches import Branch
    from lakelog.filestore.refs.merges.branch_merge import BranchMerge
    from lakelog.filestore.refs.restore.restore import Restored
    from lakelog.filestore.refs.restore.rollback import RolledBack
    from lakelog.filestore.refs.states.travel import SnapshotChoice


class TableBranches(TableLogVerbs):
    """The verbs of branches, and those that bring a state back."""

    def create_branch(
        self,
        name: str,
        *,
        empty: bool = False,
        time_retained: Duration | None = None,
        if_not_exists: bool = False,
        **which: Unpack[SnapshotChoice],
    ) -> Branch:
        """Make a branch of the newest snapshot, of the one that `snapshot_id`, `tag` or `timestamp` names, or `empty`.

        Only metadata are copied, so it takes no longer for a large table. A tag `lakelog-fork-*` in the table and in
        the branch keeps the files that they share, until the branch is deleted. A branch begins without a log;
        `branch(name).add_log()` gives it one of its own. After `time_retained` `expire_branches` deletes it. Raises
        InvalidRequestError for a name that cannot be: `main`, a number, one with a dot, a dollar sign or a slash;
        ConflictError for a name that is taken.
        """
        from lakelog.catalog.refs.branching import create_branch

        return create_branch(
            self._files, name, empty=empty, time_retained=time_retained, if_not_exists=if_not_exists, **which
        )

    def rename_branch(self, name: str, new_name: str) -> None:
        """Give a branch another name. Raises NotFoundError, ConflictError for a taken name and a running writer."""
        self._files.rename_branch(name, new_name)

    def delete_branch(self, name: str, *, if_exists: bool = False) -> None:
        """Delete a branch with its snapshots and tags. `remove_orphan_files` deletes the files that it alone named.

        Raises NotFoundError, and InvalidRequestError for a branch that `scan.fallback-branch` names.
        """
        from lakelog.catalog.refs.branching import delete_branch

        delete_branch(self, name, if_exists=if_exists)

    def branches(self) -> list[Branch]:
        """The branches of the table by name, also those of other engines; without the main one."""
        return self._files.branches()

    def expire_branches(self, *, older_than: Age | None = None) -> list[str]:
        """Delete the branches whose `time_retained` is over; gives their names.

        With `older_than` also those that were neither made nor written since: a timedelta, a duration such as `30 d`,
        or a datetime. A branch that an option of the table names stays.
        """
        from lakelog.catalog.refs.branching import expire_branches

        return expire_branches(self, older_than)

    def merge_changes(
        self,
        branch: str,
        *,
        base: str | int | None = None,
        on_conflict: str | Mapping[str, str] = "fail",
        dry_run: bool = False,
    ) -> BranchMerge:
        """Merge what changed in a branch since it began, or since the last merge, into the table, in one snapshot.

        Both sides are compared with the state that they come from, by primary key. A row that only the branch has
        changed, inserted or deleted becomes the branch's; one that both have changed in the same way stays. What both
        have changed differently is a conflict: by `on_conflict` an error (`fail`), the branch's row (`branch`) or the
        table's (`main`). With {column: rule} rows are merged column by column: a column that one side alone has changed
        has its value, and for the others the rules are `fail`, `branch`, `main`, `sum` (both changes of a number are
        added up), `max` and `min`; `*` is for all columns that are not named, and for a delete against an update.
        Without primary key rows are counted: what the branch inserted is inserted, what it deleted is deleted, and a
        conflict is a row of which both deleted a different number.

        `base` is the snapshot or tag that both come from; only branches that other engines made need it, 0 for one
        made empty. With `dry_run` nothing is written: the result says what would be done, and lists the conflicts, the
        first 100,000. Only files in which the sides differ are read, after a compaction those of the commits since the
        branch began, within `read.memory-budget`. On a table with a log the merge is a batch statement, whose changes
        must fit in memory. Raises BranchConflictError for conflicts that no rule decides, then nothing is written;
        InvalidRequestError for columns that differ and for a branch without a known base; UnsupportedError for tables
        without a log whose merge engine combines rows; NotFoundError, ConflictError.
        """
        from lakelog.catalog.refs.branch_merging import merge_changes

        return merge_changes(self, branch, base=base, on_conflict=on_conflict, dry_run=dry_run)

    def fast_forward(self, branch: str, *, max_bytes: int | None = None) -> Snapshot:
        """Give the table the snapshots, tags and columns that a branch has since it began; gives the newest snapshot.

        The branch stays, and goes on from there. Raises ConflictError where the table has changed since, which would be
        lost, and while a writer commits.

        A table with a log keeps its own snapshots, tags and columns, and gets the rows of the branch's newest snapshot
        in a new one: by a batch statement through the log, which readers of the log see like any other. Where files of
        more than `max_bytes` differ, by default 256 MiB, the log is ended, the files get the rows, and the table gets a
        log with a new topic, as with `restore`: readers go on over the files when they are started again, or stop with
        `stream.on-restore=fail`. A call that was cut off is made again. Columns must be the same on both sides. Writers
        of the table and of the branch must be stopped before: ConflictError names the batch of one that runs.
        """
        return self._take_branch(branch, "fast_forward", max_bytes)

    def merge_branch(self, branch: str, *, max_bytes: int | None = None) -> Snapshot:
        """As `fast_forward`, and the snapshots, tags and columns that the table has since the fork give way.

        `merge_changes` keeps the changes of both. A stream that wrote the table goes on with its next batch; batches
        that gave way do not come again. Writers of other engines must be stopped before. On a table with a log only
        rows give way: its snapshots and tags stay, and older states can be read and restored.
        """
        return self._take_branch(branch, "merge_branch", max_bytes)

    def replace_main(self, branch: str, *, max_bytes: int | None = None) -> Snapshot:
        """As `merge_branch`, and the branch is deleted: its metadata are the table's.

        On a table with a log, which gets the rows alone, a branch with tags of its own is refused.
        """
        return self._take_branch(branch, "replace_main", max_bytes)

    def _take_branch(self, branch: str, method: str, max_bytes: int | None) -> Snapshot:
        from lakelog.catalog.refs.from_branch import take_branch

        return take_branch(self, branch, method, max_bytes=max_bytes)

    @property
    def main_branch(self) -> str:
        """The branch that a file `main-branch` in the table's folder names, `main` without one.

        A proposal for Paimon names this file. No released engine writes or follows it, and neither does lakelog: reads
        and writes without a branch are of the table's folder.
        """
        from lakelog.filestore.refs.branches.branching import main_branch

        return main_branch(self._files)

    def restore(
        self,
        *,
        rewind_writers: bool = False,
        dry_run: bool = False,
        max_bytes: int | None = None,
        **which: Unpack[SnapshotChoice],
    ) -> Restored:
        """Bring an older state back: a new snapshot has the rows of the named one, in the table's newest columns.

        It is named by `snapshot_id`, `tag`, `timestamp`, `watermark` or `version`. With `dry_run` nothing is changed;
        the result says what would be: rows, files, writers. The snapshots between stay. Streams that write the table go
        on with their next batch, and batches that were undone do not come again; with `rewind_writers` the table takes
        them again: stop the streams before, and set them back. Who follows the changes of the table gets those of the
        restore. What others commit meanwhile is undone too.

        On a table with a log it is a batch statement: the changes are in the log, and what others log meanwhile stays
        where no change is of the same key. Where files of more than `max_bytes` differ, by default 256 MiB, or with
        `rewind_writers`, the log is ended, the files are restored, and the table gets a log with a new topic: stop
        streams that write before; streams that read go on, over the files, when they are started again. A call that was
        cut off is made again.
        Raises NotFoundError for a state that has expired, InvalidRequestError for one whose files have another number
        of buckets or that holds a batch in part, ConflictError when other writers commit all the time.
        """
        from lakelog.catalog.refs.restoring import restore

        return restore(self, which, rewind_writers=rewind_writers, dry_run=dry_run, max_bytes=max_bytes)

    def rollback(
        self, *, rewind_writers: bool = False, dry_run: bool = False, **which: Unpack[SnapshotChoice]
    ) -> RolledBack:
        """Delete the snapshots after the named one, with their changelogs and tags; with `dry_run` only say which.

        It is named as in `restore`, which deletes nothing and is to be preferred. Streams that write the table go on
        with their next batch; with `rewind_writers` the table takes their batches since then again. A call continues
        one that was cut off. The ids are given again: streams and consumers that have read deleted snapshots fail. Stop
        writers of other engines before. Data files are deleted by `remove_orphan_files`.
        Raises InvalidRequestError for a table with a log, NotFoundError for a state that has expired.
        """
        from lakelog.filestore.expire.before_expiry import take_lineage_of_deleted

        if not dry_run:
            take_lineage_of_deleted(self._files)
        return self._files.rollback(rewind_writers=rewind_writers, dry_run=dry_run, **which)
