"""Since when a line has had its living snapshots, as far as the beginnings of branches show it.

For a snapshot that was written to the line, it is the time of the commit. A line gets other snapshots later: a branch
gets those of its table up to its beginning when it is created; a table gets those of a branch, up to the snapshot that
it takes, when it takes the branch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.lineage.tables.forking import FORK_OPERATION, TAKEN, TAKEN_SOMETIME

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
UNKNOWN = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class LineTimes:
    """The lines that have got snapshots of another line, up to which number, and when: UNKNOWN is after all times."""

    lines: Ints
    numbers: Ints
    times: Ints

    @classmethod
    def of(cls, edges: pa.Table, *, sinks: Ints, sources: Ints, numbers: Ints, times: Ints) -> LineTimes:
        """The times that edges give, with the numbers of their lines and of the snapshots that they were written to."""
        begins, takes = beginnings(edges)
        when = np.where(truths(pc.equal(edges["why"], TAKEN_SOMETIME)), UNKNOWN, times)
        return cls(
            lines=np.concatenate([sinks[begins], sources[takes]]),
            numbers=np.concatenate([numbers[begins], numbers[takes]]),
            times=np.concatenate([when[begins], when[takes]]),
        )

    def since(self, line: int, commits: Mapping[tuple[int, int], int]) -> dict[tuple[int, int], int]:
        """Since when, at the latest, a line has had snapshots, by number and commit. `commits` has their own times."""
        of_line = self.lines == line
        numbers, times = self.numbers[of_line], self.times[of_line]
        return {one: max([time, *times[numbers >= one[0]].tolist()]) for one, time in commits.items()}


def beginnings(edges: pa.Table) -> tuple[Mask, Mask]:
    """Which edges are beginnings of branches, and which of these are of branches that their tables have taken."""
    begins = truths(pc.equal(edges["operation"], FORK_OPERATION))
    return begins, begins & truths(pc.starts_with(edges["why"], TAKEN))


def truths(column: pa.ChunkedArray) -> Mask:
    """A boolean column, with null as False."""
    return np.asarray(pc.fill_null(column, False).to_numpy(), dtype=np.bool_)
