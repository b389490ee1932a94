"""Snapshots of a table that do not continue the one before them: another engine's fast-forward leaves both lines.

A commit before such a snapshot may have removed a file that the snapshot still has, so an expiry must know of each.
The manifest lists of all living snapshots show them. Each process compares two neighbours once: a line is changed from
some snapshot up to the newest, so the newest snapshot that was compared is another one then. The numbers of the two
lines may have a gap between them, behind which the hint of the oldest snapshot is then: an expiry begins before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore


@dataclass(frozen=True, slots=True)
class _Compared:
    """The range of snapshots that were compared, and those of it that do not continue the one before."""

    first_id: int
    newest: Snapshot
    breaks: tuple[Snapshot, ...]


_compared: dict[tuple[str, str], _Compared] = {}


def first_before_gaps(table: TableStore, hinted: int) -> int:
    """The oldest snapshot, which the hint names from now on, in place of `hinted` behind a gap.

    A listing shows it, once in a process as long as nothing changes the line.
    """
    if _held(table, hinted) is not None:
        return hinted
    oldest = min(table.snapshots.ids(), default=hinted)
    if oldest < hinted:
        table.snapshots.write_earliest_hint(oldest)
    return oldest


def line_breaks(table: TableStore, first: Snapshot) -> list[Snapshot]:
    """The snapshots behind `first`, up to the newest, that do not continue the one before; oldest first.

    One whose manifest lists, or those of the one before, are deleted counts as such a snapshot. `first`, and those
    behind it that do not live any more, may have a changelog alone.
    """
    held = _held(table, first.id) or _Compared(first.id, first, ())
    line = [held.newest, *_behind(table, held.newest.id)]
    found = [later for earlier, later in pairwise(line) if not _continues(table, earlier, later)]
    breaks = [snapshot for snapshot in (*held.breaks, *found) if snapshot.id > first.id]
    _compared[table.path, table.branch] = _Compared(first.id, line[-1], tuple(breaks))
    return breaks


def _held(table: TableStore, first_id: int) -> _Compared | None:
    """What was compared from a snapshot on, or from one before it, and is this line still; None without it."""
    held = _compared.get((table.path, table.branch))
    if held is None or not held.first_id <= first_id <= held.newest.id:
        return None
    return held if table.snapshots.find(held.newest.id) == held.newest else None


def _behind(table: TableStore, number: int) -> list[Snapshot]:
    """The snapshots behind one; where the next one does not live, with those that have a changelog alone."""
    living = table.snapshots.behind(number)
    if not living or living[0].id == number + 1:
        return living
    changelogs = ChangelogManager(table.file_io, table.paths)
    between = (changelogs.find(one) for one in changelogs.ids() if number < one < living[0].id)
    return [*(one for one in between if one is not None), *living]


def _continues(table: TableStore, earlier: Snapshot, later: Snapshot) -> bool:
    try:
        return table.live_files.continues(earlier, later)
    except NotFoundError:
        return False
