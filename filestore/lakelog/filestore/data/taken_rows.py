"""Rows that are taken out of append-only tables: found in the files, and left out of the files that replace these.

The files of such a table hold no deletes. Of equal rows any may be taken, as a multiset has it; the caller says which
rows are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.filestore.data.data_writer import write_data_files
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore

_COUNT, _PLACE, _TAKEN = "count", "place", "taken"


class WantedRows:
    """Rows to find, each with its number of copies; the rows that are found are subtracted."""

    def __init__(self, rows: Iterable[pa.Table], values_of: Callable[[pa.Table], pl.DataFrame]) -> None:
        """Want these rows, at least one table. `values_of` makes columns that polars holds for equal where rows are."""
        self._values_of = values_of
        values = pl.concat([values_of(part) for part in rows])
        self._names = values.columns
        self._left = values.group_by(self._names).agg(pl.len().cast(pl.Int64).alias(_COUNT))

    @property
    def count(self) -> int:
        """How many rows are still to be found."""
        return int(self._left[_COUNT].sum())

    def take_off(self, rows: pa.Table) -> np.ndarray:
        """Subtract the wanted rows that are among these; returns for each of these rows whether it is wanted."""
        values = self._values_of(rows)
        numbered = values.with_columns(pl.int_range(pl.len()).over(self._names).alias(_PLACE))
        found = numbered.join(self._left, on=self._names, how="left", nulls_equal=True, maintain_order="left")
        is_taken = (found[_PLACE] < found[_COUNT]).fill_null(False)
        taken = values.filter(is_taken).group_by(self._names).agg(pl.len().cast(pl.Int64).alias(_TAKEN))
        left = self._left.join(taken, on=self._names, how="left", nulls_equal=True)
        self._left = (
            left.with_columns((pl.col(_COUNT) - pl.col(_TAKEN).fill_null(0)).alias(_COUNT))
            .filter(pl.col(_COUNT) > 0)
            .select(*self._names, _COUNT)
        )
        return is_taken.to_numpy()


def files_without(
    table: TableStore, bucket: BucketId, meta: DataFileMeta, pieces: Iterable[pa.Table], wanted: WantedRows
) -> list[DataFileMeta] | None:
    """The new files that replace a file with the rows `pieces`, empty if no row stays; None if it has no wanted row.

    Subtracts the wanted rows, and writes files.
    """
    parts = [(rows, wanted.take_off(rows)) for rows in pieces]
    if not any(mask.any() for _, mask in parts):
        return None
    kept = pa.concat_tables([rows.filter(pa.array(~mask)) for rows, mask in parts])
    if not kept.num_rows:
        return []
    stored = StoredRows(
        rows=kept,
        sequences=pa.array(np.arange(kept.num_rows, dtype=np.int64) + meta.min_sequence_number),
        kinds=pa.array(np.zeros(kept.num_rows, np.int8)),
    )
    return write_data_files(table, bucket, [stored], level=meta.level)
