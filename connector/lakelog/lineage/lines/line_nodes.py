"""The snapshots of a line as nodes: a node is a commit, which a branch and its table may both have.

A branch replaces what its table has, with snapshots that may be older than the replaced ones. Its fork file says when
its table last took it. For a branch that no longer exists, or that another engine has taken, that is not known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any  # Any: values of edges

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.filestore.metadata.origins import Cleared, LineKey, TableVersion
from lakelog.lineage.lines.lines import Line, Step
from lakelog.lineage.tables.edge_columns import FORK_OPERATION, TAKEN
from lakelog.warehouse.system_database import plain_times

Row = Mapping[str, Any]
_COLUMNS = ["sink_branch", "operation", "why", "sink_snapshot", "sink_commit", "sink_time"]
ALWAYS = 0  # before all times


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """When a table got a snapshot: it did not have it before one time, and has had it since another.

    None is an unknown time.
    """

    not_before: int = ALWAYS
    since: int | None = ALWAYS


OWN = Arrival()  # for a snapshot that was written to the table itself


@dataclass(slots=True, kw_only=True)
class Arrivals:
    """The snapshots of one table that branches have or may have brought. `chain` has those that it has now.

    `written` has those that are known to have been written to a branch. `brought` has pairs of numbers in the chain,
    with their times: the snapshots after the first number up to the second were brought. `doubtful` is the number after
    which a branch that no longer exists may have brought all snapshots. `committed` has the times of snapshots that the
    table wrote, as far as branches still have them.
    """

    chain: Mapping[int, str | None]
    written: set[TableVersion] = field(default_factory=set)
    brought: list[tuple[int, int, Arrival]] = field(default_factory=list)
    doubtful: int | None = None
    committed: dict[TableVersion, int] = field(default_factory=dict)

    @classmethod
    def of(cls, table: LineKey, edges: pa.Table, lines: Sequence[Line], chain: Mapping[int, str | None]) -> Arrivals:
        """The arrivals of one table, from all edges and lines."""
        found = cls(chain=chain)
        began: dict[str, list[Row]] = {}
        of_branches = pc.and_(pc.equal(edges["sink_uuid"], table.uuid), pc.is_valid(edges["sink_branch"]))
        for row in plain_times(edges.filter(of_branches).select(_COLUMNS)).to_pylist():
            if row["operation"] == FORK_OPERATION:
                began.setdefault(row["sink_branch"], []).append(row)
            else:
                found.written.add(TableVersion(snapshot_id=row["sink_snapshot"], commit=row["sink_commit"]))
        branches = [line for line in lines if line.key.uuid == table.uuid and line.key.branch is not None]
        for line in branches:
            found.written.update(step.version for step in line.steps if step.version != line.began)
        living = {line.key.branch for line in branches if line.began is not None}
        for branch, rows in began.items():
            found._take(sorted(rows, key=lambda row: row["sink_snapshot"]), is_living=branch in living)
        for line in branches:
            found._take_times(line, [row for rows in began.values() for row in rows])
        return found

    def find(self, version: TableVersion, *, is_in_chain: bool) -> Arrival:
        """When the table got a snapshot that it has or had."""
        number = version.snapshot_id
        brought = [one for first, last, one in self.brought if is_in_chain and first < number <= last]
        if brought:  # if by several, the first
            dated = [one for one in brought if one.since is not None]
            return min(dated or brought, key=lambda one: one.not_before)
        if version in self.written:
            return Arrival(since=None)
        is_doubtful = is_in_chain and self.doubtful is not None and number > self.doubtful
        return Arrival(since=None) if is_doubtful else OWN

    def _take(self, rows: Sequence[Row], *, is_living: bool) -> None:
        """Take in the beginnings of one branch, by their numbers."""
        before: int | None = None
        for row in rows:
            number, time = row["sink_snapshot"], row["sink_time"]
            if (row["why"] or "").startswith(TAKEN) and self.chain.get(number, "") == row["sink_commit"]:
                # Without an earlier beginning, some of the snapshots may be the table's own.
                not_before = ALWAYS if before is None else time
                arrival = Arrival(not_before=not_before, since=time if row["why"] == TAKEN else None)
                self.brought.append((before or 0, number, arrival))
            before = number
        if not is_living:
            first = rows[0]["sink_snapshot"]
            self.doubtful = first if self.doubtful is None else min(first, self.doubtful)

    def _take_times(self, line: Line, rows: Sequence[Row]) -> None:
        """Take in the times of snapshots that a branch has from its table and that no earlier branch had brought."""
        made = [row["sink_time"] for row in rows if _is_beginning(row, line)]
        if not made:
            return
        taken = [row for row in rows if (row["why"] or "").startswith(TAKEN)]
        before = (row for row in taken if row["why"] != TAKEN or row["sink_time"] <= min(made))
        last = max((row["sink_snapshot"] for row in before), default=0)
        for step in (*line.earlier, *line.steps):
            number = step.version.snapshot_id
            is_own = number > last and (self.doubtful is None or number <= self.doubtful)
            if is_own and step.is_living and step.version not in self.written:
                self.committed[step.version] = step.time_millis


def _is_beginning(row: Row, line: Line) -> bool:
    """Whether a row is the beginning of a branch that its table has not taken."""
    version = TableVersion(snapshot_id=row["sink_snapshot"], commit=row["sink_commit"])
    return row["sink_branch"] == line.key.branch and version == line.began and not row["why"]


@dataclass(slots=True)
class Node:
    """A snapshot of a line, and the nodes that it came after: more than one if it is not known which."""

    step: Step
    before: tuple[int, ...] = ()
    cleared: list[Cleared] = field(default_factory=list)
    is_known: bool = True  # it is in a chain, or edges were written to it; otherwise they name it only as a source
    may_restore: bool = False  # it was replaced, and it or an earlier one is unknown: an older state may be back
    follows_living: bool = False  # both it and the one before live in a line: no other one can be between


@dataclass(slots=True)
class LineNodes:
    """The nodes of one line: those that it has, oldest first, and those that it had. `began` is a branch's start."""

    line: Line
    chain: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    began: int | None = None
    arrivals: Arrivals | None = None  # for a table: what its branches have brought
    _at: dict[int, dict[str | None, int]] = field(default_factory=dict)

    def put(self, version: TableVersion, node: int) -> None:
        """Register a node under a snapshot."""
        self._at.setdefault(version.snapshot_id, {}).setdefault(version.commit, node)

    def find(self, version: TableVersion) -> int | None:
        """The node of a snapshot; without a commit, the first of several that were registered under its number."""
        commits = self._at.get(version.snapshot_id)
        if not commits:
            return None
        if version.commit is None:
            return next(iter(commits.values()))
        return commits.get(version.commit, commits.get(None))
