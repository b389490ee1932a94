"""Writes rows that arrive in batches in bounded memory: a full write buffer is spilled, and all spills become one run.

So a bucket gets one sorted run from each task, for any number of rows: files whose key ranges do not overlap. Without
spilling each buffer becomes level-0 files of its own, which reads and compactions have to merge again. Tables without
primary key do not spill: their rows are neither sorted nor merged, so each full buffer can become a file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.metadata.tables.unnamed_files import discard_files
from lakelog.filestore.options.writing import (
    WRITE_BUFFER_SIZE,
    WRITE_BUFFER_SPILL_MAX_DISK_SIZE,
    WRITE_BUFFER_SPILLABLE,
)
from lakelog.filestore.write.assigning import BucketAssigner
from lakelog.filestore.write.row_kinds import split_kinds
from lakelog.filestore.write.spilling import Spills
from lakelog.filestore.write.write import (
    FirstSequence,
    WrittenRows,
    placed_rows,
    sorted_rows,
    starting_at,
    write_changelog,
    write_level0_files,
)

_PIECES_PER_BUFFER = 4  # how precisely a buffer is filled: up to one piece


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChunk:
    """A part of the rows to write, the number of rows before it, and whether more rows follow."""

    rows: pa.Table
    kinds: pa.Array | None
    rows_before: int
    has_more: bool


def write_batches(
    table: TableStore,
    batches: Iterable[pa.RecordBatch],
    *,
    first_sequence: int | FirstSequence,
    assigner: BucketAssigner | None = None,
    is_overwrite: bool = False,
    rows_max: int | None = None,
) -> tuple[WrittenRows, int]:
    """Write rows of any buckets to level-0 files; returns the entries that a commit adds, and the number of rows.

    Row kinds are in the column `_row_kind` (int8); without it every row is an upsert. A row's sequence number is
    `first_sequence`, of its bucket or of all buckets, plus its position among all rows. Raises InvalidRequestError,
    also for more than `rows_max` rows, UnavailableError when rows cannot be spilled, and the errors of `batches`: then
    the files that were already written are deleted.
    """
    options = table.schema.options
    stored = table.stored
    is_spilled = bool(stored.schema.primary_keys) and WRITE_BUFFER_SPILLABLE.of(options)
    disk_max = WRITE_BUFFER_SPILL_MAX_DISK_SIZE.of(options)
    written, row_count = WrittenRows(), 0
    with discarding_on_error(table, written), Spills(stored) as spills:
        for given in _buffers(batches, WRITE_BUFFER_SIZE.of(options)):
            row_count = given.rows_before + given.rows.num_rows
            _check_count(table, row_count, rows_max)
            first = _starting_at(first_sequence, given.rows_before)
            placed = placed_rows(
                table,
                given.rows,
                given.kinds,
                first_sequence=first,
                assigner=assigner,
                rows_before=given.rows_before,
            )
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


@contextlib.contextmanager
def discarding_on_error(table: TableStore, written: WrittenRows) -> Iterator[None]:
    """Delete the files that were written when an error ends the write: no commit will name them."""
    try:
        yield
    except Exception:  # whatever the error was: no snapshot names these files
        discard_files(table, [table.data_path(one.bucket_id, one.file) for one in written.entries + written.changelog])
        raise


def _starting_at(first: int | FirstSequence, rows_before: int) -> FirstSequence:
    """The sequence numbers that follow those of the rows before."""
    if isinstance(first, int):
        return starting_at(first + rows_before)
    if callable(first):
        return lambda bucket: first(bucket) + rows_before
    return {bucket_id: sequence + rows_before for bucket_id, sequence in first.items()}


def _merged_files(table: TableStore, spills: Spills) -> list[ManifestEntry]:
    """Write all spilled rows to level-0 files, one sorted run per bucket, and free the spills."""
    entries = write_level0_files(table, spills.all_merged())
    spills.clear()
    return entries


def _buffers(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[RowChunk]:
    """The rows, one full buffer at a time."""
    rest = (piece for batch in batches for piece in _cut(batch, size_bytes // _PIECES_PER_BUFFER))
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
        rows, kinds = split_kinds(pa.Table.from_batches(held))
        held.clear()
        yield RowChunk(rows=rows, kinds=kinds, rows_before=rows_before, has_more=ahead is not None)
        rows_before += rows.num_rows


def _cut(batch: pa.RecordBatch, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in pieces of about this size; no pieces for an empty batch."""
    step = max(1, batch.num_rows * size_bytes // max(1, batch.nbytes))
    return (batch.slice(start, step) for start in range(0, batch.num_rows, step))


def _check_count(table: TableStore, row_count: int, rows_max: int | None) -> None:
    if rows_max is not None and row_count > rows_max:
        raise InvalidRequestError(f"table {table.name}: a task has more than {rows_max:,} rows; repartition the rows")
