"""The line of a table as its versions need it: for each snapshot, what it does to the rows, and its batches.

Expired snapshots are in the line as far as edges name them. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.filestore.metadata.origins import LineKey, RowStep, TableVersion
from lakelog.filestore.read import Visible


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(RowStep):
    """One snapshot of a line. `is_whole` is False while it holds a partial batch.

    `in_batch` is what a batch read of it shows, `in_stream` what streams up to it have; None means unknown.
    """

    is_whole: bool = True
    is_living: bool = True
    in_batch: Visible | None = None
    in_stream: Visible | None = None

    @property
    def is_of_edges(self) -> bool:
        """Whether edges alone name it: it may have been rolled back, and its number given to another commit."""
        return not self.is_living and self.row_sources is None and bool(self.batches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The known snapshots of a line, oldest first. `name` is the table's, `db.t` or `db.t$branch_b`.

    The first step of a branch is the snapshot of its table that it `began` at. `origins` has those of the branches that
    the table has: readers of other branches, which were merged, do not read on. `earlier` has the snapshots up to the
    beginning that the branch has but its table no longer has, if they were asked for.
    """

    key: LineKey
    name: str
    steps: Sequence[Step]
    began: TableVersion | None = None
    origins: frozenset[str] = frozenset()
    earlier: Sequence[Step] = ()

    def has_brought(self) -> bool:
        """Whether merged branches have brought readers."""
        return any(step.has_brought for step in self.steps)
