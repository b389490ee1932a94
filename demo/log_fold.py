"""The changes of a table's log, folded into rows. Pure, and in columns throughout."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from demo.flights import KEY, TABLE_SCHEMA
from lakelog.common.types import ROW_KIND_COLUMN, RowKind
from lakelog.logstore.reader import OFFSET_COLUMN

BUCKET_COLUMN = "_bucket"
COUNT_COLUMN = "_count"
_IS_ADD = pl.col(ROW_KIND_COLUMN).is_in([RowKind.INSERT.value, RowKind.UPDATE_AFTER.value])


def until(changes: pl.DataFrame, ends: Mapping[int, int]) -> pl.DataFrame:
    """The changes before `ends`: what a snapshot with these log offsets holds."""
    end = pl.col(BUCKET_COLUMN).replace_strict(dict(ends), default=0, return_dtype=pl.Int64)
    return changes.filter(pl.col(OFFSET_COLUMN) < end)


def fold_by_key(changes: pl.DataFrame) -> pl.DataFrame:
    """The rows that the last change of each key leaves. A key has one bucket, whose changes are in order."""
    last = changes.unique(KEY, keep="last", maintain_order=False)
    return last.filter(_IS_ADD).select(TABLE_SCHEMA.names)


def fold_by_sum(changes: pl.DataFrame) -> pl.DataFrame:
    """Each row with `_count`, its additions minus its retractions, where that is not 0.

    It is 1 for every row of the table and nothing else is there, if every old row in the log is exact.
    """
    sign = pl.when(_IS_ADD).then(1).otherwise(-1).sum().alias(COUNT_COLUMN)
    return changes.group_by(TABLE_SCHEMA.names).agg(sign).filter(pl.col(COUNT_COLUMN) != 0)
