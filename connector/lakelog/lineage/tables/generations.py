"""Generations of a line: after a rollback, other commits reuse the numbers of snapshots.

A reader of a generation can read its snapshots, and those of earlier generations below the number where it began. A
generation is recognised by a number that edges name with two commits, or that was written after a larger one.

The snapshots that live in the line are its last generation, wherever they came from: a branch that replaces its table
brings snapshots that may be older than the replaced ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from lakelog.lineage.tables.edge_columns import NONE, Ints, Mask

LivingTimes = Mapping[tuple[int, int], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generations:
    """The generations of one line: the number and the time at which each began; `born` has that of each (id, commit).

    `living` has the living snapshots from the number on where the last generation began: below that number, its readers
    can read what readers of the `parent` can.
    """

    first_ids: Sequence[int]
    times: Sequence[int]
    born: Mapping[tuple[int, int], int]
    living: Set[tuple[int, int]] = frozenset()
    parent: int | None = None

    @property
    def count(self) -> int:
        """The number of generations."""
        return len(self.first_ids)

    def of(self, version: tuple[int, int], time: int | None) -> int:
        """The generation of an id and a commit; if edges do not name them, that of the time, by default the last."""
        if version in self.living:
            return self.count - 1
        found = self.born.get(version)
        if found is not None:
            return found
        if time is None:
            is_below = version[0] < self.first_ids[-1]
            return self.parent if self.parent is not None and is_below else self.count - 1
        return max(int(np.searchsorted(self.times[: self._earlier], time, side="right")) - 1, 0)

    def readable_in(self, version: tuple[int, int], time: int | None) -> list[int]:
        """The generations whose readers can read a snapshot."""
        number, generation = version[0], self.of(version, time)
        found = self._readable_in(number, generation)
        born = self.born.get(version, generation)
        return found if born == generation else [*self._readable_in(number, born), *found]

    def with_living(self, living: Mapping[int, int]) -> Generations:
        """These generations, with the living snapshots of the line, by number, as the last one."""
        again = {number for number, commit in self.born if living.get(number, commit) != commit}
        if not living or not (again or self.count > 1):
            return self
        first = max(min(living), min([*again, *self.first_ids[1:]]))
        named = [self.born[version] for version in sorted(living.items()) if version in self.born]
        return replace(
            self,
            first_ids=[*self.first_ids, first],
            times=[*self.times, max(self.times)],
            living=frozenset(version for version in living.items() if version[0] >= first),
            parent=named[0] if named else self.count - 1,
        )

    def _readable_in(self, snapshot_id: int, generation: int) -> list[int]:
        found = [generation]
        for later in range(generation + 1, self._earlier):
            if self.first_ids[later] <= snapshot_id:
                break
            found.append(later)
        if self.parent in found and snapshot_id < self.first_ids[-1]:
            found.append(self.count - 1)
        return found

    @property
    def _earlier(self) -> int:
        """The number of generations without that of the living snapshots."""
        return self.count if self.parent is None else self.count - 1


def generations_of(
    lines: Ints,
    ids: Ints,
    commits: Ints,
    times: Ints,
    *,
    written: Mask,
    brought: Mask,
    living: Callable[[int], LivingTimes],
) -> dict[int, Generations]:
    """The generations of the lines that have several. -1 means an unknown commit.

    `written` says where the time is that of the commit, not that of a reader; `brought` says which commits another line
    has brought into this one: their times say nothing about this line. `living` gives the snapshots that live in a
    line, by number and commit, with the times since when, at the latest, the line has them. It is not asked for lines
    without generations.
    """
    known = commits != NONE
    named, _ = unique_rows(lines[known], ids[known], commits[known])
    is_again = (named[0][1:] == named[0][:-1]) & (named[1][1:] == named[1][:-1])
    found = {}
    order = np.flatnonzero(known & written)
    order = order[np.lexsort((ids[order], times[order], lines[order]))]
    is_back = (lines[order][1:] == lines[order][:-1]) & (ids[order][1:] < ids[order][:-1])
    for line in np.union1d(named[0][1:][is_again], lines[order][1:][is_back]):
        of_line = known & ~brought & (lines == line)
        lives = living(int(line))
        since = _since(ids[of_line], commits[of_line], times[of_line], lives)
        one = _generations(ids[of_line], commits[of_line], since, written[of_line])
        found[int(line)] = one.with_living(dict(lives.keys()))
    return found


def _since(ids: Ints, commits: Ints, times: Ints, living: LivingTimes) -> Ints:
    """Since when snapshots are known to exist: a living one may be older than its first read."""
    versions = zip(ids.tolist(), commits.tolist(), strict=True)
    found = [min(time, living.get(one, time)) for one, time in zip(versions, times.tolist(), strict=True)]
    return np.array(found, dtype=np.int64)


def _generations(ids: Ints, commits: Ints, times: Ints, written: Mask) -> Generations:
    current: dict[int, int] = {}
    born: dict[tuple[int, int], int] = {}
    first_ids, first_times = [NONE], [NONE]
    for at in np.lexsort((ids, times)):
        number, commit = int(ids[at]), int(commits[at])
        if (number, commit) in born:
            continue
        is_back = bool(written[at]) and max(current, default=number) > number
        if current.get(number, commit) != commit or is_back:
            first_ids.append(number)
            first_times.append(int(times[at]))
            current = {one: of for one, of in current.items() if one < number}
        current[number] = commit
        born[number, commit] = _first_with(number, first_ids)
    return Generations(first_ids=first_ids, times=first_times, born=born)


def _first_with(number: int, first_ids: Sequence[int]) -> int:
    """The generation of a snapshot of the last one: a generation that begins above its number has it from earlier.

    A snapshot that was written begins a generation if it must. A snapshot that was only read may be older.
    """
    found = len(first_ids) - 1
    while number < first_ids[found]:
        found -= 1
    return found


class Copies:
    """Nodes, sorted by line and generation; in lines with generations, one copy per generation that can read it."""

    def __init__(self, nodes: tuple[Ints, ...], generations: Mapping[int, Generations]) -> None:
        lines, ids, commits = nodes
        is_one = ~np.isin(lines, np.array(list(generations), dtype=np.int64))
        copies = [
            (int(lines[node]), int(ids[node]), node, one)
            for node in np.flatnonzero(~is_one)
            for one in generations[int(lines[node])].readable_in((int(ids[node]), int(commits[node])), None)
        ]
        columns = np.array(copies, dtype=np.int64).reshape(-1, 4).T
        numbers = np.arange(len(lines), dtype=np.int64)
        found = [
            np.concatenate([column[is_one], copied])
            for column, copied in zip((lines, ids, numbers), columns, strict=False)
        ]
        generation = np.concatenate([np.zeros(int(is_one.sum()), dtype=np.int64), columns[3]])
        order = np.lexsort((found[1], generation, found[0]))
        self.lines, self.ids, self.nodes = (column[order] for column in found)
        self.generation: Ints = generation[order]


def unique_rows(*columns: Ints) -> tuple[tuple[Ints, ...], Ints]:
    """The distinct rows of columns, in order, and for each row the number of its distinct row."""
    order = np.lexsort(columns[::-1])
    rows = [column[order] for column in columns]
    if not len(order):
        return tuple(rows), order
    is_new = np.concatenate([[True], np.any([row[1:] != row[:-1] for row in rows], axis=0)])
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(is_new) - 1
    return tuple(row[is_new] for row in rows), numbers
