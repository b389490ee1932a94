"""The difference of two states of rows: by primary key, or without one by how often each row is there. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.common.types import RowKind
from lakelog.filestore.merge.order import is_last_of_key, key_frame
from lakelog.filestore.refs.row_equality import are_equal
from lakelog.filestore.schema.schema import TableSchema

_ROW, _IS_AFTER, _SIGN = "row", "is after", "sign"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDifference:
    """The changes that make one state of another, in the table's columns, and their kinds (int8).

    With a primary key they are in key order, -U directly before its +U; without one deletes come before inserts, and a
    row comes as often as its numbers differ.
    """

    rows: pa.Table
    kinds: npt.NDArray[np.int8]

    def count(self, kind: RowKind) -> int:
        """How many changes are of a kind."""
        return int(np.count_nonzero(self.kinds == int(kind)))


def row_difference(schema: TableSchema, before: pa.Table, after: pa.Table) -> RowDifference:
    """The changes from the rows `before` to the rows `after`.

    Values are compared as the format does: nulls and NaN equal themselves, 0.0 does not equal -0.0.
    """
    rows = pa.concat_tables([before, after]).combine_chunks()
    is_after = np.arange(rows.num_rows) >= before.num_rows
    if not rows.num_rows:
        return RowDifference(rows=rows, kinds=np.zeros(0, np.int8))
    return _by_key(schema, rows, is_after) if schema.primary_keys else _by_count(schema, rows, is_after)


def _by_key(schema: TableSchema, rows: pa.Table, is_after: npt.NDArray[np.bool_]) -> RowDifference:
    key_fields = [schema.field(name) for name in schema.primary_keys]
    frame = key_frame(rows, key_fields)
    names = frame.columns
    ordered = frame.with_columns(pl.Series(_IS_AFTER, is_after)).with_row_index(_ROW).sort(*names, _IS_AFTER)
    places = ordered[_ROW].to_numpy().astype(np.int64)
    comes_after = is_after[places]
    leads_pair = ~is_last_of_key(ordered, names).to_numpy()
    ends_pair = np.append(False, leads_pair[:-1])
    kinds = np.where(
        comes_after,
        np.where(ends_pair, int(RowKind.UPDATE_AFTER), int(RowKind.INSERT)),
        np.where(leads_pair, int(RowKind.UPDATE_BEFORE), int(RowKind.DELETE)),
    ).astype(np.int8)
    firsts = np.flatnonzero(leads_pair)
    stays = np.ones(len(places), np.bool_)
    old, new = (rows.take(pa.array(places[at])) for at in (firsts, firsts + 1))
    equal = firsts[are_equal(old, new, schema.fields)]
    stays[equal] = stays[equal + 1] = False
    return RowDifference(rows=rows.take(pa.array(places[stays])), kinds=kinds[stays])


def _by_count(schema: TableSchema, rows: pa.Table, is_after: npt.NDArray[np.bool_]) -> RowDifference:
    values = key_frame(rows, schema.fields)
    signs = pl.Series(_SIGN, np.where(is_after, 1, -1).astype(np.int64))
    counted = (
        values.with_columns(signs)
        .with_row_index(_ROW)
        .group_by(values.columns, maintain_order=True)
        .agg(pl.col(_ROW).first(), pl.col(_SIGN).sum())
        .filter(pl.col(_SIGN) != 0)
        .sort(_SIGN, maintain_order=True)
    )
    counts = counted[_SIGN].to_numpy()
    places = np.repeat(counted[_ROW].to_numpy().astype(np.int64), np.abs(counts))
    kinds = np.repeat(np.where(counts < 0, int(RowKind.DELETE), int(RowKind.INSERT)), np.abs(counts))
    return RowDifference(rows=rows.take(pa.array(places)), kinds=kinds.astype(np.int8))
