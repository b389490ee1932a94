"""Rows of a table with a log: the rows that stay of a bucket's part of a batch, and its level-0 files.

The table does not change before a record in the log names the files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.filestore.data.data_writer import write_data_files
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.merge.deduplicate import newest_rows
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.metadata.data_file import DataFileMeta, FileSource
from lakelog.filestore.metadata.manifest_entries import BucketId
from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.schema.paths import FileNames
from lakelog.filestore.schema.schema import VALUE_KIND, TableSchema
from lakelog.filestore.write.places import parts_of, places_of


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestRows:
    """The last row of each key among rows of one bucket, in key order, deletes too.

    `kinds` are their kinds as given (int8), `positions` their indexes in the `given_count` rows (uint32).
    """

    rows: pa.Table
    kinds: pa.Array
    positions: npt.NDArray[np.uint32]
    given_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRows:
    """Rows of one bucket in arrival order, and their kinds (int8)."""

    bucket_id: BucketId
    rows: pa.Table
    kinds: pa.Array


def newest_of(schema: TableSchema, rows: pa.Table, kinds: pa.Array) -> NewestRows:
    """The rows that stay of checked rows of one bucket in arrival order. `kinds` are their kinds as int8."""
    positions = newest_rows(key_frame(rows, schema.key_fields)).to_arrow()
    return NewestRows(
        rows=rows.take(positions),
        kinds=kinds.take(positions),
        positions=positions.to_numpy(),
        given_count=rows.num_rows,
    )


def write_level0(
    table: TableStore,
    bucket: BucketId,
    newest: NewestRows,
    *,
    first_sequence: int,
    names: FileNames | None = None,
) -> tuple[DataFileMeta, ...]:
    """Write the rows of one bucket to level-0 files in key order: one, or more above the target file size.

    A row's sequence number is `first_sequence` plus its position.
    """
    sequences = pa.array(newest.positions.astype(np.int64) + first_sequence)
    stored = StoredRows(rows=newest.rows, sequences=sequences, kinds=newest.kinds)
    return tuple(write_data_files(table, bucket, [stored], level=0, source=FileSource.APPEND, names=names))


def split_rows(table: TableStore, rows: pa.Table, kinds: pa.Array) -> list[BucketRows]:
    """Checked rows split by partition and bucket, each part in arrival order."""
    if not rows.num_rows:
        return []
    given = rows.append_column(VALUE_KIND, kinds)
    return [
        BucketRows(
            bucket_id=bucket,
            rows=part.drop_columns([VALUE_KIND]),
            kinds=part.column(VALUE_KIND).combine_chunks(),
        )
        for bucket, part in parts_of(places_of(table, rows, None), given)
    ]
