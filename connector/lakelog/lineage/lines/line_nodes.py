"""The snapshots of a line as nodes: a node is a commit, which a branch and its table may both have."""

from __future__ import annotations

from dataclasses import dataclass, field

from lakelog.filestore.metadata.origins import Cleared, TableVersion
from lakelog.lineage.lines.arrivals import Arrivals
from lakelog.lineage.lines.lines import Line, Step


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
