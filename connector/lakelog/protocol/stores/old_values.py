"""Tables that keep the last row of each key, with a log of all changes: how a batch changes the old rows. Pure.

A writer's statements about old rows are not used: a -U or -D says only that its key no longer has a row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.common.types import RowKind
from lakelog.filestore.merge import are_adds, key_frame, to_series, without_deletes
from lakelog.filestore.options import CHANGELOG_ROW_DEDUPLICATE
from lakelog.filestore.schema import TableSchema
from lakelog.protocol.stores.logged_rows import ResolvedRows, StayingRows

_ROW = "row"
Flags = npt.NDArray[np.bool_]


def compared_columns(schema: TableSchema) -> tuple[str, ...] | None:
    """The columns by which an update that changes nothing is found and left out; None if it counts as a change."""
    if not CHANGELOG_ROW_DEDUPLICATE.of(schema.options):
        return None
    return tuple(name for name in schema.field_names if name not in schema.primary_keys)


def changed_rows(schema: TableSchema, newest: StayingRows, old: pa.Table | None) -> ResolvedRows:
    """The changes that `newest`, the last row of each key in key order, makes to `old`, the rows of these keys.

    `old` has each key once, in any order, with row kinds; None means no rows. See the table in
    docs/rfcs/0025-old-values-in-the-log.md.
    """
    before = newest.rows.slice(0, 0) if old is None else without_deletes(old).select(newest.rows.column_names)
    before = before.cast(newest.rows.schema)
    old_at = _positions_of(key_frame(newest.rows, schema.key_fields), key_frame(before, schema.key_fields))
    is_add, is_old = are_adds(to_series(newest.kinds)).to_numpy(), old_at >= 0
    updates, inserts, deletes = is_add & is_old, is_add & ~is_old, ~is_add & is_old
    compared = compared_columns(schema)
    if compared is not None:
        updates = updates & ~_equal(before, newest.rows, old_at, updates, compared)
    changes = updates | inserts | deletes
    ends = np.cumsum(np.where(updates, 2, changes))
    first = (ends - np.where(updates, 2, 1))[changes]
    new_at = before.num_rows + np.arange(len(old_at))
    order = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
    kinds, positions = np.empty(len(order), np.int8), np.empty(len(order), np.uint32)
    order[first] = np.where(inserts, new_at, old_at)[changes]
    kinds[first] = np.where(updates, RowKind.UPDATE_BEFORE, np.where(inserts, RowKind.INSERT, RowKind.DELETE))[changes]
    positions[first] = newest.positions[changes]
    last = ends[updates] - 1
    order[last], kinds[last], positions[last] = new_at[updates], RowKind.UPDATE_AFTER, newest.positions[updates]
    return ResolvedRows(
        changes=pa.concat_tables([before, newest.rows]).take(pa.array(order)),
        kinds=pa.array(kinds),
        positions=positions,
        staying=newest if changes.all() else _filtered(newest, changes),
    )


def _positions_of(keys: pl.DataFrame, others: pl.DataFrame) -> npt.NDArray[np.int64]:
    """For each key, its row in `others`, or -1."""
    numbered = others.with_row_index(_ROW)
    found = keys.join(numbered, on=keys.columns, how="left", nulls_equal=True, maintain_order="left")[_ROW]
    return found.cast(pl.Int64).fill_null(-1).to_numpy()


def _equal(
    before: pa.Table, after: pa.Table, old_at: npt.NDArray[np.int64], pairs: Flags, names: Sequence[str]
) -> Flags:
    """For each row of `after` in `pairs`, whether its columns `names` equal those of its old row."""
    places = np.flatnonzero(pairs)
    equal = np.ones(len(places), np.bool_)
    for name in names:
        old, new = to_series(before.column(name)), to_series(after.column(name))
        equal &= new.gather(places).eq_missing(old.gather(old_at[places])).to_numpy()
    found = np.zeros(len(pairs), np.bool_)
    found[places[equal]] = True
    return found


def _filtered(newest: StayingRows, kept: Flags) -> StayingRows:
    mask = pa.array(kept)
    return StayingRows(
        rows=newest.rows.filter(mask),
        kinds=newest.kinds.filter(mask),
        positions=newest.positions[kept],
        given_count=newest.given_count,
    )
