"""Which snapshots of a table a branch has written, and has brought: the table has them later than they were committed.

A branch takes the place of what its table has with snapshots that may be older than those that give way. When it did
so is not recorded. It was not before the newest one that it brought: until then the table had other snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: values of edges

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.catalog.system.system_database import plain_times
from lakelog.lineage.lines.lines import Line
from lakelog.lineage.records.record import TableVersion
from lakelog.lineage.tables.forking import FORK_OPERATION, TAKEN

Row = Mapping[str, Any]
_COLUMNS = ["sink_branch", "operation", "why", "sink_snapshot", "sink_commit", "sink_time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """That the table did not have a snapshot before a time. Without `is_sure` a branch may have brought it, or not."""

    time_millis: int
    is_sure: bool


@dataclass(slots=True, kw_only=True)
class Arrivals:
    """The snapshots of one table that branches have brought, or may have brought. `chain` are those that it has now.

    `written` are those of which it is known that they were written to a branch. `brought` are the numbers in the chain
    behind the first one of a pair up to the second one, with the time of that. `doubtful` is the number behind which a
    branch that is not there any more may have brought all.
    """

    chain: Mapping[int, str | None]
    written: set[TableVersion] = field(default_factory=set)
    brought: list[tuple[int, int, int]] = field(default_factory=list)
    doubtful: int | None = None

    @classmethod
    def of(cls, edges: pa.Table, lines: Sequence[Line], chain: Mapping[int, str | None]) -> Arrivals:
        """Those of one table. `edges` are those that were written to its lines, `lines` are its branches."""
        found = cls(chain=chain)
        began: dict[str, list[Row]] = {}
        for row in plain_times(edges.filter(pc.is_valid(edges["sink_branch"])).select(_COLUMNS)).to_pylist():
            if row["operation"] == FORK_OPERATION:
                began.setdefault(row["sink_branch"], []).append(row)
            else:
                found.written.add(TableVersion(snapshot_id=row["sink_snapshot"], commit=row["sink_commit"]))
        for line in lines:
            found.written.update(step.version for step in line.steps if step.version != line.began)
        living = {line.key.branch for line in lines if line.began is not None}
        for branch, rows in began.items():
            found._take(sorted(rows, key=lambda row: row["sink_snapshot"]), is_living=branch in living)
        return found

    def find(self, version: TableVersion, time_millis: int, *, is_in_chain: bool) -> Arrival | None:
        """Whether a branch has brought a snapshot of the table of this time; None where the table wrote it itself."""
        number = version.snapshot_id
        times = [time for first, last, time in self.brought if is_in_chain and first < number <= last]
        if times or version in self.written:
            return Arrival(time_millis=max([time_millis, *times]), is_sure=True)
        if is_in_chain and self.doubtful is not None and number > self.doubtful:
            return Arrival(time_millis=time_millis, is_sure=False)
        return None

    def _take(self, rows: Sequence[Row], *, is_living: bool) -> None:
        """Take the beginnings of one branch, by their numbers."""
        before = 0
        for row in rows:
            number = row["sink_snapshot"]
            if row["why"] == TAKEN and self.chain.get(number, "") == row["sink_commit"]:
                self.brought.append((before, number, row["sink_time"]))
            before = number
        if not is_living:
            first = rows[0]["sink_snapshot"]
            self.doubtful = first if self.doubtful is None else min(first, self.doubtful)
