"""Writes changelog files: every change of a commit with its old values."""

from __future__ import annotations

from lakelog.filestore.data.data_writer import write_data_files
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, FileSource
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.layout import CHANGELOG_FILE_PREFIX
from lakelog.filestore.schema.paths import FileNames


class ChangelogWriter:
    """Buffers changes of one bucket, in key order, and writes a file whenever `buffer_bytes` are reached."""

    def __init__(self, table: TableStore, bucket: BucketId, *, buffer_bytes: int) -> None:
        """Start without changes."""
        self._table = table
        self._bucket = bucket
        self._buffer_bytes = buffer_bytes
        self._names = FileNames()
        self._held: list[StoredRows] = []
        self.files: list[DataFileMeta] = []  # written so far

    def add(self, changes: StoredRows) -> None:
        """Add changes whose keys are not below those added before."""
        if changes.rows.num_rows:
            self._held.append(changes)
            if sum(part.rows.nbytes for part in self._held) >= self._buffer_bytes:
                self._flush()

    def finish(self) -> list[DataFileMeta]:
        """Write the buffered changes and return all files."""
        self._flush()
        return self.files

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, []
            prefix = CHANGELOG_FILE_PREFIX.of(self._table.schema.options)
            self.files += write_data_files(
                self._table, self._bucket, held, level=0, source=FileSource.COMPACT, names=self._names, prefix=prefix
            )
