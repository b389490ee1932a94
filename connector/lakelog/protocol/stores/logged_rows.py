"""Rows of a table with a log: the rows of a bucket's part of a batch that stay, and its level-0 files.

The table does not change before a record in the log names the files.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.filestore.data import StoredRows, write_data_files
from lakelog.filestore.merge import Slice, counted_rows, key_frame, newest_rows, row_merge
from lakelog.filestore.metadata.manifests import BucketId, DataFileMeta
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.options import CHANGELOG_FILE_PREFIX
from lakelog.filestore.schema import SEQUENCE_NUMBER, VALUE_KIND, FileNames
from lakelog.filestore.write import parts_of, places_of


@dataclass(frozen=True, slots=True, kw_only=True)
class StayingRows:
    """What level 0 holds of the rows of one bucket, including deletes, in the columns and the order of its files.

    `kinds` are the row kinds (int8), `positions` the indexes of the rows in the `given_count` rows (uint32).
    """

    rows: pa.Table
    kinds: pa.Array
    positions: npt.NDArray[np.uint32]
    given_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRows:
    """The changes by rows of one partition of a bucket: `changes` in key order, -U before its +U, with `kinds` (int8).

    `positions` (uint32) has, for each change, the index of the last given row of its key. `staying` is what level 0
    holds of the rows: the rows after the changes, and deletes.
    """

    changes: pa.Table
    kinds: pa.Array
    positions: npt.NDArray[np.uint32]
    staying: StayingRows


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRows:
    """Rows of one bucket in arrival order, and their kinds (int8)."""

    bucket_id: BucketId
    rows: pa.Table
    kinds: pa.Array


def staying_rows(table: TableStore, rows: pa.Table, kinds: pa.Array) -> StayingRows:
    """Of checked rows of one bucket in arrival order, those that stay. `kinds` are their kinds as int8.

    With a primary key, these are the last rows of each key, in key order; in a value-count table, each row once, with
    how often the rows add it, unless that is 0; in an append-only table, every row.
    """
    if table.schema.is_change_log:
        return _counted(table.stored, rows, kinds)
    if not table.schema.primary_keys:
        every = np.arange(rows.num_rows, dtype=np.uint32)
        return StayingRows(rows=rows, kinds=kinds, positions=every, given_count=rows.num_rows)
    positions = newest_rows(key_frame(rows, table.schema.key_fields)).to_arrow()
    return StayingRows(
        rows=rows.take(positions),
        kinds=kinds.take(positions),
        positions=positions.to_numpy(),
        given_count=rows.num_rows,
    )


def _counted(stored: TableStore, rows: pa.Table, kinds: pa.Array) -> StayingRows:
    merge = row_merge(stored.schema)
    assert merge is not None, "the files of a value-count table sum counts"
    counted, adds = counted_rows(rows, kinds)
    numbered = counted.append_column(SEQUENCE_NUMBER, pa.array(np.arange(rows.num_rows)))
    given = numbered.append_column(VALUE_KIND, adds)
    merged = merge.merge([Slice(keys=key_frame(given, stored.schema.key_fields), rows=given)], keeps_deletes=True)
    return StayingRows(
        rows=merged.drop_columns([SEQUENCE_NUMBER, VALUE_KIND]),
        kinds=merged.column(VALUE_KIND).combine_chunks(),
        positions=merged.column(SEQUENCE_NUMBER).to_numpy().astype(np.uint32),
        given_count=rows.num_rows,
    )


def write_level0(
    table: TableStore,
    bucket: BucketId,
    staying: StayingRows,
    *,
    first_sequence: int,
    names: FileNames | None = None,
) -> tuple[DataFileMeta, ...]:
    """Write the rows of one bucket to level-0 files: one file, or more above the target file size; none without rows.

    A row's sequence number is `first_sequence` plus its position.
    """
    sequences = pa.array(staying.positions.astype(np.int64) + first_sequence)
    pieces = [StoredRows(rows=staying.rows, sequences=sequences, kinds=staying.kinds)]
    files = write_data_files(table.stored, bucket, pieces, level=0, names=names)
    return tuple(files)


def write_changelog(
    table: TableStore, bucket: BucketId, resolved: ResolvedRows, *, first_sequence: int, names: FileNames
) -> tuple[DataFileMeta, ...]:
    """Write the changes of one bucket to changelog files; none without changes.

    Both halves of an update have the sequence number of its new row: `first_sequence` plus its position.
    """
    sequences = pa.array(resolved.positions.astype(np.int64) + first_sequence)
    pieces = [StoredRows(rows=resolved.changes, sequences=sequences, kinds=resolved.kinds)]
    prefix = CHANGELOG_FILE_PREFIX.of(table.schema.options)
    files = write_data_files(table.stored, bucket, pieces, level=0, names=names, prefix=prefix)
    return tuple(files)


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
