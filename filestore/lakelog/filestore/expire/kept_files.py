"""The files that an expiry must keep."""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from lakelog.filestore.expire.line_breaks import line_breaks
from lakelog.filestore.expire.references import References, history_of
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.tag_holds import kept_by_tags
from lakelog.filestore.metadata.tables.store import TableStore


def _is_own(tag: str) -> bool:
    """Whether a tag, or the hold of a tag that is being created, is lakelog's own."""
    return tag.startswith(("lakelog-", "."))


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
    ) -> None:
        """`expired` are the snapshots that expire, oldest first, `kept` is the oldest that stays.

        `is_of_changelogs`: only changelogs expire, and what their deltas removed is already deleted. `restored` is the
        newest snapshot of a restore, 0 without one: before it a file may be removed and added again.
        """
        references = References(table)
        references.add_metadata(kept)
        # A delta may have removed files that a line after it still has: the first living snapshot of that line has
        # them.
        for snapshot in () if is_of_changelogs else line_breaks(table, [*expired, kept][0]):
            references.add_state(kept if snapshot.id < kept.id else snapshot)
        tagged = kept_by_tags(table.file_io, history_of(table, table.branch).paths)
        users = sorted((one for name, one in tagged.items() if not _is_own(name)), key=lambda one: one.id)
        # A file that a snapshot removed is in the newest tag before the snapshot, or in no older tag; after a restore
        # it may be in any older tag. A line change deletes younger tags of users, so all of them are of this line.
        ids = [one.id for one in users]
        nearest = {bisect.bisect_right(ids, snapshot.id) - 1 for snapshot in expired}
        nearest |= set(range(bisect.bisect_left(ids, restored)))
        for at in sorted(nearest - {-1}):
            references.add_state(users[at])
        # So nothing else of these states can be deleted now, if a branch has them too.
        references.leave_out(users)
        for name, snapshot in tagged.items():
            if _is_own(name):  # of this line or of another one
                references.add_state(snapshot)
        for branch in table.branch_names():
            if branch != table.branch:
                references.add_branch(history_of(table, branch))
        self.kept = references.names
