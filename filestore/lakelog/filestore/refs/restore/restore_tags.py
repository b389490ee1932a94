"""The tags that protect the files of a restore: while a snapshot before the restore is left, its files look removed.

A restore adds files again that a snapshot between its target and itself removed. In every engine of the format, an
expiry of that snapshot deletes what it removed, unless a tag has it. So a restore first creates a tag of its target.
The next restore or expiry of lakelog deletes the tag when no snapshot or changelog before the restore is left; a tag
whose restore did not happen is deleted after a day.

The snapshot property `lakelog.restored` holds {tag: id of the snapshot of its restore}. An older tag may share files
with younger snapshots even if a tag between them does not: so an expiry of lakelog checks all tags older than a
restore.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from lakelog.common.clock import system_millis
from lakelog.common.errors import LakelogError
from lakelog.filestore.metadata.origins.restored import parse_restored
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.users import carried_properties
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.refs.tags.tags import drop_tag
from lakelog.filestore.schema.paths import TAG_PREFIX, is_tag_file

logger = logging.getLogger("lakelog.filestore")

RESTORE_TAG_PREFIX = "lakelog-restore-"
_ABANDONED_MILLIS = 24 * 3_600_000


def restored_after(table: TableStore, carried: Mapping[str, str], tag: str, snapshot_id: int) -> str:
    """The property of a restore's snapshot: its own restore, the newest earlier ones and those with a tag."""
    before = parse_restored(carried)
    there = set(table.snapshots.tags())
    newest = max(before.values(), default=None)
    kept = {name: at for name, at in before.items() if name in there or at == newest}
    return json.dumps({**kept, tag: snapshot_id}, separators=(",", ":"))


def release_restore_tags(table: TableStore, *, now_millis: int | None = None) -> list[str]:
    """Delete the tags of restores that protect nothing; returns their names. Costs one listing."""
    prefix = TAG_PREFIX + RESTORE_TAG_PREFIX
    names = [name for name in table.file_io.list_names(table.paths.tag_dir) if name.startswith(prefix)]
    tags = sorted(name.removeprefix(TAG_PREFIX) for name in names if is_tag_file(name))
    if not tags:
        return []
    restored = parse_restored(carried_properties(table.snapshots.latest(), table.snapshots).properties)
    known = [at for at in (table.snapshots.earliest_id(), _changelogs(table).earliest_id()) if at is not None]
    oldest = min(known, default=0)
    now = system_millis() if now_millis is None else now_millis
    released = [
        name
        for name in tags
        if (restored[name] <= oldest if name in restored else _is_abandoned(table, name, now_millis=now))
    ]
    for name in released:
        drop_tag(table, name)
    return released


def release_after_commit(table: TableStore) -> None:
    """Delete these tags after a commit. The commit has succeeded, so errors are only logged."""
    try:
        release_restore_tags(table)
    except LakelogError as error:
        logger.warning("%s: tags of restores were not deleted: %s", table.name, error)


def _changelogs(table: TableStore) -> ChangelogManager:
    return ChangelogManager(table.file_io, table.paths)


def _is_abandoned(table: TableStore, name: str, *, now_millis: int) -> bool:
    """Whether the restore of a tag began long ago, and is in no snapshot."""
    for entry in table.file_io.list_entries(table.paths.tag_dir):
        if entry.name == TAG_PREFIX + name:
            return entry.modified_millis < now_millis - _ABANDONED_MILLIS
    return False
