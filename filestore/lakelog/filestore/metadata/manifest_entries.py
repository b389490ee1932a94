"""One entry of a manifest: a file that a snapshot added or deleted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from lakelog.filestore.metadata.data_file import DataFileMeta

MANIFEST_VERSION = 2
FileIdentifier = tuple[bytes, int, int, str, tuple[str, ...], bytes | None, str | None]


class FileKind(IntEnum):
    """Whether an entry adds or deletes its file; the value is the one in manifests."""

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
