"""The files that an expiry must keep."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Sequence

from lakelog.filestore.expire.line_breaks import known_commits, line_breaks
from lakelog.filestore.expire.references import References, history_of
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.tag_holds import kept_by_tags
from lakelog.filestore.metadata.tables.forks import read_forks
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.paths import MAIN_BRANCH


class LaterStates:
    """The states of a line from the oldest snapshot that stays on, for a line without breaks and restores.

    What an expiry deletes was removed before them, and never came back: so a branch that began at one of them has none
    of it, and neither has a tag of one of them. A branch that began earlier, or on a line that was rolled back since,
    may have some of it.
    """

    def __init__(self, table: TableStore, kept: Snapshot) -> None:
        """`kept` is the oldest snapshot that stays."""
        self._table = table
        self._kept = kept
        self._known = known_commits(table)
        self._commits: dict[int, str | None] = {}

    def has(self, snapshot_id: int | None, commit: str | None) -> bool:
        """Whether a snapshot, by its number and its commit's uuid, is one of these."""
        if snapshot_id is None or commit is None or snapshot_id < self._kept.id:
            return False
        if (known := self._known.get(snapshot_id)) is not None:
            return known == commit
        if snapshot_id not in self._commits:
            found = self._table.snapshots.find(snapshot_id)
            self._commits[snapshot_id] = None if found is None else found.uuid
            if found is not None:
                self._known.add(found)
        return self._commits[snapshot_id] == commit

    def without_branches(self, branches: Sequence[str]) -> Iterator[str]:
        """Those of the branches that did not begin at one of these, or of which that is not known."""
        for branch, fork in read_forks(self._table, branches):
            if fork is None or fork.taken_millis is not None or not self.has(fork.snapshot_id, fork.commit_uuid):
                yield branch


class KeptFiles:
    """The files that an expiry must keep: collected once, after its decision."""

    def __init__(
        self,
        table: TableStore,
        expired: Sequence[Snapshot],
        kept: Snapshot,
        restored: int,
        *,
        is_of_changelogs: bool = False,
        partitions: Collection[bytes] | None = None,
    ) -> None:
        """`expired` are the snapshots that expire, oldest first, `kept` is the oldest that stays.

        `is_of_changelogs`: only changelogs expire, and what their deltas removed is already deleted. `restored` is the
        newest snapshot of a restore, 0 without one: before it a file may be removed and added again. `partitions` are
        those of all data files that may be deleted, None for any.
        """
        references = References(table, partitions=partitions)
        references.add_metadata(kept)
        # A delta may have removed files that a line after it still has: the first living snapshot of that line has
        # them.
        breaks = () if is_of_changelogs else line_breaks(table, [*expired, kept][0])
        for snapshot in breaks:
            references.add_state(kept if snapshot.id < kept.id else snapshot)
        is_one_line = table.branch == MAIN_BRANCH and not (is_of_changelogs or breaks or restored)
        later = LaterStates(table, kept) if is_one_line else None
        tagged = kept_by_tags(table.file_io, history_of(table, table.branch).paths)
        users, ids = tagged.of_users, tagged.ids_of_users
        # A file that a snapshot removed is in the newest tag before the snapshot, or in no older tag; after a restore
        # it may be in any older tag. A line change deletes younger tags of users, so all of them are of this line.
        nearest = {bisect.bisect_right(ids, snapshot.id) - 1 for snapshot in expired}
        nearest |= set(range(bisect.bisect_left(ids, restored)))
        for at in sorted(nearest - {-1}):
            references.add_state(users[at])
        # So nothing else of these states can be deleted now, if a branch has them too.
        references.leave_out(tagged.states_of_users)
        for snapshot in tagged.own:
            if later is None or not later.has(snapshot.id, snapshot.uuid):
                references.add_state(snapshot)
        others = [branch for branch in table.branch_names() if branch != table.branch]
        for branch in others if later is None else later.without_branches(others):
            references.add_branch(history_of(table, branch))
        self.kept = references.names
