"""What holds a line before its first commit with lineage: a port, which a part above the file store fills.

A handle whose catalog switches lineage on holds its line, so that every later expiry, of any program, has the lineage
taken: see `lakelog.filestore.expire.before_expiry`. Where nothing fills the port, as in a process that has imported
`lakelog.filestore` alone, nothing is held.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakelog.filestore.metadata.tables.store import TableStore

HoldLineage = Callable[["TableStore"], None]
_holders: list[HoldLineage] = []


def hold_before_commits_by(hold: HoldLineage) -> None:
    """From now on call `hold` with a line that is about to get a snapshot with lineage. It raises nothing."""
    _holders[:] = [hold]


def hold_before_commit(table: TableStore) -> None:
    """Have the line held; nothing where the handle's catalog does not switch lineage on."""
    for hold in _holders if table.lineage_options else ():
        hold(table)
