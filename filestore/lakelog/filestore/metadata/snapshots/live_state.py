"""The live files of one snapshot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.metadata.manifests.data_file import SEQUENCE_MAX, DataFileMeta
from lakelog.filestore.metadata.manifests.layered import Draft, LayeredMap
from lakelog.filestore.metadata.manifests.manifest import FileIdentifier, FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId

NO_SEQUENCE = -1  # of a bucket without files
_NO_FILES: LayeredMap[FileIdentifier, ManifestEntry] = LayeredMap()


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveFiles:
    """The live files of one snapshot: the ADD entries of each bucket. Immutable.

    `highest_sequences` holds the highest sequence number of each bucket's files. Each commit needs it, so it is kept:
    searching for it in a bucket of 10,000 files takes three times as long as the rest of a commit.
    """

    buckets: LayeredMap[BucketId, LayeredMap[FileIdentifier, ManifestEntry]] = field(default_factory=LayeredMap)
    highest_sequences: LayeredMap[BucketId, int] = field(default_factory=LayeredMap)

    def read(self, partitions: Collection[bytes]) -> None:
        """Nothing: all files are known."""

    def whole(self) -> LiveFiles:
        """These files."""
        return self

    def entries(self) -> Iterator[ManifestEntry]:
        """All live entries, bucket by bucket."""
        for live in self.buckets.values():
            yield from live.values()

    def files(self, bucket: BucketId) -> tuple[DataFileMeta, ...]:
        """The live files of a bucket."""
        return tuple(entry.file for entry in self.buckets.get(bucket, _NO_FILES).values())

    def find(self, entry: ManifestEntry) -> ManifestEntry | None:
        """The live entry with the same identifier."""
        return self.buckets.get(entry.bucket_id, _NO_FILES).get(entry.identifier)

    def next_sequence(self, bucket: BucketId) -> int:
        """The sequence number after those of all live rows in a bucket."""
        highest = self.highest_sequences.get(bucket, NO_SEQUENCE)
        if highest >= SEQUENCE_MAX:
            raise CorruptDataError(
                f"a file of bucket {bucket.number} has the sequence number {highest}, which leaves none for rows after "
                "it; restore the table to a snapshot without that file, or copy its rows into a new table"
            )
        return highest + 1

    def total_buckets(self, partitions: Collection[bytes]) -> dict[bytes, int]:
        """The number of buckets that each partition's files were written for; partitions without files are left out."""
        return {
            partition: next(iter(live.values())).total_buckets
            for (partition, _), live in self.buckets.items()
            if partition in partitions
        }

    def apply(self, entries: Iterable[ManifestEntry]) -> LiveFiles:
        """The state after a delta. Raises CorruptDataError for an ADD of a live file or a DELETE of another."""
        # Grouped by plain tuples: a `BucketId` for each of many entries takes longer.
        changed: dict[tuple[bytes, int], _ChangedBucket] = {}
        for entry in entries:
            at = (entry.partition, entry.bucket)
            bucket = changed.get(at)
            if bucket is None:
                bucket = changed[at] = self._changed_bucket(BucketId(*at))
            bucket.apply(entry)
        buckets, highest = self.buckets.draft(), self.highest_sequences.draft()
        for at, bucket in changed.items():
            files = bucket.files.done()
            if files:
                buckets.put(BucketId(*at), files)
                highest.put(BucketId(*at), bucket.highest_sequence(files))
            else:
                buckets.discard(BucketId(*at))
                highest.discard(BucketId(*at))
        return LiveFiles(buckets=buckets.done(), highest_sequences=highest.done())

    def _changed_bucket(self, bucket: BucketId) -> _ChangedBucket:
        files = self.buckets.get(bucket, _NO_FILES).draft()
        return _ChangedBucket(files, self.highest_sequences.get(bucket, NO_SEQUENCE))


class _ChangedBucket:
    """A draft of a bucket's live files, and the sequence numbers that a change adds and removes."""

    __slots__ = ("_added", "_before", "_removed", "files")

    def __init__(self, files: Draft[FileIdentifier, ManifestEntry], highest_sequence: int) -> None:
        self.files = files
        self._before = highest_sequence
        self._added = self._removed = NO_SEQUENCE

    def apply(self, entry: ManifestEntry) -> None:
        """Raises CorruptDataError for an ADD of a live file and a DELETE of a file that is not live."""
        identifier = entry.identifier
        sequence = entry.file.max_sequence_number
        is_live = identifier in self.files
        if entry.kind is FileKind.ADD and not is_live:
            self.files.add(identifier, entry)
            self._added = max(self._added, sequence)
        elif entry.kind is FileKind.DELETE and is_live:
            self.files.discard(identifier)
            self._removed = max(self._removed, sequence)
        else:
            what = "added twice to" if is_live else "deleted but was never added to"
            raise CorruptDataError(f"file {entry.file.file_name} is {what} bucket {entry.bucket}")

    def highest_sequence(self, files: LayeredMap[FileIdentifier, ManifestEntry]) -> int:
        """The highest sequence number of the files after the change."""
        if self._removed < max(self._added, self._before):  # the file with the highest number is still live
            return max(self._added, self._before)
        return max(entry.file.max_sequence_number for entry in files.values())
