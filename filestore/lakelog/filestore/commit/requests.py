"""What one commit is asked to change. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakelog.filestore.index.hash_index import HashIndexChange
from lakelog.filestore.index.index_manifest import BucketDeletions
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """The changes of one commit. An APPEND that deletes files becomes an OVERWRITE.

    By default it is an APPEND, the only commit of a user of its own.

    `hashes` has the HASH index by which the buckets of rows were chosen, if a table has dynamic buckets. `properties`
    are added to those copied from the newest snapshot, see `filestore.metadata.snapshots.users`. With
    `takes_lost_state` the commit accepts that these were lost. An `operation` that Paimon lacks becomes a property too.
    `restores` is the snapshot whose live files the entries bring back: its indexes come back too, and the base
    manifests are joined, so that no file is deleted and added again in the manifests that a reader of the new snapshot
    reads. `unsynced` are the paths of new files that are not durable yet: they are before the snapshot is created.
    `lineage` is what is known of the origin of the rows, beside what the handle records.
    """

    commit_user: str = field(default_factory=lambda: str(uuid.uuid4()))
    commit_identifier: int = BATCH_COMMIT_IDENTIFIER
    kind: CommitKind = CommitKind.APPEND
    entries: Sequence[ManifestEntry] = ()
    changelog: Sequence[ManifestEntry] = ()
    deletions: Sequence[BucketDeletions] = ()
    hashes: HashIndexChange | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    operation: str | None = None
    takes_lost_state: bool = False
    restores: Snapshot | None = None
    unsynced: Sequence[str] = ()
    lineage: Mapping[str, object] = field(default_factory=dict)

    @property
    def committed_kind(self) -> CommitKind:
        """The kind of the snapshot: an append that deletes files is an overwrite."""
        has_deletes = any(entry.kind is FileKind.DELETE for entry in self.entries)
        return CommitKind.OVERWRITE if self.kind is CommitKind.APPEND and has_deletes else self.kind

    @property
    def added_rows(self) -> int:
        """Rows of the added files."""
        return sum(entry.file.row_count for entry in self.entries if entry.kind is FileKind.ADD)

    @property
    def deleted_rows(self) -> int:
        """Rows of the deleted files."""
        return sum(entry.file.row_count for entry in self.entries if entry.kind is FileKind.DELETE)

    @property
    def removed_files(self) -> dict[BucketId, set[str]]:
        """The names of files that the change removes. A file that only changes its level is not removed."""
        added = {entry.file.file_name for entry in self.entries if entry.kind is FileKind.ADD}
        removed: dict[BucketId, set[str]] = {}
        for entry in self.entries:
            if entry.kind is FileKind.DELETE and entry.file.file_name not in added:
                removed.setdefault(entry.bucket_id, set()).add(entry.file.file_name)
        return removed
