"""The changes of a table's log, folded into rows. Pure, and in columns throughout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from demo.flights import KEY, TABLE_SCHEMA
from lakelog.common.types import ROW_KIND_COLUMN, RowKind
from lakelog.logstore.kafka.records.reader import OFFSET_COLUMN

COUNT_COLUMN = "_count"
_IS_ADD = pl.col(ROW_KIND_COLUMN).is_in([RowKind.INSERT.value, RowKind.UPDATE_AFTER.value])


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedLog:
    """Changes folded in two ways.

    `rows` is what the last change of each key leaves. `sums` has each row with `_count`, its additions minus its
    retractions, where that is not 0: it is 1 for every row of the table and nothing else is there, if every old row in
    the log is exact.
    """

    change_count: int
    rows: pl.DataFrame
    sums: pl.DataFrame


def fold(changes: pl.DataFrame) -> FoldedLog:
    """Fold the changes of one bucket, which are in order: all changes of a key are in its bucket."""
    last = changes.unique(KEY, keep="last", maintain_order=False)
    sign = pl.when(_IS_ADD).then(1).otherwise(-1).sum().alias(COUNT_COLUMN)
    return FoldedLog(
        change_count=changes.height,
        rows=last.filter(_IS_ADD).select(TABLE_SCHEMA.names),
        sums=changes.group_by(TABLE_SCHEMA.names).agg(sign).filter(pl.col(COUNT_COLUMN) != 0),
    )


def until(changes: pl.DataFrame, end: int) -> pl.DataFrame:
    """The changes before the offset `end`."""
    return changes.filter(pl.col(OFFSET_COLUMN) < end)


def unite(buckets: Sequence[FoldedLog]) -> FoldedLog:
    """The fold of all buckets."""
    return FoldedLog(
        change_count=sum(bucket.change_count for bucket in buckets),
        rows=pl.concat([bucket.rows for bucket in buckets]),
        sums=pl.concat([bucket.sums for bucket in buckets]),
    )
