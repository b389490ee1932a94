"""The rows of splits: merged, filtered, cut to batches."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import pieces_of, to_arrow_schema
from lakelog.common.types import DataField, RowKind
from lakelog.filestore.data.data_reader import fetch_ends, read_data_file
from lakelog.filestore.data.frame_reader import read_data_frames
from lakelog.filestore.data.placed_rows import read_placed_file
from lakelog.filestore.data.row_groups import RowFilter
from lakelog.filestore.data.row_ids import groups_by_row_id, has_row_groups, read_group
from lakelog.filestore.io.network import calls_at_once
from lakelog.filestore.merge.counting import changed_rows, present_rows
from lakelog.filestore.metadata.manifests.levels import runs_of, sections_of
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.predicate import Bound, Predicate, RowTest, bind
from lakelog.filestore.predicate.binding import BoundAnd
from lakelog.filestore.read.bucket_reader import COPIES, BucketReader
from lakelog.filestore.read.fallback import branch_table
from lakelog.filestore.read.scan import DataSplit
from lakelog.filestore.schema.counted_schema import count_field
from lakelog.filestore.schema.row_places import PLACE_FIELDS

BATCH_BYTES = 32 << 20
_JOINED_ROWS = 131_072


def read_splits(
    table: TableStore,
    splits: Iterable[DataSplit],
    *,
    columns: Sequence[str] | None = None,
    where: Predicate | None = None,
    skip: Predicate | None = None,
    batch_bytes: int = BATCH_BYTES,
    memory_budget_bytes: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of splits that pass `where`, in the given columns (all by default), in no order.

    Row groups without a row that passes `skip` are left out too; it does not filter rows, so its columns need not be
    read. Batches hold at most about `batch_bytes`. Merging stays within `memory_budget_bytes`, the table's option by
    default. Raises NotFoundError when the files have expired, CorruptDataError when they are damaged.
    """
    fields = table.schema.fields if columns is None else table.schema.select(columns)
    bound = None if skip is None else bind(skip, table.schema.fields)
    yield from _read(
        table, splits, fields, where, bound, batch_bytes=batch_bytes, memory_budget_bytes=memory_budget_bytes
    )


def _read(
    table: TableStore,
    splits: Iterable[DataSplit],
    fields: Sequence[DataField],
    where: Predicate | None,
    skip: Bound | None,
    *,
    batch_bytes: int,
    memory_budget_bytes: int | None,
) -> Iterator[pa.RecordBatch]:
    names = [field.name for field in fields]
    for rows in _passing(table, splits, fields, where, memory_budget_bytes, skip=skip):
        pieces = present_rows(rows, piece_bytes=batch_bytes) if table.schema.is_change_log else [rows]
        for piece in pieces:
            yield from _batches(piece.select(names), batch_bytes)


def read_frames(
    table: TableStore,
    splits: Iterable[DataSplit],
    *,
    columns: Sequence[str],
    skip: Predicate | None = None,
    memory_budget_bytes: int,
) -> Iterator[pl.DataFrame]:
    """The rows of splits in the given columns as polars frames. See `read_splits`."""
    fields = table.schema.select(columns)
    bound = None if skip is None else bind(skip, table.schema.fields)
    rows = None if bound is None else RowFilter(bound=bound)
    reads_raw = bool(fields) and not table.schema.is_change_log and not has_row_groups(table.schema)
    merged: list[DataSplit] = []
    for split in begun_splits(table, splits):
        if not (reads_raw and split.raw_convertible and split.branch is None):
            merged.append(split)
            continue
        for file in split.files:
            yield from read_data_frames(
                table.stored,
                split.bucket_id,
                file,
                fields,
                piece_bytes=memory_budget_bytes // COPIES,
                deletions=split.deletions.get(file.file_name),
                rows=rows,
            )
    batches = _read(
        table, merged, fields, None, bound, batch_bytes=BATCH_BYTES, memory_budget_bytes=memory_budget_bytes
    )
    yield from (pl.DataFrame(batch) for batch in batches)


def read_splits_as_changes(
    table: TableStore,
    splits: Iterable[DataSplit],
    *,
    columns: Sequence[str] | None = None,
    where: Predicate | None = None,
    batch_bytes: int = BATCH_BYTES,
    memory_budget_bytes: int | None = None,
) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    """The changes that create the rows of splits, and their row kinds (int8). See `read_splits`.

    They are inserts, and in a value-count table deletes for rows that were deleted more often than added: together with
    the changes of later snapshots they result in the rows of the table.
    """
    if not table.schema.is_change_log:
        for batch in read_splits(
            table,
            splits,
            columns=columns,
            where=where,
            batch_bytes=batch_bytes,
            memory_budget_bytes=memory_budget_bytes,
        ):
            yield batch, pa.repeat(pa.scalar(RowKind.INSERT.value, pa.int8()), batch.num_rows)
        return
    fields = table.schema.fields if columns is None else table.schema.select(columns)
    names = [field.name for field in fields]
    for rows in _passing(table, splits, fields, where, memory_budget_bytes):
        for stored in _batches(rows, batch_bytes):
            for batch, kinds in changed_rows(stored, piece_bytes=batch_bytes):
                yield batch.select(names), kinds


