"""The lines of tables, cached between questions: only new snapshots are read.

A snapshot does not change: its id and its commit name it. An id is reused after a rollback, when a branch replaces the
line, or in a table that is created again under the name. So the newest snapshot that was read is compared with its
file: as long as it is the same, all earlier ones are the same. Otherwise the line is read again. The comparison comes
after the newer snapshots are read: if the snapshot had been replaced before, these would belong to another line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lakelog.filestore.metadata.origins import LineKey
from lakelog.filestore.metadata.tables import TableStore
from lakelog.lineage.lines.expired import ExpiredSteps
from lakelog.lineage.lines.line_graph import FoundLines, joined_line
from lakelog.lineage.lines.line_steps import StepRun
from lakelog.lineage.lines.lines import Line, Step
from lakelog.lineage.tables.beginnings import line_snapshots
from lakelog.warehouse.warehouse import Warehouse


class CachedLines(FoundLines):
    """Tables of catalogs, with what was read of their lines. For use in one thread."""

    def __init__(self, catalogs: Sequence[Warehouse]) -> None:
        super().__init__(catalogs)
        self._cached: dict[LineKey, _CachedLine] = {}
        self._is_read: set[LineKey] = set()  # lines that `find` has read, for the `read` that follows

    def find(self, key: LineKey, name: str) -> TableStore | None:
        """Like `FoundLines.find`; for a cached line, its table, as long as the line there is the same."""
        cached = self._current(key)
        if cached is None:
            return super().find(key, name)
        self._is_read.add(key)
        return cached.table

    def read(self, key: LineKey, table: TableStore | None, *, name: str) -> Line:
        """Like `FoundLines.read`, but reads only new snapshots."""
        cached = self._cached[key] if key in self._is_read else self._current(key)
        self._is_read.discard(key)
        if cached is None and table is not None:
            cached = self._cached[key] = _CachedLine.of(table)
        return super().read(key, None, name=name) if cached is None else cached.line(key, self)

    def _current(self, key: LineKey) -> _CachedLine | None:
        """A cached line with its new snapshots; None if it must be read again."""
        cached = self._cached.pop(key, None)
        if cached is None:
            return None
        if not cached.read_on(self.expired):
            self._by_uuid = None  # the table may have moved
            return None
        self._cached[key] = cached
        return cached


@dataclass(slots=True)
class _CachedLine:
    """One line, oldest step first. `expired` has the steps before the living ones; None if they were not asked for."""

    table: TableStore
    run: StepRun
    living: list[Step] = field(default_factory=list)
    expired: list[Step] | None = None

    @classmethod
    def of(cls, table: TableStore) -> _CachedLine:
        """Read a line now."""
        cached = cls(table, StepRun.of(table))
        cached.living += map(cached.run.take, line_snapshots(table, table.branch))
        return cached

    def read_on(self, stored: ExpiredSteps) -> bool:
        """Take in the new snapshots; returns False if the line must be read again.

        Steps whose snapshots have expired since are kept as expired steps if `stored` keeps them too.
        """
        newest = self.run.newest
        if newest is None:
            return False
        snapshots = self.table.snapshots
        new = snapshots.behind(newest.id)
        is_same = snapshots.find(newest.id) == newest
        if not is_same or [one.id for one in new] != list(range(newest.id + 1, newest.id + 1 + len(new))):
            return False
        self.living += map(self.run.take, new)
        if not self.table.file_io.exists(self.table.paths.snapshot(self.living[0].version.snapshot_id)):
            self._expire(snapshots.earliest_id() or newest.id, are_kept=stored.are_kept())
        return True

    def line(self, key: LineKey, tables: FoundLines) -> Line:
        """The line with its expired steps, which are read once."""

        def expired_before(first: int | None) -> list[Step]:
            if self.expired is None:
                self.expired = tables.expired.of(key, first)
            return self.expired

        return joined_line(key, self.table, tuple(self.living), expired_before)

    def _expire(self, earliest: int, *, are_kept: bool) -> None:
        gone = [step for step in self.living if step.version.snapshot_id < earliest]
        self.living = self.living[len(gone) :]
        if are_kept:
            self.expired = [*(self.expired or ()), *(replace(step, is_living=False) for step in gone)]
