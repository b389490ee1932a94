"""Value-count tables: rows and their kinds as counts, and counts as rows. Pure.

An added row counts 1, a deleted one -1. The merge of the files sums the counts of equal rows; if the sum is 0 there is
no row. A read returns each row as often as its count. See `lakelog.filestore.schema.counted_schema`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.types import RowKind
from lakelog.filestore.merge.deduplicate import are_adds
from lakelog.filestore.merge.order import to_series
from lakelog.filestore.schema.counted_schema import COUNT_COLUMN

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)
_VALUE_BYTES = 16  # of any value that is not a string, at most


def counted_rows(rows: pa.Table, kinds: pa.Array) -> tuple[pa.Table, pa.Array]:
    """The rows as in files, each with a count of 1 or -1 by its kind, and their new kinds, which are all adds."""
    counts = np.where(are_adds(to_series(kinds)).to_numpy(), 1, -1).astype(np.int64)
    count = pa.field(COUNT_COLUMN, pa.int64(), nullable=False)
    return rows.append_column(count, pa.array(counts)), pa.array(np.zeros(rows.num_rows, np.int8))


def without_uncounted(rows: pa.Table) -> pa.Table:
    """The rows with a count other than 0: those that were not deleted as often as they were added."""
    counts = _counts(rows)
    return rows if counts.all() else rows.filter(pa.array(counts != 0))


def present_rows(rows: pa.Table, *, piece_bytes: int) -> Iterator[pa.Table]:
    """Each row as often as its count, without rows of negative counts; in pieces of about `piece_bytes`."""
    return _repeated(rows, np.maximum(_counts(rows), 0), piece_bytes)


def changed_rows(rows: pa.RecordBatch, *, piece_bytes: int) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """Counts as changes: each row as often as it was added or deleted, and the row kinds (int8)."""
    for piece in _repeated(rows, np.abs(_counts(rows)), piece_bytes):
        kinds = np.where(_counts(piece) > 0, RowKind.INSERT.value, RowKind.DELETE.value)
        yield piece, pa.array(kinds.astype(np.int8))


def _repeated(rows: Rows, times: npt.NDArray[np.int64], piece_bytes: int) -> Iterator[Rows]:
    if (times == 1).all():
        yield rows
        return
    sizes = _row_bytes(rows)
    row_ends, byte_ends = np.cumsum(times), np.cumsum(times * sizes)
    start, total = 0, int(row_ends[-1])
    while start < total:
        first = np.searchsorted(row_ends, start, side="right")
        limit = byte_ends[first] - (row_ends[first] - start) * sizes[first] + piece_bytes
        last = min(np.searchsorted(byte_ends, limit, side="left"), len(times) - 1)  # the row that ends the piece
        stop = min(int(row_ends[last] - max(0, -(-(byte_ends[last] - limit) // sizes[last]))), total)
        wanted = np.arange(start, max(stop, start + 1))
        yield rows.take(pa.array(np.searchsorted(row_ends, wanted, side="right")))
        start = int(wanted[-1]) + 1


def _row_bytes(rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The approximate bytes of each row in memory, as strings may differ much in length."""
    sizes = np.full(rows.num_rows, _VALUE_BYTES * rows.num_columns, np.int64)
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    return sizes


def _counts(rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int64]:
    return np.asarray(rows.column(COUNT_COLUMN).to_numpy(), np.int64)
