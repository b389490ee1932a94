"""A commit that meets a change of the whole line, see `lakelog.filestore.metadata.snapshots.line_change`."""

from __future__ import annotations

from lakelog.common.errors import ConflictError
from lakelog.filestore.metadata.snapshots.line_change import LineChange, decide, end_change, finish_change
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore


def check_stays(table: TableStore, snapshot: Snapshot, change: LineChange | None) -> None:
    """Raise ConflictError if a created snapshot is dropped because of a change of the line; then it is deleted.

    `change` was read after the snapshot was created; None if there was none. A change that is not decided yet is
    cancelled: the commit came first.
    """
    if change is None or not change.concerns(table.branch):
        return
    if not decide(table.file_io, table.path, change, goes=False):
        end_change(table.file_io, table.path, change)
        return
    path = table.paths.snapshot(snapshot.id)
    finish_change(table.file_io, table.path, change)
    found = table.snapshots.find(snapshot.id)
    if path.removeprefix(f"{table.path}/") not in change.written and found is not None and found.uuid == snapshot.uuid:
        table.file_io.delete(path)
    raise ConflictError(
        f"{table.name}: branch {change.branch!r} replaced its newest snapshots while this commit ran, and "
        "nothing of the commit is in the table: open the table again, or start the stream again, and write again"
    )
