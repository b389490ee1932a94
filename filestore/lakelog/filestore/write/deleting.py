"""Statements on tables without a log: they delete or replace the rows that a condition selects, in one commit."""

from __future__ import annotations

from collections.abc import Iterable

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.commit.commit import CommitRequest
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import discard_files
from lakelog.filestore.options.merging import IGNORE_DELETE, MERGE_ENGINE, ROWKIND_FIELD, MergeEngine
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.write.changing import ChangePlan, StatementChanges
from lakelog.filestore.write.table_write import TableWrite


def check_deletable(schema: TableSchema, *, table_name: str) -> None:
    """Raise UnsupportedError for a table in which a retraction does not delete its row. Pure."""
    if schema.is_change_log:
        return
    if not schema.primary_keys:
        reason = "it has no primary key, and its rows are only added"
    elif MERGE_ENGINE.of(schema.options) is not MergeEngine.DEDUPLICATE:
        reason = f"it has {MERGE_ENGINE.key}={MERGE_ENGINE.of(schema.options).value}"
    elif IGNORE_DELETE.of(schema.options):
        reason = f"it has {IGNORE_DELETE.key}=true"
    elif ROWKIND_FIELD.of(schema.options):
        reason = f"its column {ROWKIND_FIELD.of(schema.options)!r} holds the row kinds ({ROWKIND_FIELD.key})"
    else:
        return
    raise UnsupportedError(
        f"rows of table {table_name} cannot be deleted by a condition: {reason}. Overwrite the rows that stay with "
        "write(rows, mode='overwrite', where=...), or delete whole partitions with drop_partitions(where)"
    )


class TableChange:
    """One statement on a table without a log: planned on the newest snapshot, and again if another commit comes
    first."""

    def __init__(self, table: TableStore, plan: ChangePlan, operation: str) -> None:
        """`plan` gives the changes for a snapshot, which must fit in memory."""
        self._table = table
        self._operation = operation
        self._plan = plan
        self._write: TableWrite | None = None
        self._base: Snapshot | None = None
        self._is_read = False
        self._outdated: list[str] = []

    def resolve(self, latest: Snapshot | None) -> CommitRequest | None:
        """The commit after `latest`; None if nothing changes."""
        if not self._is_read or latest != self._base:
            self._outdated = [*self.superseded, *self.paths]
            changes = self._plan(latest)
            assert not changes.removed.num_rows, "rows are removed from tables with a log alone"
            has_rows = changes.rows.num_rows > 0
            self._write = self._written(changes) if has_rows else None
            self._base, self._is_read = latest, True
        return None if self._write is None else self._write.resolve(latest)

    def _written(self, changes: StatementChanges) -> TableWrite:
        return TableWrite(self._table, changes.rows, changes.kinds, replaces=None, operation=self._operation)

    @property
    def superseded(self) -> list[str]:
        """The paths of files to delete once the commit has ended."""
        return [*self._outdated, *(() if self._write is None else self._write.superseded)]

    @property
    def paths(self) -> list[str]:
        """The paths of the files that the commit names."""
        return [] if self._write is None else self._write.paths

    @property
    def entries(self) -> list[ManifestEntry]:
        """The data files that the commit adds."""
        return [] if self._write is None else self._write.entries

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files that no snapshot names."""
        discard_files(self._table, paths)
