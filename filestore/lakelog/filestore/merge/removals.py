"""Rows of `partial-update` in the order of a sequence group: deletes of whole rows, and late rows. Pure.

Source: Paimon, `PartialUpdateMergeFunction` (`partial-update.remove-record-on-sequence-group`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from lakelog.common.types import DataField
from lakelog.filestore.merge.grouped import Flags, GroupedRows, Indices
from lakelog.filestore.merge.order import is_last_of_key, key_frame

_ROW = "row"


def removing(given: GroupedRows, groups: Sequence[Sequence[DataField]]) -> Flags:
    """For each row, whether it removes the row of its key.

    It does if it is a -D that, in some group, is at least as new as all rows before it.

    `groups` are the sequence fields of the groups that remove. After a removal only its own sequence fields count, so
    that a later delete may remove the row by another group. So this is repeated until no more removals are found: once
    more than the longest chain of removals that depend on an earlier one.
    """
    ranks = [_ranks(given, fields) for fields in groups]
    begins = np.zeros(given.rows.num_rows, np.bool_)
    begins[given.starts] = True
    removes = np.zeros_like(begins)
    while True:
        found = np.zeros_like(begins)
        for rank in ranks:
            found |= given.deletes & (rank > 0) & (rank >= _largest_before(rank, begins, removes))
        if (found == removes).all():
            return removes
        removes = found


def late_rows(given: GroupedRows, fields: Sequence[DataField]) -> Flags:
    """For each row, whether its sequence fields are smaller than those of a row of its key before it."""
    ranks = _ranks(given, fields)
    begins = np.zeros(given.rows.num_rows, np.bool_)
    begins[given.starts] = True
    return ranks < _largest_before(ranks, begins, np.zeros_like(begins))


def _ranks(given: GroupedRows, fields: Sequence[DataField]) -> Indices:
    """For each row, the rank of its values in the order of the columns, from 1 on; 0 if all of them are null."""
    keys = key_frame(given.rows, fields)
    ordered = keys.with_row_index(_ROW).sort(keys.columns, nulls_last=False, maintain_order=True)
    ends = is_last_of_key(ordered, keys.columns).to_numpy()
    ranks = np.zeros(given.rows.num_rows, np.int64)
    ranks[ordered[_ROW].to_numpy()] = np.cumsum(np.append(0, ends[:-1])) + 1
    is_null = keys.select(pl.all_horizontal(pl.all().is_null())).to_series().to_numpy()
    ranks[is_null] = 0
    return ranks


def _largest_before(ranks: Indices, begins: Flags, removes: Flags) -> Indices:
    """For each row, the largest rank of the rows of its key before it, since the last removal; 0 for the first row."""
    part = np.cumsum(begins | removes)
    step = int(ranks.max(initial=0)) + 1
    largest = np.maximum.accumulate(part * step + ranks) - part * step  # each part starts from its own ranks
    return np.where(begins, 0, np.append(0, largest[:-1]))
