"""Makes a full changelog from the records of an upsert log and the rows before them. Pure.

Source: FLIP-188, "Changelog Mode"; Flink's ChangelogNormalize.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField, RowKind
from lakelog.filestore.merge import is_last_of_key, key_frame

_ROW = "row"

Indexes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What is known about keys: rows, with those of one key in order.

    For each row, `exists` says whether the key has this row from there on: False for a delete; `is_new` says whether
    the row is to be given as a change; the other rows are the state before.
    """

    rows: pa.Table
    exists: Flags
    is_new: Flags

    @classmethod
    def of(cls, rows: pa.Table, *, is_new: bool) -> History:
        """A history of existing rows with different keys."""
        return cls(rows=rows, exists=np.ones(rows.num_rows, np.bool_), is_new=np.full(rows.num_rows, is_new))

    def then(self, later: History) -> History:
        """This history, followed by a later one."""
        return History(
            rows=pa.concat_tables([self.rows.select(later.rows.column_names).cast(later.rows.schema), later.rows]),
            exists=np.concatenate([self.exists, later.exists]),
            is_new=np.concatenate([self.is_new, later.is_new]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FullChanges:
    """Changes in key order; those of one key in their order, with -U directly before its +U.

    Change i is the row `places[i]` of `rows` with the row kind `kinds[i]`.
    """

    rows: pa.Table
    places: Indexes
    kinds: npt.NDArray[np.int8]

    def pieces(self, batch_rows: int) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
        """The changes in batches of about `batch_rows` rows, with their kinds (int8); no pair is split."""
        start = 0
        while start < len(self.places):
            end = min(start + batch_rows, len(self.places))
            if self.kinds[end - 1] == RowKind.UPDATE_BEFORE:
                end += 1
            rows = self.rows.take(pa.array(self.places[start:end])).combine_chunks()
            for batch in rows.to_batches():
                yield batch, pa.array(self.kinds[start:end])
            start = end


def full_changes(
    history: History,
    *,
    key_fields: Sequence[DataField],
    shown: Sequence[DataField],
    passes: Callable[[pa.Table], Flags] | None = None,
) -> FullChanges:
    """The changes that the new rows of a history make.

    An update that does not change the columns `shown` is no change. Rows that do not pass `passes` do not exist.
    """
    rows = history.rows.combine_chunks()  # rows are taken from it more than once
    exists = history.exists if passes is None else history.exists & passes(rows)
    keys = key_frame(rows, key_fields)
    ordered = keys.with_row_index(_ROW).sort(keys.columns, maintain_order=True)
    after = ordered[_ROW].to_numpy().astype(np.int64)
    before = np.roll(after, 1)
    is_first = np.roll(is_last_of_key(ordered, keys.columns).to_numpy(), 1)  # the row after a key's last row
    had, has = exists[before] & ~is_first, exists[after]
    is_change = history.is_new[after]
    pairs = np.flatnonzero(is_change & had & has)
    is_change[pairs[_are_equal(rows, before[pairs], after[pairs], shown)]] = False
    kinds = np.stack(
        [
            np.where(has, int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE)),
            np.where(had, int(RowKind.UPDATE_AFTER), int(RowKind.INSERT)),
        ],
        axis=1,
    ).astype(np.int8)
    stays = np.stack([is_change & had, is_change & has], axis=1)
    return FullChanges(rows=rows, places=np.stack([before, after], axis=1)[stays], kinds=kinds[stays])


def _are_equal(rows: pa.Table, left: Indexes, right: Indexes, fields: Sequence[DataField]) -> Flags:
    """For each pair of rows, whether the columns are equal: nulls and NaN equal themselves, 0.0 differs from -0.0."""
    equal = np.ones(len(left), np.bool_)
    if not len(left):
        return equal
    values = key_frame(rows, fields)
    for column in values.get_columns():
        one, other = column.gather(pl.Series(left)), column.gather(pl.Series(right))
        equal &= one.eq_missing(other).to_numpy()
    return equal
