"""Statements on tables without a log: they delete or replace the rows that a condition selects, in one commit.

Rows with a key are written again, as retractions or as new rows. Files of append-only tables that hold deleted or
replaced rows are written again without them; the new rows are written as those of an INSERT, since they may be in
another partition or bucket.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import polars as pl
import pyarrow as pa

from lakelog.common.errors import ConflictError, UnsupportedError
from lakelog.common.threads import in_threads
from lakelog.filestore.commit.conflicts import check_total_buckets
from lakelog.filestore.commit.looks import Look
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.data.placed_rows import file_without
from lakelog.filestore.index.index_manifest import deletion_files
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import discard_files
from lakelog.filestore.options.merging import IGNORE_DELETE, MERGE_ENGINE, ROWKIND_FIELD
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.schema.row_places import FILE, POSITION
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.write.changing import ChangePlan, StatementChanges
from lakelog.filestore.write.table_write import TableWrite
from lakelog.filestore.write.write import WrittenRows, check_table_writable


def check_deletable(schema: TableSchema, *, table_name: str) -> None:
    """Raise UnsupportedError for a table with a key in which a retraction does not delete its row. Pure."""
    if not schema.primary_keys:
        return
    if not schema.merge_engine.traits.keeps_last:
        reason = f"it has {MERGE_ENGINE.key}={schema.merge_engine.value}"
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
    """One statement on a table without a log: planned on the newest snapshot, again after each conflict."""

    def __init__(self, table: TableStore, plan: ChangePlan, operation: str) -> None:
        """`plan` gives the changes for a snapshot, which must fit in memory."""
        self._table = table
        self._operation = operation
        self._plan = plan
        self._write: TableWrite | None = None
        self._taken: Sequence[ManifestEntry] = ()
        self._lineage: Mapping[str, object] = {}
        self._base: Snapshot | None = None
        self._is_read = False
        self._outdated: list[str] = []
        self.look: Look | None = None  # a statement is planned on the snapshot that its commit reads

    def resolve(self, latest: Snapshot | None) -> CommitRequest | None:
        """The commit after `latest`; None if nothing changes."""
        if not self._is_read or latest != self._base:
            self._outdated = [*self.superseded, *self.paths]
            self._write, self._taken = None, ()
            changes = self._plan(latest)
            assert not changes.removed.num_rows, "rows are removed from tables with a log alone"
            if changes.rows.num_rows:
                self._write = self._written(changes)
            if changes.places is not None:
                self._taken = self._without(latest, changes.places)
            self._base, self._is_read, self._lineage = latest, True, changes.lineage
        if self._write is None:
            return self._request() if self._taken else None
        request = self._write.resolve(latest)
        if self._taken:
            check_total_buckets(self._table.live_files.of(latest), request.entries)
        return replace(request, entries=[*self._taken, *request.entries], lineage=self._lineage)

    def _without(self, latest: Snapshot | None, places: pa.Table) -> Sequence[ManifestEntry]:
        try:
            return entries_without(self._table, latest, places)
        except BaseException:
            self.discard(self.paths)  # those of the new rows
            raise

    def _request(self) -> CommitRequest:
        """The commit of a statement without new rows."""
        return CommitRequest(
            kind=CommitKind.OVERWRITE,
            entries=self._taken,
            operation=self._operation,
            lineage=self._lineage,
        )

    def _written(self, changes: StatementChanges) -> TableWrite:
        return TableWrite(self._table, changes.rows, changes.kinds, replaces=None, operation=self._operation)

    @property
    def superseded(self) -> list[str]:
        """The paths of files to delete once the commit has ended."""
        return [*self._outdated, *(() if self._write is None else self._write.superseded)]

    @property
    def paths(self) -> list[str]:
        """The paths of the files that the commit names."""
        own = [self._table.data_path(one.bucket_id, one.file) for one in self._taken if one.kind is FileKind.ADD]
        return [*own, *([] if self._write is None else self._write.paths)]

    @property
    def entries(self) -> list[ManifestEntry]:
        """The data files that the commit adds."""
        taken = [one for one in self._taken if one.kind is FileKind.ADD]
        return [*taken, *([] if self._write is None else self._write.entries)]

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files that no snapshot names."""
        discard_files(self._table, paths)


class WrittenChange:
    """A statement on a table without a log whose files other processes have written, on one snapshot."""

    def __init__(
        self,
        table: TableStore,
        written: WrittenRows,
        base: Snapshot | None,
        operation: str,
        *,
        lineage: Mapping[str, object],
    ) -> None:
        """`base` is the snapshot that the files were written on, `lineage` that of `StatementChanges`."""
        self._table = table
        self._written = written
        self._base = base
        self._operation = operation
        self._lineage = lineage
        self.look: Look | None = None  # the files were written on a snapshot that was read long ago
        self.superseded: Sequence[str] = ()

    def resolve(self, latest: Snapshot | None) -> CommitRequest | None:
        """The commit after `latest`; None if nothing changes. Raises ConflictError for another snapshot."""
        if latest != self._base:
            found = "none" if latest is None else str(latest.id)
            raise ConflictError(f"{self._table.name}: snapshot {found} appeared while a statement was worked out")
        if not self.entries:
            return None
        return CommitRequest(
            entries=self.entries,
            changelog=self._written.changelog,
            operation=self._operation,
            lineage=self._lineage,
        )

    @property
    def paths(self) -> list[str]:
        """The paths of the files that the commit names."""
        entries = [*self._written.entries, *self._written.changelog]
        return [self._table.data_path(entry.bucket_id, entry.file) for entry in entries]

    @property
    def entries(self) -> list[ManifestEntry]:
        """The data files that the commit adds."""
        return self._written.entries

    def discard(self, paths: Iterable[str]) -> None:
        """Delete files that no snapshot names."""
        discard_files(self._table, paths)


def entries_without(table: TableStore, base: Snapshot | None, places: pa.Table) -> list[ManifestEntry]:
    """The entries that take the rows at `places` out of a snapshot: files are deleted, and others added.

    Writes files, several at once, which share the memory budget. When it fails, those written so far are deleted.
    """
    check_table_writable(table)
    frame = pl.DataFrame(places).unique().sort(FILE, POSITION)
    by_file = {str(name): rows[POSITION] for (name,), rows in frame.group_by(FILE, maintain_order=True)}
    touched = [entry for entry in table.live_files.of(base).entries() if entry.file.file_name in by_file]
    assert len(touched) == len(by_file), "the places are those of rows of this snapshot"
    deletions = deletion_files(table, base)
    added: list[ManifestEntry] = []

    def rewrite(entry: ManifestEntry, budget_bytes: int) -> None:
        name = entry.file.file_name
        positions = by_file[name].cast(pl.UInt64).to_numpy()
        vector = deletions.get(entry.bucket_id, {}).get(name)
        files = file_without(table, entry.bucket_id, entry.file, positions, deletions=vector, budget_bytes=budget_bytes)
        added.extend(replace(entry, kind=FileKind.ADD, file=one) for one in files)

    try:
        for _ in in_threads(rewrite, touched, budget_bytes=READ_MEMORY_BUDGET.understood(table.schema.options)):
            pass
    except BaseException:
        discard_files(table, [table.data_path(one.bucket_id, one.file) for one in added])
        raise
    return [*(replace(entry, kind=FileKind.DELETE) for entry in touched), *added]
