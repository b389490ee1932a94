"""Reads sorted runs side by side, one key range at a time: a budget bounds the memory, not the bucket."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.merge.deduplicate import Slice
from lakelog.filestore.merge.order import OrderedKey, key_at, key_frame, rows_up_to
from lakelog.filestore.metadata.manifests.levels import SortedRun


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows in key order, with their last key and the number of bytes that they keep in memory."""

    rows: pa.Table
    keys: pl.DataFrame
    last_key: OrderedKey
    held_bytes: int


@dataclass(slots=True)
class RunCursor:
    """One run of a level, read piece by piece in key order.

    `tables` gives the pieces; `rows_left` counts down the rows that they still hold.
    """

    tables: Iterator[pa.Table]
    key_fields: Sequence[DataField]
    rows_left: int
    level: int = 0
    _pieces: deque[_Piece] = field(default_factory=deque)

    @property
    def held_bytes(self) -> int:
        """Bytes of the loaded pieces; a piece that is handed out in part counts as a whole."""
        return sum(piece.held_bytes for piece in self._pieces)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is loaded."""
        return not self._pieces

    def load(self) -> int:
        """Load one more piece, and return its bytes: 0 at the end of the run."""
        for rows in self.tables:
            if rows.num_rows:
                self.rows_left -= rows.num_rows
                keys = key_frame(rows, self.key_fields).rechunk()  # to be searched for a bound
                self._pieces.append(_Piece(rows, keys, key_at(keys, keys.height - 1), rows.nbytes))
                return self._pieces[-1].held_bytes
        self.rows_left = 0
        return 0

    def last_key(self) -> OrderedKey:
        """The largest loaded key."""
        return self._pieces[-1].last_key

    def last_bytes(self) -> int:
        """Bytes of the piece that was loaded last."""
        return self._pieces[-1].held_bytes

    def take_up_to(self, key: OrderedKey | None) -> Slice | None:
        """Hand out the loaded rows at or before `key`, or all of them; None when there are none."""
        taken: list[_Piece] = []
        while self._pieces and (key is None or self._pieces[0].last_key <= key):
            taken.append(self._pieces.popleft())
        if self._pieces and key is not None and (count := rows_up_to(self._pieces[0].keys, key)):
            piece = self._pieces[0]
            taken.append(replace(piece, rows=piece.rows.slice(0, count), keys=piece.keys.head(count)))
            self._pieces[0] = replace(piece, rows=piece.rows.slice(count), keys=piece.keys.slice(count))
        if not taken:
            return None
        if len(taken) == 1:
            return Slice(keys=taken[0].keys, rows=taken[0].rows, level=self.level)
        keys = pl.concat([piece.keys for piece in taken], rechunk=False)
        return Slice(keys=keys, rows=pa.concat_tables([piece.rows for piece in taken]), level=self.level)


def aligned_slices(cursors: Sequence[RunCursor], budget_bytes: int) -> Iterator[list[Slice]]:
    """Slices of the runs, in the order of the cursors, with all rows of their key range; ranges ascend.

    A piece of each run is loaded, then more of the run that is behind the others, as long as all loaded pieces stay
    below `budget_bytes`. A range ends at the smallest last key of the runs that have more rows after their loaded
    pieces: so loading the run that is behind makes ranges as large as the budget allows, whatever keys the runs hold. A
    list is emptied when the next one is requested, so that its rows are freed before others are read.
    """
    open_cursors = list(cursors)
    while True:
        for cursor in open_cursors:
            if cursor.is_empty:
                cursor.load()
        open_cursors = [cursor for cursor in open_cursors if not cursor.is_empty]
        if not open_cursors:
            return
        bound = _load(open_cursors, budget_bytes)
        slices = [part for cursor in open_cursors if (part := cursor.take_up_to(bound)) is not None]
        yield slices
        slices.clear()


def _load(cursors: Sequence[RunCursor], budget_bytes: int) -> OrderedKey | None:
    """Load what the budget allows, and return the key up to which all rows are loaded; None if all are."""
    left = budget_bytes - sum(cursor.held_bytes for cursor in cursors)
    behind = [(cursor.last_key(), index) for index, cursor in enumerate(cursors) if cursor.rows_left > 0]
    heapq.heapify(behind)
    while behind:
        key, index = behind[0]
        cursor = cursors[index]
        if cursor.last_bytes() > left:  # the next one is about as large
            return key
        left -= cursor.load()
        if cursor.rows_left > 0:
            heapq.heapreplace(behind, (cursor.last_key(), index))
        else:
            heapq.heappop(behind)
    return None


def piece_sizes(wanted: Sequence[int], budget_bytes: int) -> list[int]:
    """The sizes of the pieces in which runs of `wanted` bytes each are loaded. Pure.

    Runs that fit into the budget together are loaded completely. Else one piece of each takes half of the budget, so
    that there is room for more of the run that is behind. Sizes that grow as the square roots of the runs make the
    fewest pieces.
    """
    if sum(wanted) <= budget_bytes:
        return [max(wish, 1) for wish in wanted]
    left = budget_bytes // 2
    sizes = [0] * len(wanted)
    roots = [math.sqrt(wish) for wish in wanted]
    total = sum(roots)
    for index in sorted(range(len(wanted)), key=lambda index: wanted[index]):
        fair = left * roots[index] / total if total > 0 else 0
        sizes[index] = max(min(wanted[index], int(fair)), 1)
        left -= sizes[index]
        total -= roots[index]
    return sizes


def are_ranked(runs: Sequence[SortedRun]) -> bool:
    """True if every row of a run is younger than every row of the runs after it, by their sequence numbers.

    It is False after two writers have used the same numbers, or if their files were compacted in another order.
    """
    return all(younger.min_sequence_number > older.max_sequence_number for younger, older in itertools.pairwise(runs))
