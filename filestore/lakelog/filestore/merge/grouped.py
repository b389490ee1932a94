"""Rows of several runs grouped by key, oldest first, for merge engines other than `deduplicate`.

Every merge is a choice of rows by index, or an aggregate of a column over the rows of a key, so no engine processes
rows one by one. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField, RowKind
from lakelog.filestore.merge.deduplicate import Slice, are_adds
from lakelog.filestore.merge.order import is_last_of_key, key_frame, to_series
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND

Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]
_NONE = -1
_ROW = "row"
_GROUP = "group"


@dataclass(frozen=True, kw_only=True)
class GroupedRows:
    """Rows sorted by key and age. `starts` are the rows where a key begins. All columns, sequence number and kind."""

    rows: pa.Table
    starts: Indices

    @cached_property
    def adds(self) -> Flags:
        """For each row, whether it exists after its change."""
        return are_adds(to_series(self.rows.column(VALUE_KIND))).to_numpy()

    @cached_property
    def deletes(self) -> Flags:
        """For each row, whether it is a -D."""
        return np.asarray(to_series(self.rows.column(VALUE_KIND)).to_numpy() == int(RowKind.DELETE))

    @property
    def ends(self) -> Indices:
        """The last row of each key."""
        return np.append(self.starts[1:], self.rows.num_rows) - 1

    @cached_property
    def groups(self) -> Indices:
        """For each row, the number of its key."""
        return np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, self.rows.num_rows)))

    def kept(self, keeps: Flags) -> GroupedRows:
        """The rows where `keeps` is true; keys without such a row are left out."""
        if keeps.all():
            return self
        groups = self.groups[keeps]
        starts = np.flatnonzero(np.append(True, groups[1:] != groups[:-1])) if len(groups) else np.zeros(0, np.int64)
        return GroupedRows(rows=self.rows.filter(pa.array(keeps)), starts=starts)

    def last(self, where: Flags) -> Indices:
        """The last row of each key that meets a condition, or -1."""
        positions = np.where(where, np.arange(self.rows.num_rows), _NONE)
        return np.maximum.reduceat(positions, self.starts)

    def first(self, where: Flags) -> Indices:
        """The first row of each key that meets a condition, or -1."""
        count = self.rows.num_rows
        positions = np.minimum.reduceat(np.where(where, np.arange(count), count), self.starts)
        return np.where(positions == count, _NONE, positions)

    def since(self, rows: Indices) -> Flags:
        """For each row, whether it is the given row of its key or a younger one; all rows of a key without one."""
        return np.arange(self.rows.num_rows) >= rows[self.groups]

    def valid(self, name: str) -> Flags:
        """For each row, whether a column is not null."""
        return np.asarray(self.rows.column(name).is_valid().to_numpy())

    def gather(self, name: str, rows: Indices) -> pa.ChunkedArray:
        """The values of a column at rows; null at -1."""
        return self.rows.column(name).take(pa.array(rows, mask=rows < 0))

    def by_columns(self, fields: Sequence[DataField], *, also: Flags) -> tuple[GroupedRows, Flags]:
        """The rows of each key sorted by columns, nulls first, then by age; and which of the sorted rows count.

        A row counts if one of the columns is not null, and `also` is true.
        """
        keys = key_frame(self.rows, fields)
        frame = keys.with_columns(pl.Series(_GROUP, self.groups)).with_row_index(_ROW)
        order = frame.sort(_GROUP, *keys.columns, maintain_order=True)[_ROW].to_arrow()
        ordered = GroupedRows(rows=self.rows.take(order), starts=self.starts)
        counts = np.logical_or.reduce([ordered.valid(field.name) for field in fields])
        return ordered, counts | also[order.to_numpy()]


def grouped(
    slices: Sequence[Slice], sequence_fields: Sequence[DataField], *, is_descending: bool = False
) -> GroupedRows:
    """The rows of slices (youngest slice first) by key; within a key by the sequence fields, then by sequence number.

    A null in a sequence field is older than every value; the larger of two values is younger, or with `is_descending`
    the smaller one. For equal numbers an add is younger than a delete, and a row of a younger slice is younger than one
    of an older slice. Source: Paimon, `UserDefinedSeqComparator`, whose nulls come first in both directions.
    """
    oldest_first = list(reversed(slices))
    rows = pa.concat_tables([part.rows for part in oldest_first])
    frame = pl.concat([part.keys for part in oldest_first])
    keys = frame.columns
    frame = frame.with_row_index(_ROW)
    user = key_frame(rows, sequence_fields).rename(lambda name: f"user_{name}") if sequence_fields else pl.DataFrame()
    frame = frame.hstack(user).with_columns(
        to_series(rows.column(SEQUENCE_NUMBER)).alias("sequence"),
        are_adds(to_series(rows.column(VALUE_KIND))).alias("is_add"),
    )
    columns = [*keys, *user.columns, "sequence", "is_add"]
    descending = [is_descending and name in user.columns for name in columns]
    ordered = frame.sort(columns, descending=descending, nulls_last=False, maintain_order=True)
    ends = np.flatnonzero(is_last_of_key(ordered, keys).to_numpy())
    return GroupedRows(rows=rows.take(ordered[_ROW].to_arrow()), starts=np.append(0, ends[:-1] + 1))
