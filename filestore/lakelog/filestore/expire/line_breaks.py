"""Snapshots of a table that do not continue the one before them: another engine's fast-forward leaves both lines.

A commit before such a snapshot may have removed a file that the snapshot still has, so an expiry must know of each.
The manifest lists of all living snapshots show them. Each process compares two neighbours once: a line is changed from
some snapshot up to the newest, so the newest snapshot that was compared is another one then.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from lakelog.common.errors import NotFoundError
from lakelog.filestore.metadata.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshot import Snapshot
from lakelog.filestore.metadata.store import TableStore


@dataclass(frozen=True, slots=True)
class _Compared:
    """The range of snapshots that were compared, and those of it that do not continue the one before."""

    first_id: int
    newest: Snapshot
    breaks: tuple[Snapshot, ...]


_compared: dict[tuple[str, str], _Compared] = {}


def line_breaks(table: TableStore, first: Snapshot) -> list[Snapshot]:
    """The snapshots behind `first`, up to the newest, that do not continue the one before; oldest first.

    One whose manifest lists, or those of the one before, are deleted counts as such a snapshot. `first`, and those
    behind it that do not live any more, may have a changelog alone.
    """
    key = (table.path, table.branch)
    held = _compared.get(key)
    if held is None or not held.first_id <= first.id <= held.newest.id or not _lives(table, held.newest):
        held = _Compared(first.id, first, ())
    line = [held.newest, *_behind(table, held.newest.id)]
    found = [later for earlier, later in pairwise(line) if not _continues(table, earlier, later)]
    breaks = [snapshot for snapshot in (*held.breaks, *found) if snapshot.id > first.id]
    _compared[key] = _Compared(first.id, line[-1], tuple(breaks))
    return breaks


def _lives(table: TableStore, snapshot: Snapshot) -> bool:
    return table.snapshots.find(snapshot.id) == snapshot


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
