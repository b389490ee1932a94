"""The result of a compaction: files that no snapshot names until a commit adds them."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.filestore.index.index_manifest import BucketDeletions
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import discard_files


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """Files of one bucket, and the files with the same rows that replace them."""

    bucket_id: BucketId
    before: tuple[DataFileMeta, ...]
    after: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...] = ()
    deletions: BucketDeletions | None = None

    def entries(self, total_buckets: int) -> list[ManifestEntry]:
        """The entries of a COMPACT commit."""
        changes = [
            *((FileKind.DELETE, file) for file in self.before),
            *((FileKind.ADD, file) for file in self.after),
        ]
        return [self._entry(kind, file, total_buckets) for kind, file in changes]

    def changelog_entries(self, total_buckets: int) -> list[ManifestEntry]:
        """The changelog files that the commit adds."""
        return [self._entry(FileKind.ADD, file, total_buckets) for file in self.changelog]

    def _entry(self, kind: FileKind, file: DataFileMeta, total_buckets: int) -> ManifestEntry:
        return ManifestEntry(
            kind=kind,
            partition=self.bucket_id.partition,
            bucket=self.bucket_id.number,
            total_buckets=total_buckets,
            file=file,
        )


def discard_result(table: TableStore, result: CompactResult) -> None:
    """Delete the files that a compaction created and no snapshot names; a file that only changed its level is kept."""
    old = {file.file_name for file in result.before}
    new = (file for file in (*result.after, *result.changelog) if file.file_name not in old)
    discard_files(table, (table.data_path(result.bucket_id, file) for file in new))
    if result.deletions is not None and result.deletions.file is not None:
        discard_files(table, [table.paths.index(result.deletions.file.file_name)])
