"""Snapshots of a table that do not continue the one before them: another engine's fast-forward leaves both lines.

A commit before such a snapshot may have removed a file that the snapshot still has, so an expiry must know of each. The
manifest lists of all living snapshots show them. Two neighbours are compared once: a line is changed from some snapshot
up to the newest, so after a change the newest compared snapshot is a different one. What was compared is kept by the
process, and for other processes in a file, see `lakelog.filestore.expire.compared_line`. The numbers of the two
lines may have a gap between them; the hint of the oldest snapshot is then after the gap, but an expiry begins before
it.
"""

from __future__ import annotations

from itertools import pairwise

from lakelog.common.errors import NotFoundError
from lakelog.filestore.expire.compared_line import Compared, KnownCommits, read_compared, written_compared
from lakelog.filestore.metadata.snapshots.changelogs import ChangelogManager
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore

_compared: dict[tuple[str, str], Compared] = {}


def first_before_gaps(table: TableStore, hinted: int) -> int:
    """The oldest snapshot. From now on the hint names it, instead of `hinted` after a gap.

    It is found by a listing, once per process while the line does not change.
    """
    if _held(table, hinted) is not None:
        return hinted
    oldest = min(table.snapshots.ids(), default=hinted)
    if oldest < hinted:
        table.snapshots.write_earliest_hint(oldest)
    return oldest


def line_breaks(table: TableStore, first: Snapshot) -> list[Snapshot]:
    """The snapshots after `first`, up to the newest, that do not continue the one before; oldest first.

    A snapshot counts as such if its manifest lists, or those of the one before, are deleted. `first`, and those after
    it that are not living, may have only a changelog.
    """
    held = _held(table, first.id) or Compared(first.id, first, (), first.id)
    line = [held.newest, *_behind(table, held.newest.id)]
    found = [later for earlier, later in pairwise(line) if not _continues(table, earlier, later)]
    breaks = [snapshot for snapshot in (*held.breaks, *found) if snapshot.id > first.id]
    commits = held.commits.up_to(line[-1].id, first_id=first.id)
    compared = Compared(first.id, line[-1], tuple(breaks), held.written_id, commits)
    _compared[table.path, table.branch] = written_compared(table, compared)
    return breaks


def known_commits(table: TableStore) -> KnownCommits:
    """The commits of the line that `line_breaks` has just compared."""
    return _compared[table.path, table.branch].commits


def _held(table: TableStore, first_id: int) -> Compared | None:
    """What was compared from a snapshot or an earlier one on, and is of this line; None without any."""
    held = _compared.get((table.path, table.branch))
    is_of_line = held is not None and table.snapshots.find(held.newest.id) == held.newest
    if held is None or not is_of_line:
        held = read_compared(table, first_id)
    return held if held is not None and held.first_id <= first_id <= held.newest.id else None


def _behind(table: TableStore, number: int) -> list[Snapshot]:
    """The snapshots after one; if the next one is not living, including those that have only a changelog."""
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
