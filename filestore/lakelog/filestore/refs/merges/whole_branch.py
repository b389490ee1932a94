"""Brings a whole branch into a logged table: the table's rows become those of the branch.

In such a table the log decides what is committed, and readers have read the log, so snapshots of the table are never
replaced: the rows of the branch become a new state after the table's snapshots. The table's snapshots, tags and columns
are kept. The commit records the branch's snapshot as a three-way merge does, so that the next merge or fast-forward
begins there.

Rows that are too many for a batch statement are committed while the log has ended: `WholeBranchCommit` rewrites the
partitions that differ, so no file belongs to two lines, and its commit has changelog files, as that of a restore has.
Source: docs/rfcs/0035-branches.md, "Tables with a log".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from lakelog.common.errors import ConflictError, InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.origins.record import batches_of
from lakelog.filestore.metadata.origins.restored import kept_sources
from lakelog.filestore.metadata.snapshots.snapshot import (
    RESTORE_OPERATION,
    BranchVerb,
    CommitKind,
    Snapshot,
    is_same_commit,
)
from lakelog.filestore.metadata.snapshots.users import (
    CommitUser,
    PropertyKey,
    later_users,
    lineage_property,
    parse_users,
    users_to_json,
)
from lakelog.filestore.metadata.tables.identity import carried_anyhow, carried_by, check_schema
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.read.planned_read import PlannedRead
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.refs.branches.branch_removing import check_unnamed
from lakelog.filestore.refs.branches.branch_steps import check_is_main
from lakelog.filestore.refs.merges.branch_lineage import branch_lineage
from lakelog.filestore.refs.merges.merge_base import BranchLine, Merged
from lakelog.filestore.refs.merges.merge_checks import check_comparable
from lakelog.filestore.refs.merges.merge_plan import BranchMerge, MergePlan, PlannedRows
from lakelog.filestore.refs.restore.restore import write_changes
from lakelog.filestore.refs.restore.restore_plan import changes_of
from lakelog.filestore.refs.restore.restored_state import StateDifference
from lakelog.filestore.write.row_input import RowInput
from lakelog.filestore.write.table_write import Overwrite, TableWrite


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

    def commit(self) -> Snapshot | None:
        """Commit the rows while the table has no log. As `WholeBranchCommit.run`."""
        return WholeBranchCommit(self.main, self).run()

    def check_may_go(self) -> None:
        """Raise InvalidRequestError for a branch that an option names, or whose deletion would lose tags."""
        check_unnamed(self.main, self.line.branch.branch, "moved into the table")
        theirs, ours = self.line.branch.snapshots, self.main.snapshots
        tags = [
            tag
            for tag in theirs.tags()
            if not tag.startswith("lakelog-")
            and not (tag in ours.tags() and is_same_commit(ours.tagged(tag), theirs.tagged(tag)))
        ]
        if tags:
            raise InvalidRequestError(
                f"branch {self.line.branch.branch!r} has the tag(s) {listed(tags)}, which would be deleted with it: a "
                "table with a log gets the rows of a branch and not its snapshots. Use branches.replace_newer, after "
                "which the branch stays, or delete the tags"
            )

    def check_alone(self, snapshot: Snapshot) -> None:
        """Raise ConflictError if another writer's rows are in the snapshot too, beside those of the branch."""
        others = {one.user for one in batches_of(snapshot)} - {snapshot.commit_user}
        if others and self.verb is not BranchVerb.FAST_FORWARD:
            raise ConflictError(
                f"{listed(sorted(others))} wrote {self.main.name} while snapshot {snapshot.id} took in the rows of "
                f"branch {self.line.name!r}: the table has the rows of both, and the branch was kept; stop the "
                "writers, then call this again"
            )

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


class WholeBranchCommit:
    """One commit: computed on the newest snapshot, and again if another one comes first."""

    def __init__(self, table: TableStore, branch: WholeBranch) -> None:
        self._table = table
        self._branch = branch
        self._base: Snapshot | None = None
        self._write: TableWrite | None = None
        self._changelog: list[ManifestEntry] = []
        self._removed: list[ManifestEntry] = []

    def run(self) -> Snapshot | None:
        """Commit; None if the table has the branch's rows. Raises ConflictError as `WholeBranch.difference`."""
        return TableCommit(self._table).commit(self._resolve, discard=self._discard)

    def _resolve(self, latest: Snapshot | None) -> CommitRequest | None:
        if latest != self._base:
            self._discard()
            found = self._branch.difference(latest)
            self._base = latest
            if not found.is_empty:
                self._prepare(found)
        if self._write is None and self._branch.is_recorded(latest):
            return None
        nothing = CommitRequest(
            commit_user=self._branch.snapshot.commit_user,
        )
        request = nothing if self._write is None else self._write.resolve(latest)
        users = later_users(parse_users(carried_by(self._table, latest).properties), self._branch.users())
        recorded = {"operation": self._branch.verb.value, **self._branch.lineage(latest)}
        lineage = lineage_property(request.commit_user, request.commit_identifier, recorded)
        return replace(
            request,
            entries=[*self._removed, *request.entries],
            changelog=self._changelog,
            properties={PropertyKey.USERS: users_to_json(users), **self._branch.record(latest), **lineage},
            operation=RESTORE_OPERATION,
        )

    def _prepare(self, found: StateDifference) -> None:
        """Write the rows of the partitions that differ, and the changes of the rows."""
        partitions = {bucket.partition for bucket in found.buckets}
        rows = RowInput(schema=self._table.schema.arrow_schema, opened=lambda: self._rows(partitions))
        self._write = TableWrite(self._table, rows, replaces=Overwrite.WRITTEN_PARTITIONS)
        written = {entry.partition for entry in self._write.entries}
        live = self._table.live_files.of(found.base)
        self._removed = [
            replace(entry, kind=FileKind.DELETE)
            for entry in live.entries()
            if entry.partition in partitions and entry.partition not in written
        ]
        self._changelog = write_changes(self._table, live, found.rows(is_followed=True))

    def _rows(self, partitions: Collection[bytes]) -> Iterator[pa.RecordBatch]:
        """The branch's rows in these partitions, in the table's columns."""
        line, schema = self._branch.line.branch, self._table.schema
        names = [field.name for field in schema.fields]
        read = PlannedRead(
            table=line,
            fields=line.schema.select(names),
            where=None,
            splits=[
                one for one in plan_splits(line, self._branch.snapshot).splits if one.bucket_id.partition in partitions
            ],
            budget_bytes=READ_MEMORY_BUDGET.understood(schema.options),
        )
        for batch in read.batches():
            yield from pa.Table.from_batches([batch]).select(names).cast(schema.arrow_schema).to_batches()

    def _discard(self) -> None:
        """Delete what was written for a commit that is given up."""
        if self._write is not None:
            changelog = [self._table.data_path(entry.bucket_id, entry.file) for entry in self._changelog]
            self._write.discard([*self._write.paths, *self._write.superseded, *changelog])
        self._write, self._changelog, self._removed = None, [], []
