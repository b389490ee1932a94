"""The commit by which a table gets the rows of a branch while its log has ended: too many rows for a batch statement.

The partitions that differ are rewritten with the branch's rows, so no file belongs to two lines. Like a restore, the
commit has changelog files with the changes of the rows, for readers that follow the table until it has its next log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

import pyarrow as pa

from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import (
    BATCH_COMMIT_IDENTIFIER,
    RESTORE_OPERATION,
    CommitKind,
    Snapshot,
)
from lakelog.filestore.metadata.snapshots.users import (
    USERS_KEY,
    later_users,
    lineage_property,
    parse_users,
    users_to_json,
)
from lakelog.filestore.metadata.tables.identity import carried_by
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.read.planned_read import PlannedRead
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.refs.merges.whole_branch import WholeBranch
from lakelog.filestore.refs.restore.restore import write_changes
from lakelog.filestore.refs.restore.restored_state import StateDifference
from lakelog.filestore.write.row_input import RowInput
from lakelog.filestore.write.table_write import Overwrite, TableWrite


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
            commit_identifier=BATCH_COMMIT_IDENTIFIER,
            kind=CommitKind.APPEND,
        )
        request = nothing if self._write is None else self._write.resolve(latest)
        users = later_users(parse_users(carried_by(self._table, latest).properties), self._branch.users())
        recorded = {"operation": self._branch.verb.value, **self._branch.lineage(latest)}
        lineage = lineage_property(request.commit_user, request.commit_identifier, recorded)
        return replace(
            request,
            entries=[*self._removed, *request.entries],
            changelog=self._changelog,
            properties={USERS_KEY: users_to_json(users), **self._branch.record(latest), **lineage},
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
