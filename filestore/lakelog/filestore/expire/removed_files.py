"""The files that snapshots have removed from a table, and what an earlier expiry that was cut off has left of them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from lakelog.common.errors import NotFoundError
from lakelog.filestore.expire.references import entries_of, index_names, manifest_names
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore

_READ_WHOLE_MAX = 1_000  # entries of a manifest that become objects even if names alone are wanted


def removed_by(table: TableStore, found: Sequence[Snapshot]) -> dict[int, list[ManifestEntry]]:
    """For each snapshot except the first, the entries that it removed and that no other snapshot added again."""
    removed: dict[str, tuple[int, ManifestEntry]] = {}
    for snapshot in found[1:]:
        deleted, added = _delta_left(table, snapshot.delta_manifest_list, removed)
        for name in added & removed.keys():
            del removed[name]
        for entry in deleted:
            if entry.file.file_name not in added:
                removed[entry.file.file_name] = (snapshot.id, entry)
    by_snapshot: dict[int, list[ManifestEntry]] = {snapshot.id: [] for snapshot in found}
    for snapshot_id, entry in removed.values():
        by_snapshot[snapshot_id].append(entry)
    return by_snapshot


def partitions_of_removed(
    table: TableStore, expired: Sequence[Snapshot], removed: Mapping[int, Sequence[ManifestEntry]]
) -> set[bytes]:
    """The partitions of the data files that snapshots have removed, and of the changelog files of those that expire."""
    lists = [one.changelog_manifest_list for one in expired if one.changelog_manifest_list is not None]
    changes = (entry for name in lists for entry in entries_left(table, name))
    return {entry.partition for entry in itertools.chain(changes, *removed.values())}


def _delta_left(
    table: TableStore, manifest_list: str, removed: Collection[str]
) -> tuple[list[ManifestEntry], set[str]]:
    """The DELETE entries of a delta, and its added names in `removed` or these entries.

    Nothing if an earlier expiry has deleted one of the manifests.

    Manifests that only add files may be large, and mostly none of their names is asked for.
    """
    try:
        manifests = table.manifests.read_list(manifest_list)
        mixed = list(table.manifests.read_entries(one for one in manifests if one.num_deleted_files))
        deleted = [entry for entry in mixed if entry.kind is FileKind.DELETE]
        added = {entry.file.file_name for entry in mixed if entry.kind is FileKind.ADD}
        asked = {*removed, *(entry.file.file_name for entry in deleted)}
        for manifest in manifests:
            if asked and not manifest.num_deleted_files:
                added |= asked.intersection(_names_in(table, manifest))
    except NotFoundError:
        return [], set()
    return deleted, added


def _names_in(table: TableStore, manifest: ManifestFileMeta) -> Iterable[str]:
    """The names of the files in a manifest."""
    columns = table.manifests.read_columns(manifest) if manifest.num_added_files > _READ_WHOLE_MAX else None
    if columns is None:
        return (entry.file.file_name for entry in table.manifests.read_entries([manifest]))
    return columns["_FILE_NAME"]


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
