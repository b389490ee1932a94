"""What a snapshot does to the rows of its table, as far as the snapshot itself says."""

from __future__ import annotations

from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot

REPLACES_ROWS = frozenset({"OVERWRITE", "REPLACE_TABLE_AS_SELECT", "CREATE_OR_REPLACE_TABLE_AS_SELECT"})
KEEPS_ROWS = frozenset({"RESCALE", "LOG"})  # operations that rewrite the rows unchanged


def changes_rows(snapshot: Snapshot, before: Snapshot | None) -> bool:
    """Whether the rows of a snapshot differ from those of the one before it."""
    if snapshot.commit_kind in {CommitKind.COMPACT, CommitKind.ANALYZE} or snapshot.operation_name in KEEPS_ROWS:
        return False
    if snapshot.commit_kind is CommitKind.OVERWRITE or snapshot.delta_record_count:
        return True
    return snapshot.index_manifest != (None if before is None else before.index_manifest)
