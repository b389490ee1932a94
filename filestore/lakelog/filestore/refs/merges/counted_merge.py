"""The three-way merge of rows without a key, as multisets: by how often each row was inserted or deleted. Pure.

Rows of such tables have no identity. A row that the branch has inserted is inserted, even if the table has got an equal
row; a row that it has deleted is deleted, and a row that both have deleted is deleted once. A conflict is a row that
both have deleted a different number of times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.merge.order import to_series
from lakelog.filestore.refs.merges.conflict_list import CONFLICT_COLUMNS
from lakelog.filestore.refs.merges.merge_rules import Rule
from lakelog.filestore.refs.merges.sides import BRANCH_DELTA, MAIN_DELTA
from lakelog.filestore.refs.states.row_equality import comparable

_ROW = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedMerge:
    """Rows to insert and to delete, each repeated as often as it is to be done, and the conflicts."""

    inserts: pa.Table
    deletes: pa.Table
    conflicts: pa.Table
    open_count: int


def merge_counted(part: pa.Table, fields: Sequence[DataField], rule: Rule) -> CountedMerge:
    """Merge the rows of a part. Equal rows are all in the same part."""
    names = [field.name for field in fields]
    found = net_counts(part, fields)
    ours, theirs = (found[name].to_numpy() for name in (BRANCH_DELTA, MAIN_DELTA))
    is_conflict = (ours < 0) & (theirs < 0) & (ours != theirs)
    change = np.where((ours < 0) & (theirs < 0), 0, ours)
    if rule is Rule.BRANCH:
        change = np.where(is_conflict, ours - theirs, change)
    rows = part.select(names)
    places = found[_ROW].to_numpy()
    repeated = [rows.take(pa.array(np.repeat(places, np.maximum(sign * change, 0)))) for sign in (1, -1)]
    conflicts = rows.take(pa.array(places[is_conflict]))
    for name, values in zip(CONFLICT_COLUMNS, (np.zeros_like(ours), theirs, ours), strict=False):
        conflicts = conflicts.append_column(f"\0{name}", pa.array(values[is_conflict]))
    conflicts = conflicts.append_column("decision", pa.array([str(rule)] * conflicts.num_rows, pa.string()))
    return CountedMerge(
        inserts=repeated[0],
        deletes=repeated[1],
        conflicts=conflicts.rename_columns(
            [*(f"key_{name}" if name in CONFLICT_COLUMNS else name for name in names), *CONFLICT_COLUMNS]
        ),
        open_count=int(is_conflict.sum()) if rule is Rule.FAIL else 0,
    )


def net_counts(part: pa.Table, fields: Sequence[DataField]) -> pl.DataFrame:
    """Each row that changed on the branch, once: its place in `part`, and by what number each side has changed it."""
    values = comparable(part, fields)
    frame = values.with_columns(
        pl.int_range(pl.len(), dtype=pl.UInt32).alias(_ROW),
        *(to_series(part.column(name)).alias(name) for name in (BRANCH_DELTA, MAIN_DELTA)),
    )
    summed = frame.group_by(values.columns, maintain_order=True).agg(
        pl.col(_ROW).first(), pl.col(BRANCH_DELTA).sum(), pl.col(MAIN_DELTA).sum()
    )
    return summed.filter(pl.col(BRANCH_DELTA) != 0)
