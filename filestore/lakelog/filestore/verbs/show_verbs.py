"""The verbs that show what a table is made of, and how its states differ: system tables, differences, history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from lakelog.filestore.refs.states.travel import SnapshotChoice
from lakelog.filestore.schema.paths import MAIN_BRANCH
from lakelog.filestore.verbs.read_verbs import ReadableTable

if TYPE_CHECKING:
    from lakelog.filestore.system.history import History
    from lakelog.filestore.system.system_table import SystemTable
    from lakelog.filestore.system.table_diff import DiffState, TableDiff


class ShownTable(ReadableTable):
    """A table with the verbs that show it."""

    def system_table(
        self, name: str, *, after: int | None = None, up_to: int | None = None, **which: Unpack[SnapshotChoice]
    ) -> SystemTable:
        """A system table, such as `files`, `snapshots` or `tags`. See `lakelog.catalog.Table.system.table`."""
        from lakelog.filestore.system.system_opening import Shown, open_system_table

        named = tuple(key for key, value in which.items() if value is not None and key != "branch")
        table, found = self.travelled(**which)
        branch = "" if table.branch == MAIN_BRANCH else f"$branch_{table.branch}"
        snapshot = (lambda: found) if named else table.snapshot
        state = Shown(snapshot=snapshot, named=named, after=after, up_to=up_to)
        return open_system_table(table, name, state, full_name=f"{table.name}{branch}${name}")

    def diff(
        self,
        from_: DiffState,
        to: DiffState | None = None,
        *,
        columns: str | Sequence[str] | None = None,
        sample: int = 10,
    ) -> TableDiff:
        """The rows in which two states differ. See `lakelog.catalog.Table.diff`."""
        from lakelog.filestore.system.table_diff import diff_states, state_of

        after = state_of(self, {} if to is None else to)
        names = (columns,) if isinstance(columns, str) else columns
        return diff_states(self.name, state_of(self, from_), after, columns=names, sample=sample)

    def history(self, *, limit: int | None = None) -> History:
        """The snapshots of the table and its branches. See `lakelog.catalog.Table.history`."""
        from lakelog.filestore.system.history import history_of

        return history_of(self, name=self.name, limit=limit)
