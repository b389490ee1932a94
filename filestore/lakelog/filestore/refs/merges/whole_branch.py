"""Brings a whole branch into a logged table: the table's rows become those of the branch.

In such a table the log decides what is committed, and readers have read the log, so snapshots of the table are never
replaced: the rows of the branch become a new state after the table's snapshots. The table's snapshots, tags and columns
are kept. The commit records the branch's snapshot as a three-way merge does, so that the next merge or fast-forward
begins there. Source: docs/rfcs/0035-branches.md, "Tables with a log".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.filestore.metadata.origins.restored import kept_sources
from lakelog.filestore.metadata.snapshots.snapshot import BranchVerb, CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.users import CommitUser, parse_users
from lakelog.filestore.metadata.tables.identity import carried_anyhow, check_schema
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.branches.branch_steps import check_is_main
from lakelog.filestore.refs.merges.branch_lineage import branch_lineage
from lakelog.filestore.refs.merges.branch_merge import BranchMerge
from lakelog.filestore.refs.merges.merge_base import BranchLine, Merged
from lakelog.filestore.refs.merges.merge_checks import check_comparable
from lakelog.filestore.refs.merges.merge_plan import MergePlan, PlannedRows
from lakelog.filestore.refs.restore.restore_plan import changes_of
from lakelog.filestore.refs.restore.restored_state import StateDifference


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeBranch:
    """A branch in its state when the call began, and the table that is to get its rows."""

    main: TableStore
    line: BranchLine
    snapshot: Snapshot
    verb: BranchVerb

    @classmethod
    def of(cls, main: TableStore, branch: TableStore, verb: BranchVerb) -> WholeBranch:
        """Read the branch's newest snapshot. Raises InvalidRequestError if its rows cannot become the table's."""
        check_is_main(main, "taken into their table")
        check_comparable(main, branch)
        line = BranchLine.of(main, branch)
        if line.snapshot is None:
            raise InvalidRequestError(f"{branch.name} has no snapshot that {main.name} could get: write it first")
        check_schema(branch, line.snapshot)
        return cls(main=main, line=line, snapshot=line.snapshot, verb=verb)

    def difference(self, latest: Snapshot | None) -> StateDifference:
        """The difference from `latest` to the branch. Raises InvalidRequestError, ConflictError as `check_base`."""
        if latest is None:
            raise InvalidRequestError(
                f"table {self.main.name} has no snapshot yet: branches.merge({self.line.name!r}) brings the rows"
            )
        found = StateDifference(self.main, latest, self.snapshot, self.line.branch)
        found.check()
        self.check_base(latest)
        return found

    def check_base(self, latest: Snapshot) -> None:
        """Raise ConflictError for a fast-forward of a table whose rows have changed since the branch began.

        The files in which the two states differ are read, since a compaction changes no row.
        """
        if self.verb is not BranchVerb.FAST_FORWARD:
            return
        base = self.line.base(latest, None)
        if base.snapshot is None:
            is_changed = any(self.main.live_files.of(latest).entries())
        else:
            between = StateDifference(self.main, latest, base.snapshot, base.table)
            is_changed = next(between.rows(is_followed=False), None) is not None
        if is_changed:
            raise ConflictError(
                f"{self.main.name} has other rows than those at which {self.line.branch.name} began or was last taken "
                "over, and a fast-forward would lose changes: branches.merge (`lakelog table merge`) keeps the changes "
                "of both, branches.replace_newer and replace_main (`lakelog table branch replace-newer`, "
                "`replace-main`) drop those of the table"
            )

    def check_writers(self, began: Snapshot | None, latest: Snapshot | None) -> None:
        """Raise ConflictError if rows were committed to the table since the call began."""
        first, last = (0 if one is None else one.id for one in (began, latest))
        for number in range(first + 1, last + 1):
            found = self.main.snapshots.find(number)
            if found is not None and found.commit_kind is not CommitKind.COMPACT:
                raise came_first(self.main.name, self.line.branch.name)

    def plan(self, latest: Snapshot | None) -> MergePlan:
        """The changes of a batch statement; without properties if there is nothing to commit."""
        found = self.difference(latest)
        changes = changes_of(found)
        is_new = bool(changes.row_count) or not self.is_recorded(latest)
        planned = PlannedRows(self.main)
        planned.take(changes)
        result = BranchMerge(
            branch=self.line.name, base_id=0, branch_id=self.snapshot.id, conflicts=planned.conflicts.table()
        )
        return planned.plan(result, self.record(latest) if is_new else None)

    def record(self, latest: Snapshot | None) -> dict[str, str]:
        """The properties of the commit: up to which snapshot the branch is merged, and what its rows come from."""
        now = carried_anyhow(self.main, latest).properties
        return {**self.line.record(latest), **kept_sources(carried_anyhow(self.line.branch, self.snapshot), now)}

    def is_recorded(self, latest: Snapshot | None) -> bool:
        """Whether the table records this snapshot of the branch as the one that was merged last."""
        wanted = Merged(branch=self.line.name, snapshot_id=self.snapshot.id, commit_uuid=self.snapshot.uuid)
        return self.line.merged_up_to(latest) == wanted

    def lineage(self, latest: Snapshot | None, result: BranchMerge | None = None) -> dict[str, object]:  # noqa: ARG002
        """What the commit records about the origin of the branch's rows; as `BranchMerger.lineage`."""
        return branch_lineage(self.line, self.snapshot, None)

    def users(self) -> Mapping[str, CommitUser]:
        """The users of the branch: their batches are in its rows."""
        return parse_users(carried_anyhow(self.line.branch, self.snapshot).properties)

    def check_branch_stayed(self) -> None:
        """Raise ConflictError if the branch got a snapshot since the call began: then it must not be deleted."""
        newest = self.line.branch.snapshots.latest_id()
        if newest != self.snapshot.id:
            raise ConflictError(
                f"a writer has committed snapshot {newest} to {self.line.branch.name} meanwhile: the rows up to "
                f"snapshot {self.snapshot.id} are in {self.main.name}, and the branch was kept; stop its writers, then "
                "call this again"
            )


def came_first(table_name: str, branch_name: str) -> ConflictError:
    """The error for a call that found a running writer before it changed anything."""
    return ConflictError(
        f"a writer has committed to {table_name} or {branch_name} meanwhile: nothing was changed; stop the writers, "
        "then call this again"
    )
