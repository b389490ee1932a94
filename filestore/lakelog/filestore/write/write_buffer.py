"""Rows that come in batches, written in bounded memory: a full write buffer is spilled, and all spills become one run.

So a bucket gets one sorted run of a task, however many rows there are: files whose key ranges do not overlap. Without
spilling each buffer becomes level-0 files of its own, which reads and compactions have to merge again. Tables without
primary key do not spill: their rows are neither sorted nor merged, a full buffer is as good a file as any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.metadata.manifest import ManifestEntry
from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.options.writing import (
    WRITE_BUFFER_SIZE,
    WRITE_BUFFER_SPILL_MAX_DISK_SIZE,
    WRITE_BUFFER_SPILLABLE,
)
from lakelog.filestore.write.assigning import BucketAssigner
from lakelog.filestore.write.spilling import Spills
from lakelog.filestore.write.write import (
    WrittenRows,
    placed_rows,
    sorted_rows,
    starting_at,
    write_changelog,
    write_level0_files,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChunk:
    """A part of the rows to write, the number of rows before it, and whether more rows follow."""

    rows: pa.Table
    kinds: pa.ChunkedArray | None
    rows_before: int
    has_more: bool


def write_batches(
    table: TableStore,
    batches: Iterable[pa.RecordBatch],
    *,
    first_sequence: int,
    assigner: BucketAssigner | None = None,
    is_overwrite: bool = False,
    rows_max: int | None = None,
) -> tuple[WrittenRows, int]:
    """Write rows of any buckets to level-0 files; gives the entries that a commit adds, and the number of rows.

    Row kinds are in the column `_row_kind` (int8); without it every row is an upsert. A row's sequence number is
    `first_sequence` plus its position among all rows. Raises InvalidRequestError, also for more than `rows_max` rows,
    and UnavailableError when rows cannot be spilled.
    """
    options = table.schema.options
    stored = table.stored
    is_spilled = bool(stored.schema.primary_keys) and WRITE_BUFFER_SPILLABLE.of(options)
    disk_max = WRITE_BUFFER_SPILL_MAX_DISK_SIZE.of(options)
    written, row_count = WrittenRows(), 0
    with Spills(stored) as spills:
        for given in _buffers(batches, WRITE_BUFFER_SIZE.of(options)):
            row_count = given.rows_before + given.rows.num_rows
            _check_count(table, row_count, rows_max)
            first = starting_at(first_sequence + given.rows_before)
            placed = placed_rows(table, given.rows, given.kinds, first_sequence=first, assigner=assigner)
            if placed is None:
                continue
            if not is_overwrite:
                written.changelog.extend(write_changelog(placed))
            parts = sorted_rows(placed)
            if not is_spilled or not (given.has_more or spills):
                written.entries.extend(write_level0_files(stored, parts))
                continue
            spills.add(parts)
            if disk_max is not None and spills.size_bytes >= disk_max:
                written.entries.extend(_merged_files(stored, spills))
        written.entries.extend(_merged_files(stored, spills))
    return written, row_count


def _merged_files(table: TableStore, spills: Spills) -> list[ManifestEntry]:
    """Write all that is spilled to level-0 files, one sorted run a bucket, and free it."""
    entries = write_level0_files(table, spills.all_merged())
    spills.clear()
    return entries


def _buffers(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[RowChunk]:
    """The rows a buffer at a time."""
    rest = (batch for batch in batches if batch.num_rows)
    ahead = next(rest, None)
    rows_before = 0
    while ahead is not None:
        held, held_bytes = [ahead], ahead.nbytes
        ahead = None
        for batch in rest:
            if held_bytes >= size_bytes:
                ahead = batch
                break
            held.append(batch)
            held_bytes += batch.nbytes
        rows = pa.Table.from_batches(held)
        held.clear()
        kinds = rows.column(ROW_KIND_COLUMN) if ROW_KIND_COLUMN in rows.column_names else None
        rows = rows if kinds is None else rows.drop_columns([ROW_KIND_COLUMN])
        yield RowChunk(rows=rows, kinds=kinds, rows_before=rows_before, has_more=ahead is not None)
        rows_before += rows.num_rows


def _check_count(table: TableStore, row_count: int, rows_max: int | None) -> None:
    if rows_max is not None and row_count > rows_max:
        raise InvalidRequestError(f"table {table.name}: a task has more than {rows_max:,} rows; repartition the rows")
