"""A state of a table: a snapshot of the main line or of a branch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lakelog.common.timestamps import shown_millis
from lakelog.filestore.index.deletion_vectors import DeletionFile
from lakelog.filestore.index.index_manifest import deletion_files
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.read.file_pruning import is_merged_on_read
from lakelog.filestore.read.scan import POSTPONE_BUCKET
from lakelog.filestore.read.waiting_rows import with_waiting_rows
from lakelog.filestore.schema.paths import MAIN_BRANCH

StateFile = tuple[DataFileMeta, DeletionFile | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A state of a table: a snapshot of the main line or of a branch, with the schemas of that line.

    Without a snapshot it is the state before the first one.
    """

    table: TableStore
    snapshot: Snapshot | None

    @property
    def text(self) -> str:
        """The state in words, such as `snapshot 8 of branch dev (2026-01-31 12:00:00 UTC)`."""
        if self.snapshot is None:
            return "no snapshot"
        branch = "" if self.table.branch == MAIN_BRANCH else f" of branch {self.table.branch}"
        return f"snapshot {self.snapshot.id}{branch} ({shown_millis(self.snapshot.time_millis)})"

    def buckets(self) -> dict[BucketId, list[StateFile]]:
        """The live files whose rows reads show, each with its deletion vector. Reads the manifests."""
        schema = self.table.stored.schema
        level_min = 1 if schema.primary_keys and not is_merged_on_read(schema) else 0
        vectors = deletion_files(self.table, self.snapshot)
        found: dict[BucketId, list[StateFile]] = {}
        for bucket, live in self.table.live_files.of(self.snapshot).buckets.items():
            if bucket.number == POSTPONE_BUCKET:
                continue
            marked = vectors.get(bucket, {})
            files = [entry.file for entry in live.values() if entry.file.level >= level_min]
            found[bucket] = [(file, marked.get(file.file_name)) for file in files]
        return found

    def as_written(self) -> TableState:
        """The state, including the rows that wait for a compaction."""
        return replace(self, table=with_waiting_rows(self.table))
