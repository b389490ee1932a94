"""Checks that no writer writes a table with a log: for what must not come between the parts of a batch."""

from __future__ import annotations

from lakelog.common.errors import ConflictError, StalledError
from lakelog.common.quoting import shown
from lakelog.protocol.statements.statement_runs import LoggedTable
from lakelog.protocol.statements.unfinished import unfinished_batches


def check_at_rest(logged: LoggedTable) -> None:
    """Raise ConflictError while a writer works: a batch is in the log but in no snapshot, or in a snapshot in part."""
    found = ", ".join(map(str, unfinished_batches(logged.snapshots.newest().logged)))
    if not found:
        try:
            behind = logged.headers_behind()
        except StalledError as error:
            raise _at_work(logged, "a transaction that is open") from error
        found = ", ".join(sorted({f"batch {one.identifier} of {shown(one.user)}" for one in behind}))
    if found:
        raise _at_work(logged, found)


def _at_work(logged: LoggedTable, found: str) -> ConflictError:
    return ConflictError(
        f"a writer is at work: the log of {logged.table.name} has {found}, which no snapshot holds as a whole. Nothing "
        "was changed: let the writers end their batches, stop them, then call this again; for a writer that does not "
        "come back, `lakelog log abandon-writer`"
    )
