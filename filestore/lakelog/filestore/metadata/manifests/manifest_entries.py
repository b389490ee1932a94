"""One entry of a manifest: a file that a snapshot added or deleted, and its bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta

MANIFEST_VERSION = 2
FileIdentifier = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


class BucketId(NamedTuple):
    """A bucket of a partition: the serialized BinaryRow of the partition values, and the bucket's number.

    A tuple, because it is the key of large maps: its hash and its order are computed without a call of Python code.
    """

    partition: bytes
    number: int


BucketFilter = Callable[[BucketId], bool]


class FileKind(IntEnum):
    """Whether an entry adds or deletes its file; the value is that in manifests."""

    ADD = 0
    DELETE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestEntry:
    """One file added to or deleted from a table.

    `partition` is the serialized BinaryRow of the partition values. `total_buckets` is the bucket number of the table
    when the file was written. Source: Paimon spec, "Manifest".
    """

    kind: FileKind
    partition: bytes
    bucket: int
    total_buckets: int
    file: DataFileMeta

    @property
    def bucket_id(self) -> BucketId:
        """The bucket of the file."""
        return BucketId(self.partition, self.bucket)

    @property
    def identifier(self) -> FileIdentifier:
        """The identity that a DELETE entry shares with the ADD entry that it cancels."""
        file = self.file
        return (
            self.partition,
            self.bucket,
            file.level,
            file.file_name,
            file.extra_files,
            file.embedded_file_index,
            file.external_path,
        )


def entries_of_buckets(entries: Iterable[ManifestEntry], keeps: BucketFilter) -> Iterator[ManifestEntry]:
    """The entries for whose bucket `keeps` is true; it is called once for each bucket."""
    known: dict[tuple[bytes, int], bool] = {}
    for entry in entries:
        at = (entry.partition, entry.bucket)
        is_kept = known.get(at)
        if is_kept is None:
            is_kept = known[at] = keeps(BucketId(*at))
        if is_kept:
            yield entry


def merge_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The entries that remain when every DELETE has cancelled its ADD, in order of appearance.

    A DELETE whose ADD is not among the entries is kept, so that parts of a table's manifests can be merged. Raises
    CorruptDataError when a file is added twice.
    """
    left: dict[FileIdentifier, ManifestEntry] = {}
    for entry in entries:
        identifier = entry.identifier
        before = left.get(identifier)
        if entry.kind is FileKind.ADD:
            if before is not None and before.kind is FileKind.ADD:
                raise CorruptDataError(f"file {entry.file.file_name} is added to bucket {entry.bucket} twice")
            left[identifier] = entry
        elif before is not None and before.kind is FileKind.ADD:
            del left[identifier]
        else:
            left[identifier] = entry
    return list(left.values())


def live_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The live files of base entries, then delta entries. Raises CorruptDataError for a DELETE without ADD."""
    merged = merge_entries(entries)
    for entry in merged:
        if entry.kind is FileKind.DELETE:
            raise CorruptDataError(
                f"file {entry.file.file_name} of bucket {entry.bucket} is deleted but was never added"
            )
    return merged
