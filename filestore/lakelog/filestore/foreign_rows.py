"""Rows that another engine wrote into a table with a log: they are in the files, and in no log.

One rule: who reads the files reads them, with a warning; what goes by the log (streams, writers) refuses, in the same
words.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from lakelog.filestore.snapshot import CommitKind, Snapshot
from lakelog.filestore.store import TableStore
from lakelog.filestore.users import PROPERTY_PREFIX

_WITHOUT_ROWS = (CommitKind.COMPACT, CommitKind.ANALYZE)
_log = logging.getLogger(__name__)


def snapshot_with_rows(foreign: Iterable[Snapshot]) -> Snapshot | None:
    """The newest of other engines' snapshots, newest first, that did more than compact; None without one."""
    return next((snapshot for snapshot in foreign if snapshot.commit_kind not in _WITHOUT_ROWS), None)


def foreign_rows_text(table_path: str, snapshot: Snapshot) -> str:
    """What such a snapshot means, and what to do."""
    return (
        f"snapshot {snapshot.id} of {table_path} is an {snapshot.commit_kind} by {snapshot.commit_user!r}, not by "
        "lakelog: its rows are not in the log, so log and files differ. Batch reads show its rows, streams and writers "
        "refuse the table. Roll it back to the snapshot before, and write tables with a log with lakelog alone"
    )


def warn_of_foreign_rows(table: TableStore, snapshot: Snapshot | None) -> None:
    """Log a warning where a batch read of a snapshot shows rows that the table's log lacks."""
    if snapshot is None or not table.has_log:
        return
    for found in table.snapshots.walk_back(snapshot):
        if any(key.startswith(PROPERTY_PREFIX) for key in found.properties):
            return
        if found.commit_kind not in _WITHOUT_ROWS:
            _log.warning("%s", foreign_rows_text(table.path, found))
            return
