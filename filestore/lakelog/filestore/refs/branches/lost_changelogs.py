"""Snapshots whose changelog is lost: written again without it, by others or by a branch's replacement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakelog.common.quoting import shown
from lakelog.filestore.metadata.manifests.manifest import FileKind, ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot, is_same_commit
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.merging import (
    CHANGELOG_PRODUCER,
    CHANGELOG_ROW_DEDUPLICATE,
    MERGE_ENGINE,
    ChangelogProducer,
)
from lakelog.filestore.read.changes import files_in_changelogs
from lakelog.filestore.refs.tags.tags import tags_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LostChangelog:
    """A living snapshot without the changelog that it had, and how that is known.

    The changes that it lacks are those between the rows of snapshot `after` and its own; 0 is the empty table, None if
    no such snapshot is left.
    """

    snapshot_id: int
    why: str
    after: int | None


def lost_changelogs(table: TableStore) -> Iterator[LostChangelog]:
    """The lost changelogs of a line, oldest first. Reads the deltas of snapshots that have none.

    A snapshot is not reported if its compaction may have changed no row, as with merge-engine=first-row.
    """
    tags = [tag for tag in tags_of(table) if tag.snapshot.changelog_manifest_list is not None]
    living = table.snapshots.living()
    told = 0 if living and living[0].id == 1 else None
    for snapshot in living:
        if snapshot.changelog_manifest_list is not None:
            told = snapshot.id
        else:
            named = next((tag for tag in tags if is_same_commit(tag.snapshot, snapshot)), None)
            why = _expected(table, snapshot) if named is None else f"tag {shown(named.name)} names it"
            if why is not None:
                yield LostChangelog(snapshot_id=snapshot.id, why=why, after=told)


def _expected(table: TableStore, snapshot: Snapshot) -> str | None:
    """Why a commit must have written a changelog; None if that is not known."""
    schema = table.schemas.get(snapshot.schema_id)
    producer = CHANGELOG_PRODUCER.of(schema.options)
    if producer is ChangelogProducer.NONE or not schema.primary_keys or schema.has_changelog_at_write:
        return None
    if producer is ChangelogProducer.INPUT:
        brings = snapshot.commit_kind is CommitKind.APPEND and snapshot.delta_record_count > 0
        return f"it brings {snapshot.delta_record_count} rows with changelog-producer=input" if brings else None
    is_kept = CHANGELOG_ROW_DEDUPLICATE.of(schema.options) or MERGE_ENGINE.of(schema.options).traits.keeps_first
    if snapshot.commit_kind is not CommitKind.COMPACT or is_kept:
        return None
    lists = table.manifests.read_list(snapshot.delta_manifest_list)
    rows = _newly_told(table, list(table.manifests.read_entries(lists)))
    return f"its compaction has merged {rows} new rows with changelog-producer={producer}" if rows else None


def _newly_told(table: TableStore, entries: list[ManifestEntry]) -> int:
    """The rows of files that no changelog had, which a compaction merged into files that one has."""
    count = 0
    for bucket in {entry.bucket_id for entry in entries}:
        of_bucket = [entry for entry in entries if entry.bucket_id == bucket]
        told = {one.file_name for one in files_in_changelogs(table, [entry.file for entry in of_bucket])}
        kinds = {FileKind.ADD: 0, FileKind.DELETE: 0}
        for entry in of_bucket:
            if (entry.file.file_name in told) is (entry.kind is FileKind.ADD):
                kinds[entry.kind] += entry.file.row_count - (entry.file.delete_row_count or 0)
        count += kinds[FileKind.DELETE] if kinds[FileKind.ADD] else 0
    return count
