"""The number of rows, and a digest of them that does not depend on their order: both are compared after a rewrite.

The digest is the sum of the hashes of the rows. It is compared only within one process, and never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.common.errors import CorruptDataError
from lakelog.filestore.merge.deduplicate import are_adds
from lakelog.filestore.merge.order import to_series
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.read.scan import DataSplit
from lakelog.filestore.read.split_rows import read_splits_as_changes

_SEED = 0
_HASHES = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDigest:
    """A number of rows, and the sum of their hashes, both without removed rows."""

    count: int = 0
    total: int = 0

    def plus(self, changes: RowDigest) -> RowDigest:
        """The digest after changes that have a digest of their own."""
        return RowDigest(count=self.count + changes.count, total=(self.total + changes.total) % _HASHES)

    def with_rows(self, rows: pa.Table | pa.RecordBatch, sign: int) -> RowDigest:
        """The digest after rows are added (1) or removed (-1)."""
        if not rows.num_rows:
            return self
        total = int(pl.DataFrame(rows).hash_rows(seed=_SEED).to_numpy().sum(dtype=np.uint64))
        return RowDigest(count=self.count + sign * rows.num_rows, total=(self.total + sign * total) % _HASHES)

    def with_changes(self, rows: pa.Table | pa.RecordBatch, kinds: pa.Array) -> RowDigest:
        """The digest after changes of these kinds (int8). Rows are equal if their columns are, in their order."""
        if not rows.num_rows:
            return self
        adds = are_adds(to_series(kinds)).to_numpy()
        hashes = pl.DataFrame(rows).hash_rows(seed=_SEED).to_numpy()
        added, removed = (int(hashes[which].sum(dtype=np.uint64)) for which in (adds, ~adds))
        count = 2 * int(np.count_nonzero(adds)) - rows.num_rows
        return RowDigest(count=self.count + count, total=(self.total + added - removed) % _HASHES)


def digest_of(table: TableStore, splits: Iterable[DataSplit], *, columns: Sequence[str] | None = None) -> RowDigest:
    """The digest of the rows of splits, in these columns or all. Reads the rows. A count below 0 removes rows."""
    found = RowDigest()
    for rows, kinds in read_splits_as_changes(table, splits, columns=columns):
        found = found.with_changes(rows, kinds)
    return found


def check_same_rows(found: RowDigest, expected: RowDigest, *, what: str, table_name: str) -> None:
    """Raise CorruptDataError if a rewrite has not written the same rows that it has read."""
    if found == expected:
        return
    numbers = f"{expected.count} rows before, {found.count} rows after"
    if found.count == expected.count:
        numbers = f"{expected.count} rows before and after, with other values"
    raise CorruptDataError(
        f"{what} of table {table_name} would change its rows ({numbers}): nothing was committed. The table is as it "
        "was. This is an error of lakelog or a damaged file: keep the table as it is, and report the two numbers"
    )
