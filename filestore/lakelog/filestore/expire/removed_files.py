"""The files that snapshots have removed from a table, and what an earlier expiry that was cut off has left of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakelog.common.errors import NotFoundError
from lakelog.filestore.expire.references import entries_of, index_names, manifest_names
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore


def removed_by(table: TableStore, found: Sequence[Snapshot]) -> dict[int, list[ManifestEntry]]:
    """For each snapshot except the first, the entries that it removed and that no other snapshot added again."""
    removed: dict[str, tuple[int, ManifestEntry]] = {}
    for snapshot in found[1:]:
        entries = entries_left(table, snapshot.delta_manifest_list)
        for entry in entries:
            if entry.kind is FileKind.ADD:
                removed.pop(entry.file.file_name, None)
        for entry in net_removed(entries):
            removed[entry.file.file_name] = (snapshot.id, entry)
    by_snapshot: dict[int, list[ManifestEntry]] = {snapshot.id: [] for snapshot in found}
    for snapshot_id, entry in removed.values():
        by_snapshot[snapshot_id].append(entry)
    return by_snapshot


def net_removed(entries: Sequence[ManifestEntry]) -> Iterator[ManifestEntry]:
    """The entries that a delta removes; a file that only changes its level is not removed."""
    added = {entry.file.file_name for entry in entries if entry.kind is FileKind.ADD}
    return (entry for entry in entries if entry.kind is FileKind.DELETE and entry.file.file_name not in added)


def entries_left(table: TableStore, manifest_list: str) -> list[ManifestEntry]:
    """The entries in the manifests of a list; none if an earlier expiry has deleted one of them."""
    try:
        return list(entries_of(table, manifest_list))
    except NotFoundError:
        return []


def names_left(table: TableStore, *lists: str) -> list[str]:
    """The names of the manifests in lists, except lists that an earlier expiry has deleted."""
    names: list[str] = []
    for name in lists:
        try:
            names.extend(manifest_names(table, name))
        except NotFoundError:
            continue
    return names


def index_left(table: TableStore, index_manifest: str) -> list[str]:
    """The names of index files in an index manifest; none if an earlier expiry has deleted it."""
    try:
        return index_names(table, index_manifest)
    except NotFoundError:
        return []
