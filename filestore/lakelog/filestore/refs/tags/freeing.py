"""Deletes the files that only a dropped tag or branch named."""

from __future__ import annotations

import logging

from lakelog.common.errors import CorruptDataError, LakelogError, NotFoundError
from lakelog.filestore.expire.references import (
    References,
    entries_of,
    history_of,
    index_names,
    lists_of,
    live_names,
    manifest_names,
)
from lakelog.filestore.metadata.manifests.manifest import FileKind
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore

logger = logging.getLogger("lakelog.filestore")


def free_files(table: TableStore, *snapshots: Snapshot) -> int:
    """Delete the files of states that nothing else names any more; returns their number.

    If damaged or missing metadata hide which files others need, nothing is deleted and a warning is logged: the files
    are then orphans, which `remove_orphan_files` finds.
    """
    freed = [one for one in snapshots if table.snapshots.find(one.id) != one]
    if not freed:
        return 0
    try:
        paths = _paths_of(table, freed)
        named = _named(table)
    except (CorruptDataError, NotFoundError) as error:
        logger.warning("%s: files that are not needed any more are not deleted: %s", table.name, error)
        return 0
    unused = [path for name, path in paths.items() if name not in named]
    try:
        for path in unused:
            table.file_io.delete(path)
    except LakelogError as error:
        logger.warning("%s: a file that is not needed any more is not deleted: %s", table.name, error)
    return len(unused)


def _paths_of(table: TableStore, snapshots: list[Snapshot]) -> dict[str, str]:
    """The path of each file of states by name: data files, their manifests, manifest lists last."""
    data: dict[str, str] = {}
    indexes: dict[str, str] = {}
    manifests: dict[str, str] = {}
    paths = table.paths
    for snapshot in snapshots:
        live = set(live_names(table, snapshot))
        for entry in entries_of(table, *lists_of(snapshot)):
            if entry.kind is not FileKind.ADD or entry.file.external_path is not None:
                continue
            path = table.data_path(entry.bucket_id, entry.file)
            folder = path.rpartition("/")[0]
            data |= {name: f"{folder}/{name}" for name in entry.file.extra_files if name in live}
            if entry.file.file_name in live:
                data[entry.file.file_name] = path
        if snapshot.index_manifest is not None:
            names = index_names(table, snapshot.index_manifest)
            indexes |= {name: paths.index(name) for name in names}
            manifests[snapshot.index_manifest] = paths.manifest(snapshot.index_manifest)
        if snapshot.statistics is not None:
            indexes[snapshot.statistics] = paths.statistics(snapshot.statistics)
        lists = lists_of(snapshot)
        others = [name for name in manifest_names(table, *lists) if name not in lists]
        manifests |= {name: paths.manifest(name) for name in (*others, *lists)}
    return data | indexes | manifests


def _named(table: TableStore) -> set[str]:
    """The names of the files that all snapshots, changelogs, tags and branches need."""
    references = References(table)
    for branch in table.branch_names():
        references.add_branch(history_of(table, branch))
    return references.names
