"""Reading a split: merged, filtered, cut to batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakelog.common.arrow import pieces_of
from lakelog.common.types import DataField
from lakelog.filestore.data_reader import read_data_file
from lakelog.filestore.levels import runs_of, sections_of
from lakelog.filestore.merge.reading import COPIES, BucketReader
from lakelog.filestore.options import READ_MEMORY_BUDGET
from lakelog.filestore.predicate import Bound, Predicate, RowTest
from lakelog.filestore.row_groups import RowFilter
from lakelog.filestore.scan import DataSplit
from lakelog.filestore.store import TableStore

BATCH_BYTES = 32 << 20


def read_split(
    table: TableStore,
    split: DataSplit,
    *,
    columns: Sequence[str] | None = None,
    where: Predicate | None = None,
    batch_bytes: int = BATCH_BYTES,
    memory_budget_bytes: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a split that pass `where`, in the given columns (all by default), in no order.

    Batches hold about `batch_bytes` at most. Merging stays within `memory_budget_bytes`, the table's option by default.
    Raises NotFoundError when the files have expired, CorruptDataError when they are damaged.
    """
    budget = memory_budget_bytes or READ_MEMORY_BUDGET.of(table.schema.options)
    fields = table.schema.fields if columns is None else table.schema.select(columns)
    test = None if where is None else RowTest(where, table.schema.fields)
    return rows_of_split(table, split, fields, test, batch_bytes=batch_bytes, budget_bytes=budget)


def rows_of_split(
    table: TableStore,
    split: DataSplit,
    fields: Sequence[DataField],
    test: RowTest | None,
    *,
    budget_bytes: int,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """`read_split` for a reader of many splits, with a filter over the table's columns that is bound already."""
    filtered = () if test is None else test.columns
    wanted = [*fields, *(field for field in filtered if field not in fields)] or list(
        table.schema.key_fields[:1] or table.schema.fields[:1]
    )
    names = [field.name for field in fields]
    rows_of = _raw if split.raw_convertible else _merged
    for rows in rows_of(table, split, wanted, budget_bytes, None if test is None else test.bound):
        kept = rows if test is None else rows.filter(test.passing(rows))
        if kept.num_rows:
            yield from _batches(kept.select(names), batch_bytes)


def _merged(
    table: TableStore, split: DataSplit, fields: Sequence[DataField], budget_bytes: int, where: Bound | None
) -> Iterator[pa.Table]:
    reader = BucketReader(
        table, split.partition, split.bucket, memory_budget_bytes=budget_bytes, deletions=split.deletions, where=where
    )
    for section in sections_of(runs_of(split.files, table.key_types), table.key_types):
        yield from reader.rows(section, fields)


def _raw(
    table: TableStore, split: DataSplit, fields: Sequence[DataField], budget_bytes: int, where: Bound | None
) -> Iterator[pa.Table]:
    rows = None if where is None else RowFilter(bound=where)
    piece_bytes = budget_bytes // COPIES
    bucket = (split.partition, split.bucket)
    for file in split.files:
        deletions = split.deletions.get(file.file_name)
        batches = read_data_file(table, bucket, file, fields, piece_bytes=piece_bytes, deletions=deletions, rows=rows)
        yield from pieces_of(batches, piece_bytes)


def _batches(rows: pa.Table, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    batch_rows = max(1, rows.num_rows * batch_bytes // max(1, rows.nbytes))
    yield from (batch for batch in rows.to_batches(max_chunksize=batch_rows) if batch.num_rows)
