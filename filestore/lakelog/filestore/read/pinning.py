"""A table whose reads show one state: a snapshot, or a snapshot and files that no snapshot names yet."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from lakelog.common.clock import system_millis
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.snapshots.live_files import LiveFilesCache
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, IN_MEMORY, CommitKind, Snapshot
from lakelog.filestore.metadata.tables.store import TableStore

AnyTable = TypeVar("AnyTable", bound=TableStore)


def pinned(table: AnyTable, snapshot: Snapshot | None, added: Sequence[ManifestEntry] = ()) -> AnyTable:
    """The table with reads of one state: a snapshot with these files besides. None is the state before the first.

    The state with files is in the memory of this handle alone; its snapshot has the number of the one before it. Raises
    CorruptDataError for a file that the snapshot has already.
    """
    live_files = table.live_files
    if added:
        before = _before_the_first(table) if snapshot is None else snapshot
        rows = sum(entry.file.row_count for entry in added)
        shown = replace(
            before,
            base_manifest_list="",
            delta_manifest_list=f"{IN_MEMORY}{uuid.uuid4()}",
            total_record_count=before.total_record_count + rows,
            delta_record_count=rows,
        )
        live_files = LiveFilesCache(table.manifests)
        live_files.put(shown, table.live_files.of(snapshot).apply(added))
        snapshot = shown
    found = replace(table, pinned=snapshot)
    vars(found).update(schemas=table.schemas, snapshots=table.snapshots, live_files=live_files)
    return found


def _before_the_first(table: TableStore) -> Snapshot:
    return Snapshot(
        id=0,
        schema_id=table.schema.id,
        base_manifest_list="",
        delta_manifest_list="",
        commit_user="",
        commit_identifier=BATCH_COMMIT_IDENTIFIER,
        commit_kind=CommitKind.APPEND,
        time_millis=system_millis(),
        total_record_count=0,
        delta_record_count=0,
    )
