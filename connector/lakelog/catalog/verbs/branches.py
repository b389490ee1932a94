"""The branches of a table."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack  # Any: values of parameters

from lakelog.catalog.names.keywords import naming_keywords
from lakelog.catalog.verbs.group import AnyTable, ListedGroup
from lakelog.warehouse.verb import Call, Loses, verb

if TYPE_CHECKING:
    from lakelog.catalog.names.durations import Age, Duration
    from lakelog.filestore.metadata.snapshots import BranchVerb, Snapshot
    from lakelog.filestore.refs import Branch, BranchMerge, SnapshotChoice

_ANSWER = {
    "branch": "name",
    "create_time": "created_millis",
    "snapshot_id": "snapshot_id",
    "tag": "tag",
    "expires_at": "expires_millis",
}
_HELP = {
    "name": "The branch's name.",
    "branch": "The branch whose changes the table gets.",
    "empty": "Begin without rows.",
    "time_retained": "Let `expire` delete the branch when this has passed, such as 30 d.",
    "older_than": "Also those neither created nor written since this time, or for this long, such as 30 d.",
    "base": "The snapshot or tag that both come from; 0 for an empty one.",
    "on_conflict": "fail, branch or main; or COLUMN=RULE with the rules fail, branch, main, sum, max and min, and * "
    "for all other columns.",
}
_SHOWN_MAX = 20  # conflicts that a command prints


def _delete_each(branches: TableBranches[Any], values: Mapping[str, Any]) -> None:
    """Delete the branches of a call, as Paimon does: names with commas between them."""
    for name in values["name"].split(","):
        branches.delete(name.strip())


def _lost(branches: TableBranches[Any], branch: str, **_: object) -> str:
    newest = branches._table.snapshot()
    return (
        f"branch {branch} replaces what table {branches._table.name} has committed since the branch began (its newest "
        f"snapshot is {0 if newest is None else newest.id}); branches.merge keeps both"
    )


@naming_keywords
class TableBranches(ListedGroup[AnyTable, "Branch"]):
    """The branches of a table: `table.branches`, which can be iterated; `table.branch(name)` opens one.

    `merge` keeps the changes of both sides. `fast_forward` gives the table the state of the branch if the table has not
    changed, `replace_newer` and `replace_main` also if it has.
    """

    place = "table branch"

    @verb(
        calls=(
            Call(
                name="create_branch",
                takes="branch=name, tag, ignoreIfExists=if_not_exists, snapshot=snapshot_id, empty, time_retained",
            ),
        ),
        help=_HELP,
        answer=_ANSWER,
    )
    def create(
        self,
        name: str,
        *,
        empty: bool = False,
        time_retained: Duration | None = None,
        if_not_exists: bool = False,
        **which: Unpack[SnapshotChoice],
    ) -> Branch:
        """Create a branch at the newest or another snapshot. It may also begin `empty`.

        Only metadata is copied, so this takes no longer for a large table. A tag `lakelog-fork-*` in the table and in
        the branch keeps the files that they share, until the branch is deleted. A branch begins without a log;
        `branch(name).log_store.add()` gives it one of its own. `expire` deletes the branch after `time_retained`.
        Raises InvalidRequestError for an impossible name: `main`, a number, or a name with a dot, a dollar sign or a
        slash; ConflictError for a name that is taken.

        >>> table.branches.create("repair", tag="friday", time_retained="7 d")
        >>> table.branch("repair").write(rows)
        """
        from lakelog.catalog.logs.log_verbs import settle_newest
        from lakelog.catalog.refs.branching import create_branch

        if not empty:
            settle_newest(self._table, which)
        return create_branch(
            self._table.store, name, empty=empty, time_retained=time_retained, if_not_exists=if_not_exists, **which
        )

    @verb(calls=(Call(name="rename_branch", takes="from_branch=name, to_branch=new_name"),), help=_HELP)
    def rename(self, name: str, new_name: str) -> None:
        """Give a branch another name. Raises NotFoundError, and ConflictError for a taken name or a running writer.

        >>> table.branches.rename("trial", "repair")
        """
        from lakelog.filestore.refs import rename_branch

        rename_branch(self._table.store, name, new_name)

    @verb(calls=(Call(name="delete_branch", takes="branch=name", run=_delete_each),), help=_HELP)
    def delete(self, name: str, *, if_exists: bool = False) -> None:
        """Delete a branch with its snapshots and tags. Its files become orphans, see `upkeep.remove_orphan_files`.

        Raises NotFoundError, and InvalidRequestError for a branch that `scan.fallback-branch` names.

        >>> table.branches.delete("trial")
        """
        from lakelog.catalog.refs.branching import delete_branch

        delete_branch(self._table, name, if_exists=if_exists)

    @verb(calls=(Call(name="expire_branches"),), help=_HELP, answer={"branch": ""})
    def expire(self, *, older_than: Age | None = None) -> builtins.list[str]:
        """Delete the branches whose time is over; returns their names.

        `older_than`, a timedelta, a duration such as `30 d`, or a datetime, also deletes branches that were neither
        created nor written since then. A branch that an option of the table names stays.

        >>> gone = table.branches.expire(older_than="30 d")
        """
        from lakelog.catalog.refs.branching import expire_branches

        return expire_branches(self._table, older_than)

    @verb(
        calls=(Call(name="merge_changes", takes="branch, on_conflict, dry_run"),),
        command="table merge",
        help=_HELP,
        answer={
            name: name
            for name in (
                "snapshot_id",
                "upserted",
                "inserted",
                "deleted",
                "conflict_count",
                "open_conflicts",
                "rows_read",
                "branch",
                "base_id",
                "branch_id",
            )
        },
        parts={"conflicts": lambda merged: merged.conflicts.slice(0, _SHOWN_MAX).to_pylist()},
        is_problem=lambda merged, _: merged.snapshot_id is None and merged.open_conflicts > 0,
    )
    def merge(
        self,
        branch: str,
        *,
        base: str | int | None = None,
        on_conflict: str | Mapping[str, str] = "fail",
        dry_run: bool = False,
    ) -> BranchMerge:
        """Merge what changed in a branch into the table. It is one snapshot of what changed since the last merge.

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

        base = 0 if base == "0" else base
        return merge_changes(self._table, branch, base=base, on_conflict=on_conflict, dry_run=dry_run)

    @verb(calls=(Call(name="fast_forward", takes="branch, renew_log"),), help=_HELP, answer={"snapshot_id": "id"})
    def fast_forward(self, branch: str, *, renew_log: bool = False) -> Snapshot:
        """Give the table what a branch got since it began; returns the newest snapshot.

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
        from lakelog.filestore.metadata.snapshots import BranchVerb

        return self._take(branch, BranchVerb.FAST_FORWARD, renew_log=renew_log)

    @verb(
        loses=Loses.NEWER_SNAPSHOTS,
        loss=_lost,
        calls=(Call(name="merge_branch", takes="source_branch=branch, renew_log"),),
        help=_HELP,
        answer={"snapshot_id": "id"},
    )
    def replace_newer(
        self,
        branch: str,
        *,
        renew_log: bool = False,
        force: bool = False,  # noqa: ARG002  # the guard of the declaration takes it
    ) -> Snapshot:
        """Replace what the table got since the fork. Its newer snapshots, tags and columns are lost.

        `merge` keeps the changes of both. A stream that wrote the table continues with its next batch; batches that
        were removed are not written again. Stop writers of other engines before. On a table with a log only rows are
        replaced: its snapshots and tags stay, and older states can be read and restored.

        Without `force` it is refused: what the table has committed since the fork is lost.

        >>> table.branches.replace_newer("trial", force=True)
        """
        from lakelog.filestore.metadata.snapshots import BranchVerb

        return self._take(branch, BranchVerb.MERGE, renew_log=renew_log)

    @verb(
        loses=Loses.NEWER_SNAPSHOTS,
        loss=_lost,
        calls=(Call(name="replace_main", takes="branch, renew_log"),),
        help=_HELP,
        answer={"snapshot_id": "id"},
    )
    def replace_main(
        self,
        branch: str,
        *,
        renew_log: bool = False,
        force: bool = False,  # noqa: ARG002  # the guard of the declaration takes it
    ) -> Snapshot:
        """Like `replace_newer`, and delete the branch. Its metadata becomes the table's.

        On a table with a log, which gets only the rows, a branch with tags of its own is refused.

        >>> table.branches.replace_main("trial", force=True)
        """
        from lakelog.filestore.metadata.snapshots import BranchVerb

        return self._take(branch, BranchVerb.REPLACE, renew_log=renew_log)

    def _take(self, branch: str, verb: BranchVerb, *, renew_log: bool) -> Snapshot:
        from lakelog.catalog.refs.from_branch import take_branch

        return take_branch(self._table, branch, verb, renew_log=renew_log)

    @verb(answer=_ANSWER)
    def list(self) -> builtins.list[Branch]:
        """The branches of the table, sorted by name. Those of other engines are there too, the main branch is not.

        >>> names = [branch.name for branch in table.branches.list()]
        """
        from lakelog.filestore.refs import branch_list

        return branch_list(self._table.store)

    def __contains__(self, name: str) -> bool:
        return any(branch.name == name for branch in self.list())
