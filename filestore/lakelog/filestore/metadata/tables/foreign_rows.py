"""Rows that another engine wrote into a logged table: they are in the files, and in no log.

The rule: reads of the files return these rows, with a warning; streams and writers, which rely on the log, refuse the
table, with the same message. Snapshots without changes do not count: a streaming job of Flink creates one at each of
its checkpoints, even if it has written nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.tables.store import TableStore

_WITHOUT_ROWS = (CommitKind.COMPACT, CommitKind.ANALYZE)
_log = logging.getLogger(__name__)


def snapshot_with_rows(table: TableStore, foreign: Iterable[Snapshot]) -> Snapshot | None:
    """The newest of other engines' snapshots, given newest first, that changed rows; None if there is none."""
    return next((snapshot for snapshot in foreign if _has_rows(table, snapshot)), None)


def foreign_rows_text(table_path: str, snapshot: Snapshot) -> str:
    """The message about such a snapshot, with what to do."""
    return (
        f"snapshot {snapshot.id} of {table_path} is an {snapshot.commit_kind} by {snapshot.commit_user!r}, not by "
        "lakelog: its rows are not in the log, so log and files differ. Batch reads show its rows, streams that read "
        "refuse the table unless log.on-untracked is skip. A stream that writes is started again: it records the break "
        "in the log, and writes on. Or roll the table back to the snapshot before; write tables with a log with "
        "lakelog alone"
    )


def warn_of_foreign_rows(table: TableStore, snapshot: Snapshot | None) -> None:
    """Log a warning if a batch read of a snapshot shows rows that the table's log lacks.

    A pinned state was looked at when it was chosen.
    """
    if snapshot is None or not table.has_log or table.pinned is not None:
        return
    for found in table.snapshots.walk_back(snapshot):
        if found.has_own_properties:
            return
        if _has_rows(table, found):
            _log.warning("%s", foreign_rows_text(table.path, found))
            return


def _has_rows(table: TableStore, snapshot: Snapshot) -> bool:
    """Whether a snapshot may have changed rows; True if it names an index, which can hide rows without a file.

    Reads the list of its changes, unless its commit kind decides.
    """
    if snapshot.commit_kind in _WITHOUT_ROWS:
        return False
    return snapshot.index_manifest is not None or bool(
        table.manifests.read_list(snapshot.delta_manifest_list, size_bytes=snapshot.delta_manifest_list_size)
    )