def _passing(
    table: TableStore,
    splits: Iterable[DataSplit],
    fields: Sequence[DataField],
    where: Predicate | None,
    memory_budget_bytes: int | None,
    *,
    skip: Bound | None = None,
) -> Iterator[pa.Table]:
    """The rows of splits that pass `where`, as files have them: in the columns `fields` and more, at least one."""
    stored = table.stored
    budget = memory_budget_bytes or READ_MEMORY_BUDGET.understood(table.schema.options)
    test = None if where is None else RowTest(where, table.schema.fields)
    filtered = () if test is None else test.columns
    counts = (count_field(table.schema),) if table.schema.is_change_log else ()
    wanted = [*fields, *(field for field in filtered if field not in fields), *counts] or list(
        stored.schema.key_fields[:1] or stored.schema.fields[:1]
    )
    bound = None if test is None else test.bound
    if skip is not None:
        bound = skip if bound is None else BoundAnd(parts=(bound, skip))
    opened = functools.cache(partial(branch_table, table))
    pieces = (
        piece
        for split in begun_splits(table, splits)
        for piece in (
            _pieces(stored, split, wanted, budget, bound)
            if split.branch is None
            else _pieces_of_branch(opened(split.branch), split, wanted, budget)
        )
    )
    # A test takes longer to start than to test the rows of a lookup.
    for rows in pieces if test is None else _joined(pieces, [field.name for field in wanted], budget // COPIES):
        kept = rows if test is None else rows.filter(test.passing(rows))
        if kept.num_rows:
            yield kept


def begun_splits(table: TableStore, splits: Iterable[DataSplit]) -> Iterator[DataSplit]:
    """The splits; in an object store the ends of the files of each are fetched at once before it is given."""
    for split in splits:
        begin_splits(table, [split])
        yield split


def begin_splits(table: TableStore, splits: Sequence[DataSplit]) -> None:
    """Fetch the ends of the files of some splits at once, in an object store."""
    if calls_at_once(table.file_io) > 1:
        fetch_ends(table.stored, [(one.bucket_id, file) for one in splits if one.branch is None for file in one.files])


def _joined(pieces: Iterable[pa.Table], names: Sequence[str], size_bytes: int) -> Iterator[pa.Table]:
    """The rows of small pieces joined, up to a number of rows or to this size."""
    held: list[pa.Table] = []
    held_rows = held_bytes = 0
    for piece in pieces:
        if held and (held_rows + piece.num_rows > _JOINED_ROWS or held_bytes + piece.nbytes > size_bytes):
            yield pa.concat_tables(held)
            held, held_rows, held_bytes = [], 0, 0
        held.append(piece.select(names))
        held_rows += piece.num_rows
        held_bytes += piece.nbytes
    if held:
        yield pa.concat_tables(held)


def _pieces(
    table: TableStore, split: DataSplit, fields: Sequence[DataField], budget_bytes: int, where: Bound | None
) -> Iterator[pa.Table]:
    return (_raw if split.raw_convertible else _merged)(table, split, fields, budget_bytes, where)


def _pieces_of_branch(
    branch: TableStore, split: DataSplit, fields: Sequence[DataField], budget_bytes: int
) -> Iterator[pa.Table]:
    """The rows of a split of another branch, in the columns that the table itself has."""
    names = [field.name for field in fields]
    schema = to_arrow_schema(fields)
    for rows in _pieces(branch, split, branch.schema.select(names), budget_bytes, None):
        yield rows.select(names).cast(schema)


def _merged(
    table: TableStore, split: DataSplit, fields: Sequence[DataField], budget_bytes: int, where: Bound | None
) -> Iterator[pa.Table]:
    if has_row_groups(table.schema):
        yield from _grouped(table, split, fields, budget_bytes)
        return
    reader = BucketReader(
        table, split.bucket_id, memory_budget_bytes=budget_bytes, deletions=split.deletions, where=where
    )
    for section in sections_of(runs_of(split.files, table.key_types), table.key_types):
        yield from reader.rows(section, fields)


def _grouped(table: TableStore, split: DataSplit, fields: Sequence[DataField], budget_bytes: int) -> Iterator[pa.Table]:
    """The rows of groups of files, each of which has some columns of the same rows."""
    for group in groups_by_row_id(split.files):
        marks = [split.deletions[file.file_name] for file in group if file.file_name in split.deletions]
        batches = read_group(
            table,
            split.bucket_id,
            group,
            fields,
            piece_bytes=budget_bytes // COPIES,
            deletions=marks[0] if marks else None,
        )
        yield from pieces_of(batches, budget_bytes // COPIES)


def _raw(
    table: TableStore, split: DataSplit, fields: Sequence[DataField], budget_bytes: int, where: Bound | None
) -> Iterator[pa.Table]:
    rows = None if where is None else RowFilter(bound=where)
    piece_bytes = budget_bytes // COPIES
    bucket = split.bucket_id
    read = read_placed_file if any(field in PLACE_FIELDS for field in fields) else read_data_file
    for file in split.files:
        deletions = split.deletions.get(file.file_name)
        batches = read(table, bucket, file, fields, piece_bytes=piece_bytes, deletions=deletions, rows=rows)
        yield from pieces_of(batches, piece_bytes)


def _batches(rows: pa.Table, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    batch_rows = max(1, rows.num_rows * batch_bytes // max(1, rows.nbytes))
    yield from (batch for batch in rows.to_batches(max_chunksize=batch_rows) if batch.num_rows)
