"""Sorted runs side by side, a key range at a time: memory is bounded by a budget, not by the size of the bucket."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.merge.deduplicate import Slice
from lakelog.filestore.merge.order import OrderedKey, key_at, key_frame, rows_up_to
from lakelog.filestore.metadata.levels import SortedRun


@dataclass(slots=True)
class RunCursor:
    """One run of a level, read piece by piece in key order.

    `tables` gives the pieces; `rows_left` counts the rows that they still hold.
    """

    tables: Iterator[pa.Table]
    key_fields: Sequence[DataField]
    rows_left: int
    level: int = 0
    _rows: pa.Table | None = None
    _keys: pl.DataFrame | None = None

    def fill(self) -> bool:
        """Load the next piece when the last one is used up. False at the end of the run."""
        while self._rows is None:
            rows = next(self.tables, None)
            if rows is None:
                return False
            if rows.num_rows:
                self.rows_left -= rows.num_rows
                self._rows, self._keys = rows, key_frame(rows, self.key_fields).rechunk()  # searched for each range
        return True

    def last_key(self) -> OrderedKey:
        """The largest loaded key."""
        assert self._keys is not None
        return key_at(self._keys, self._keys.height - 1)

    def take_up_to(self, key: OrderedKey | None) -> Slice | None:
        """The loaded rows up to `key`, or all of them, which are then used up; None when there are none."""
        assert self._keys is not None
        assert self._rows is not None
        keys, rows = self._keys, self._rows
        count = keys.height if key is None else rows_up_to(keys, key)
        self._rows = rows.slice(count) if count < keys.height else None
        self._keys = keys.slice(count) if count < keys.height else None
        return Slice(keys=keys.head(count), rows=rows.slice(0, count), level=self.level) if count else None


def aligned_slices(cursors: Sequence[RunCursor]) -> Iterator[list[Slice]]:
    """Slices of the runs, in the order of the cursors, that hold every row of their key range; ranges rise.

    A range ends at the smallest last key of the loaded pieces of runs with more pieces. A list is emptied when the
    next one is requested, so that its rows are freed before others are read.
    """
    open_cursors = list(cursors)
    while True:
        open_cursors = [cursor for cursor in open_cursors if cursor.fill()]
        if not open_cursors:
            return
        bound = min((cursor.last_key() for cursor in open_cursors if cursor.rows_left > 0), default=None)
        slices = [part for cursor in open_cursors if (part := cursor.take_up_to(bound)) is not None]
        yield slices
        slices.clear()


def are_ranked(runs: Sequence[SortedRun]) -> bool:
    """True when every row of a run is younger than every row of the runs after it, by their sequence numbers.

    It is False after two writers have used the same numbers, or when their files were compacted in another order.
    """
    return all(younger.min_sequence_number > older.max_sequence_number for younger, older in itertools.pairwise(runs))
