"""The step from the manifests of one state to those of another, whatever the numbers of their snapshots are.

A state is the sum of its manifests, so two states differ by the manifests that only one of them has. A commit adds its
own manifests to those of its parent; if it joins manifests, the joined manifest replaces its parts, and their entries
cancel each other. A snapshot of another line shares fewer manifests: its own are in the step too. So no step depends on
which snapshot has the previous number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.metadata.manifests.manifest_entries import FileIdentifier, FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestStep:
    """The manifests of a later state that an earlier state lacks, and the other way round."""

    added: tuple[ManifestFileMeta, ...]
    dropped: tuple[ManifestFileMeta, ...]

    @classmethod
    def between(cls, earlier: Sequence[ManifestFileMeta], later: Sequence[ManifestFileMeta]) -> ManifestStep:
        """The step from one state to another, each by all of its manifests in order. Pure."""
        before, after = ({manifest.file_name for manifest in one} for one in (earlier, later))
        return cls(
            added=tuple(manifest for manifest in later if manifest.file_name not in before),
            dropped=tuple(manifest for manifest in earlier if manifest.file_name not in after),
        )

    @property
    def is_empty(self) -> bool:
        """Whether both states have the same manifests."""
        return not self.added and not self.dropped

    @property
    def entry_count(self) -> int:
        """How many entries are read for the step."""
        return count_entries(self.added) + count_entries(self.dropped)


def count_entries(manifests: Iterable[ManifestFileMeta]) -> int:
    """How many entries manifests have."""
    return sum(manifest.num_added_files + manifest.num_deleted_files for manifest in manifests)


def net_change(added: Iterable[ManifestEntry], dropped: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The change made by the entries of added manifests, less those of dropped manifests: DELETE, then ADD. Pure.

    Raises CorruptDataError if a file would be added or deleted twice.
    """
    counts: dict[FileIdentifier, int] = {}
    entries: dict[FileIdentifier, ManifestEntry] = {}
    for sign, part in ((1, added), (-1, dropped)):
        for entry in part:
            identifier = entry.identifier
            counts[identifier] = counts.get(identifier, 0) + (sign if entry.kind is FileKind.ADD else -sign)
            if identifier not in entries or entry.kind is FileKind.ADD:
                entries[identifier] = entry
    changed = [(count, entries[identifier]) for identifier, count in counts.items() if count]
    for count, entry in changed:
        if abs(count) > 1:
            what = "added to" if count > 0 else "deleted from"
            raise CorruptDataError(f"file {entry.file.file_name} is {what} bucket {entry.bucket} twice")
    kinds = {-1: FileKind.DELETE, 1: FileKind.ADD}
    found = [entry if entry.kind is kinds[count] else replace(entry, kind=kinds[count]) for count, entry in changed]
    return sorted(found, key=lambda entry: entry.kind is FileKind.ADD)
