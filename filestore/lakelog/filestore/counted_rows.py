"""Change-log tables without primary key: rows and their kinds as counts, and counts as rows. Pure.

A row that is written counts 1 or, taken away, -1. The merge of the files sums the counts of equal rows, and a sum of 0
is no row. What is read is each row as often as its count says. See `lakelog.filestore.counted_schema`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.types import RowKind
from lakelog.filestore.counted_schema import COUNT_COLUMN
from lakelog.filestore.merge.deduplicate import are_adds
from lakelog.filestore.merge.order import to_series

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def counted_rows(rows: pa.Table, kinds: pa.Array) -> tuple[pa.Table, pa.Array]:
    """The rows as files have them, each with a count of 1 or -1 by its kind; and their kinds then, which are adds."""
    counts = np.where(are_adds(to_series(kinds)).to_numpy(), 1, -1).astype(np.int64)
    count = pa.field(COUNT_COLUMN, pa.int64(), nullable=False)
    return rows.append_column(count, pa.array(counts)), pa.array(np.zeros(rows.num_rows, np.int8))


def without_uncounted(rows: pa.Table) -> pa.Table:
    """The rows that are not taken away as often as they were added; one that is, is as good as none."""
    counts = _counts(rows)
    return rows if counts.all() else rows.filter(pa.array(counts != 0))


def present_rows(rows: pa.Table, *, piece_bytes: int) -> Iterator[pa.Table]:
    """Each row as often as its count says, never for a count below zero; in pieces of about `piece_bytes`."""
    return _repeated(rows, np.maximum(_counts(rows), 0), piece_bytes)


def changed_rows(rows: pa.RecordBatch, *, piece_bytes: int) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """What counts tell as changes: each row as often as it was added or taken away, and the row kinds (int8)."""
    for piece in _repeated(rows, np.abs(_counts(rows)), piece_bytes):
        kinds = np.where(_counts(piece) > 0, RowKind.INSERT.value, RowKind.DELETE.value)
        yield piece, pa.array(kinds.astype(np.int8))


def _repeated(rows: Rows, times: npt.NDArray[np.int64], piece_bytes: int) -> Iterator[Rows]:
    if (times == 1).all():
        yield rows
        return
    ends = np.cumsum(times)
    step = max(1, rows.num_rows * piece_bytes // max(1, rows.nbytes))
    for start in range(0, int(ends[-1]), step):
        wanted = np.arange(start, min(start + step, int(ends[-1])))
        yield rows.take(pa.array(np.searchsorted(ends, wanted, side="right")))


def _counts(rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int64]:
    return np.asarray(rows.column(COUNT_COLUMN).to_numpy(), np.int64)
