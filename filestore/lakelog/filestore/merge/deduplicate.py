"""The merge engine `deduplicate`: the last row of a key stays, unless it is a delete. Pure.

The rows that stay are found only from keys, sequence numbers and row kinds; the other columns are gathered by index, so
every Arrow type is supported. Source: Paimon, `DeduplicateMergeFunction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.types import RowKind
from lakelog.filestore.merge.order import is_last_of_key, key_at, to_series
from lakelog.filestore.schema.schema import SEQUENCE_NUMBER, VALUE_KIND

_OVERLAY_RATIO_MIN = 4  # below this, sorting all rows costs no more than looking up the younger keys in the older rows
_FEW_ROWS = 128
_ROW = "row"
_SEQUENCE = "sequence"
_IS_ADD = "is_add"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Rows of one run in key order, each key once. `keys` is the key frame of `rows`, `level` the run's.

    `rows` has the column _VALUE_KIND if the run may hold deletes or kinds are requested, and _SEQUENCE_NUMBER if the
    order of the runs does not decide which row is younger or numbers are requested.
    """

    keys: pl.DataFrame
    rows: pa.Table
    level: int = 0


def newest_rows(keys: pl.DataFrame) -> pl.Series:
    """The rows that stay if the last row of each key wins, in key order."""
    if keys.height <= _FEW_ROWS:
        return _newest_of_few(keys)
    ordered = keys.with_row_index(_ROW).sort(keys.columns, maintain_order=True)
    return ordered[_ROW].filter(is_last_of_key(ordered, keys.columns))


def _newest_of_few(keys: pl.DataFrame) -> pl.Series:
    """As `newest_rows`, without polars' threads, which take longer to start than few rows to sort."""
    rows = [key_at(keys, row) for row in range(keys.height)]
    order = sorted(range(keys.height), key=rows.__getitem__)
    last = [
        row for row, following in zip_longest(order, order[1:]) if following is None or rows[row] != rows[following]
    ]
    return pl.Series(_ROW, last, dtype=pl.UInt32)


def merge_ordered(slices: Sequence[Slice], *, is_ranked: bool, keeps_deletes: bool) -> pa.Table:
    """The rows that stay, in key order, with all columns of the slices.

    `slices` goes from youngest to oldest; only kinds may be missing, if all rows are adds. `is_ranked` means that every
    row of a slice is younger than every row of the next; else sequence numbers decide, and for equal numbers an add
    wins over a delete, then the younger run.
    """
    if len(slices) == 1:
        return slices[0].rows if keeps_deletes else without_deletes(slices[0].rows)
    oldest_first = list(reversed(slices))
    rows = pa.concat_tables(_with_same_columns([part.rows for part in oldest_first]))
    frame = pl.concat([part.keys for part in oldest_first]).with_row_index(_ROW)
    key_names = slices[0].keys.columns
    sort_by = list(key_names)
    if VALUE_KIND in rows.column_names:
        frame = frame.with_columns(_are_adds(rows).alias(_IS_ADD))
    if not is_ranked:
        frame = frame.with_columns(to_series(rows.column(SEQUENCE_NUMBER)).alias(_SEQUENCE))
        sort_by += [_SEQUENCE, *([_IS_ADD] if _IS_ADD in frame.columns else [])]
    ordered = frame.sort(sort_by, maintain_order=True)
    stays = is_last_of_key(ordered, key_names)
    if _IS_ADD in frame.columns and not keeps_deletes:
        stays &= ordered[_IS_ADD]
    return rows.take(ordered[_ROW].filter(stays).to_arrow())


def merge_unordered(slices: Sequence[Slice], *, is_ranked: bool) -> list[pa.Table]:
    """The rows that stay, without deletes, in no order: a long oldest slice is not sorted again but masked."""
    *younger, oldest = slices
    younger_rows = sum(part.keys.height for part in younger)
    if not is_ranked or not younger_rows or oldest.keys.height < _OVERLAY_RATIO_MIN * younger_rows:
        return [merge_ordered(slices, is_ranked=is_ranked, keeps_deletes=False)]
    keys = pl.concat([part.keys for part in younger])
    mask = are_absent(oldest.keys, keys)
    if VALUE_KIND in oldest.rows.column_names:
        mask &= _are_adds(oldest.rows)
    kept = oldest.rows if mask.all() else oldest.rows.filter(mask.to_arrow())
    return [kept, merge_ordered(younger, is_ranked=True, keeps_deletes=False)]


def are_absent(keys: pl.DataFrame, others: pl.DataFrame) -> pl.Series:
    """For each row of `keys`: whether `others` lacks it. Nulls are equal to each other."""
    if keys.width == 1:
        return ~keys.to_series().is_in(others.to_series().implode(), nulls_equal=True)
    numbered = keys.with_row_index(_ROW)
    absent = numbered.join(others, on=keys.columns, how="anti", nulls_equal=True)[_ROW]
    return pl.select(pl.int_range(keys.height, dtype=pl.UInt32).is_in(absent.implode())).to_series()


def without_deletes(rows: pa.Table) -> pa.Table:
    """The rows whose kind is an add; all rows if there are no kinds."""
    if VALUE_KIND not in rows.column_names:
        return rows
    adds = _are_adds(rows)
    return rows if adds.all() else rows.filter(adds.to_arrow())


def _with_same_columns(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The tables, with kinds in all of them if one has kinds."""
    schema = next((table.schema for table in tables if VALUE_KIND in table.column_names), None)
    if schema is None:
        return list(tables)
    kind = schema.field(VALUE_KIND)
    return [
        table.select(schema.names)
        if VALUE_KIND in table.column_names
        else table.append_column(kind, _inserts(table.num_rows)).select(schema.names)
        for table in tables
    ]


def _inserts(count: int) -> pa.Array:
    return pa.nulls(count, pa.int8()).fill_null(int(RowKind.INSERT))


def are_adds(kinds: pl.Series) -> pl.Series:
    """For each row kind: whether the row exists after the change."""
    return (kinds == int(RowKind.INSERT)) | (kinds == int(RowKind.UPDATE_AFTER))


def merged_kinds(kinds: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The kinds that a merge stores: +I for every add; -U and -D are kept, since engines distinguish them."""
    insert = pa.scalar(int(RowKind.INSERT), pa.int8())
    return pc.if_else(are_adds(to_series(kinds)).to_arrow(), insert, kinds)


def _are_adds(rows: pa.Table) -> pl.Series:
    return are_adds(to_series(rows.column(VALUE_KIND)))
