"""Writing the manifests and manifest lists of a new snapshot. Source: Paimon spec, "Manifest" and "Manifest list"."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.common.errors import UnavailableError
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.index.index_manifest import index_after
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestFiles, merge_entries
from lakelog.filestore.metadata.manifests.manifest_merging import ENTRIES_MAX, pick_manifests
from lakelog.filestore.metadata.manifests.manifest_pruning import manifests_of_partitions
from lakelog.filestore.metadata.manifests.manifest_records import ManifestFileMeta
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.files import MANIFEST_FULL_COMPACTION_SIZE, MANIFEST_MERGE_MIN_COUNT
from lakelog.filestore.schema.paths import FileNames

logger = logging.getLogger("lakelog.filestore")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenManifests:
    """The manifest lists of a snapshot, each its name and size, its index manifest, and the files new among them."""

    base: tuple[str, int]
    delta: tuple[str, int]
    changelog: tuple[str | None, int | None]
    index: str | None
    new_files: Sequence[str]


def write_manifests(
    table: TableStore, latest: Snapshot | None, request: CommitRequest, *, schema_id: int, may_merge: bool
) -> WrittenManifests:
    """Write the manifests and lists of the snapshot after `latest`, durably.

    Small manifests are joined if `may_merge`. Raises ConflictError as `index_after`.
    """
    names = FileNames()
    files = table.manifests.collecting()
    index = _index_after(table, latest, request, names, files)
    if request.restores is not None:
        base = _rewritten(table, latest, files, names, schema_id)
    else:
        base = _base_manifests(table, latest, files, names, schema_id, may_merge=may_merge)
    delta = files.write(request.entries, names=names, schema_id=schema_id)
    base_list, delta_list = files.write_list(base, names=names), files.write_list(delta, names=names)
    named = (*(manifest.file_name for manifest in (*base, *delta)), index or "")
    new_files = [base_list[0], delta_list[0], *(name for name in named if names.uuid in name)]
    changelog_list = _write_changelog(request, files, names, schema_id, new_files)
    files.create_collected(unsynced=request.unsynced)
    return WrittenManifests(
        base=base_list, delta=delta_list, changelog=changelog_list, index=index, new_files=new_files
    )


def delete_manifests(table: TableStore, written: WrittenManifests) -> None:
    """Delete the files of an attempt that has lost. What cannot be deleted is an orphan, and logged."""
    for name in written.new_files:
        try:
            table.file_io.delete(table.paths.manifest(name))
        except UnavailableError as error:
            logger.warning("%s: manifest %s is left behind: %s", table.name, name, error)


def _index_after(
    table: TableStore, latest: Snapshot | None, request: CommitRequest, names: FileNames, manifests: ManifestFiles
) -> str | None:
    """The name of the index manifest of the new snapshot. Raises ConflictError as `index_after`."""
    if request.restores is not None:
        return request.restores.index_manifest
    return index_after(
        table,
        latest,
        deleted=request.removed_files,
        deletions=request.deletions,
        hashes=request.hashes,
        is_compaction=request.kind is CommitKind.COMPACT,
        names=names,
        manifests=manifests,
    )


def _rewritten(
    table: TableStore, latest: Snapshot | None, files: ManifestFiles, names: FileNames, schema_id: int
) -> list[ManifestFileMeta]:
    """The live files before a restore in new manifests, since files come back under their names."""
    return files.write(list(table.live_files.of(latest).entries()), names=names, schema_id=schema_id)


def _base_manifests(
    table: TableStore,
    latest: Snapshot | None,
    files: ManifestFiles,
    names: FileNames,
    schema_id: int,
    *,
    may_merge: bool,
) -> list[ManifestFileMeta]:
    """The manifests of everything before the new snapshot; small ones are joined if there are enough."""
    if latest is None:
        return []
    manifests = list(table.live_files.manifests_of(latest))
    if not may_merge:
        return manifests
    options = table.schema.options
    picked = pick_manifests(
        manifests,
        count_min=MANIFEST_MERGE_MIN_COUNT.of(options),
        full_size_bytes=MANIFEST_FULL_COMPACTION_SIZE.of(options),
    )
    if not picked:
        return manifests
    kept, joined = _without_untouched(table, manifests, picked)
    return kept + files.write(merge_entries(files.read_entries(joined)), names=names, schema_id=schema_id)


def _without_untouched(
    table: TableStore, manifests: Sequence[ManifestFileMeta], picked: Sequence[ManifestFileMeta]
) -> tuple[list[ManifestFileMeta], Sequence[ManifestFileMeta]]:
    """The manifests that stay, and those to join; where all are joined, full ones without need stay."""
    if len(picked) < len(manifests):
        return [*manifests[: len(manifests) - len(picked)]], picked
    with_deletes = [manifest for manifest in picked if manifest.num_deleted_files]
    deleted = {entry.partition for entry in table.manifests.read_entries(with_deletes) if entry.kind is FileKind.DELETE}
    touched = manifests_of_partitions(picked, deleted, table.manifests.partition_types)
    names = {manifest.file_name for manifest in [*with_deletes, *touched]}
    kept = [one for one in picked if one.file_name not in names and one.num_added_files >= ENTRIES_MAX]
    stays = {manifest.file_name for manifest in kept}
    return kept, [manifest for manifest in picked if manifest.file_name not in stays]


def _write_changelog(
    request: CommitRequest, manifests: ManifestFiles, names: FileNames, schema_id: int, new_files: list[str]
) -> tuple[str | None, int | None]:
    """The manifest list of the changelog files and its size, None without any; adds to `new_files`."""
    if not request.changelog:
        return None, None
    changelog = manifests.write(request.changelog, names=names, schema_id=schema_id)
    name, size = manifests.write_list(changelog, names=names)
    new_files += [*(manifest.file_name for manifest in changelog), name]
    return name, size
