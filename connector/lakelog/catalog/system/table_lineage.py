"""What `lakelog.lineage` does for the tables of a catalog. It is imported on demand: most programs do not need it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakelog.filestore.metadata.snapshots import Snapshot
    from lakelog.filestore.metadata.tables import TableStore, TakenBranch


class TableLineage:
    """The `LineageKeeper` of tables that are opened by a catalog or by their folder."""

    def hold(self, table: TableStore) -> None:
        """Hold a line if its handle switches lineage on; see `lakelog.lineage.tables.progress`."""
        from lakelog.lineage.tables.progress import hold_once

        hold_once(table)

    def take(self, table: TableStore) -> None:
        """Feed a line into the system tables of its warehouse."""
        from lakelog.lineage.tables.feeding import feed_line

        feed_line(table)

    def take_branch(self, table: TableStore, branch: str, snapshot: Snapshot) -> None:
        """Record that the table has taken over a whole branch, which is then deleted."""
        from lakelog.lineage.tables.feeding import feed_taken

        feed_taken(table, branch, snapshot)

    def of_branch(self, taken: TakenBranch) -> Mapping[str, object]:
        """The reads of the branch's batches; see `lakelog.lineage.answers.brought`."""
        from lakelog.lineage.answers.brought import lineage_of_branch

        return lineage_of_branch(taken)


KEEPER = TableLineage()
