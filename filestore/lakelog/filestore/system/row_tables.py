"""The system tables with a table's own columns: `audit_log`, `binlog`, `ro` and `row_tracking`.

`audit_log` has the row kind of each row. At a snapshot it shows the rows with the kinds that the files store, deleted
rows as -D until a compaction drops them from the files, as in Paimon. Over a range of snapshots it shows all changes,
which no compaction removes: applied in their order to the rows at the range's start they result in those at its end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import ROW_KIND_TEXTS, DataField, array_of, parse_type
from lakelog.filestore.data.data_reader import read_data_file
from lakelog.filestore.data.row_ids import groups_by_row_id, has_row_groups, read_group
from lakelog.filestore.data.row_numbers import NUMBER_FIELDS, numbered, read_numbered
from lakelog.filestore.index.deletion_vectors import read_positions, without_deleted
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.levels import highest_level, runs_of, sections_of
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import KIND_FIELD, TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.read.bucket_reader import COPIES, BucketReader
from lakelog.filestore.read.fallback import branch_table, plan_read
from lakelog.filestore.read.file_pruning import is_merged_on_read
from lakelog.filestore.read.scan import DataSplit
from lakelog.filestore.read.split_rows import read_splits, read_splits_as_changes
from lakelog.filestore.schema.schema import VALUE_KIND, TableSchema

ROW_KIND = "rowkind"
_KINDS = pa.array(ROW_KIND_TEXTS)
_KIND_COLUMN = DataField(id=-1, name=ROW_KIND, type=parse_type("STRING"))


def row_table_fields(schema: TableSchema, name: str) -> tuple[DataField, ...]:
    """The columns of a system table that includes the columns of a table."""
    if name == "audit_log":
        return (_KIND_COLUMN, *schema.fields)
    if name == "binlog":
        lists = (replace(field, type=array_of(field.type.with_nullable(True))) for field in schema.fields)
        return (_KIND_COLUMN, *lists)
    if name == "row_tracking":
        return (*schema.fields, *NUMBER_FIELDS)
    return schema.fields


def audit_log(table: TableStore, snapshot: Snapshot | None, names: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a snapshot with their kinds, including deleted rows that the files still hold."""
    fields = _own_fields(table, names)
    for split in plan_read(table, snapshot).splits:
        own = table if split.branch is None else branch_table(table, split.branch)
        for rows, kinds in _kept_rows(own, split, own.schema.select([field.name for field in fields])):
            columns = [rows.column(field.name) for field in fields]
            yield pa.table([_KINDS.take(kinds), *columns], names=[ROW_KIND, *(field.name for field in fields)])


def _own_fields(table: TableStore, names: Sequence[str]) -> list[DataField]:
    """The requested columns of the table, at least one."""
    found = [field for field in table.schema.fields if field.name in names]
    return found or [table.schema.fields[0]]


def _kept_rows(
    table: TableStore, split: DataSplit, fields: Sequence[DataField]
) -> Iterator[tuple[pa.Table, pa.ChunkedArray | pa.Array]]:
    """The merged rows of a split with their kinds (int8); the last change of a key is kept even if it is a delete."""
    budget = READ_MEMORY_BUDGET.understood(table.schema.options)
    stored = table.stored
    if table.schema.is_change_log or not table.schema.primary_keys:
        columns = [field.name for field in fields]
        for batch, kinds in read_splits_as_changes(table, [replace(split, branch=None)], columns=columns):
            yield pa.Table.from_batches([batch]), kinds
    elif is_merged_on_read(stored.schema):
        reader = BucketReader(stored, split.bucket_id, memory_budget_bytes=budget, deletions=split.deletions)
        for section in sections_of(runs_of(split.files, stored.key_types), stored.key_types):
            for rows in reader.stored_rows(section, keeps_deletes=True):
                yield rows, rows.column(VALUE_KIND)
    else:
        for file in split.files:
            deletions = split.deletions.get(file.file_name)
            read = [*fields, KIND_FIELD]
            for batch in read_data_file(
                stored, split.bucket_id, file, read, piece_bytes=budget // COPIES, deletions=deletions
            ):
                yield pa.Table.from_batches([batch]), batch.column(VALUE_KIND)


def packed(changes: Iterator[pa.Table], names: Sequence[str]) -> Iterator[pa.Table]:
    """Changes as `binlog` shows them: values in lists; an update has the old value before the new one."""
    held: pa.Table | None = None
    for piece in changes:
        rows = piece if held is None else pa.concat_tables([held, piece])
        kinds = rows.column(ROW_KIND).to_pylist()
        held = rows.slice(rows.num_rows - 1) if kinds and kinds[-1] == "-U" else None  # its +U is in the next piece
        if held is not None:
            rows, kinds = rows.slice(0, rows.num_rows - 1), kinds[:-1]
        yield _packed(rows, kinds, names)
    if held is not None:
        yield _packed(held, held.column(ROW_KIND).to_pylist(), names)


def _packed(rows: pa.Table, kinds: Sequence[str], names: Sequence[str]) -> pa.Table:
    is_old = np.array([kind == "-U" and kinds[at + 1 : at + 2] == ["+U"] for at, kind in enumerate(kinds)], np.bool_)
    ends = np.flatnonzero(~is_old) + 1
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    columns = {ROW_KIND: rows.column(ROW_KIND).filter(pa.array(~is_old))}
    for name in rows.column_names:
        if name in names and name != ROW_KIND:
            columns[name] = pa.ListArray.from_arrays(offsets, rows.column(name).combine_chunks())
    return pa.table(columns)


def read_optimized(table: TableStore, snapshot: Snapshot | None, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows that need no merge: with primary key those of the highest level, from the last full compaction."""
    splits = list(plan_read(table, snapshot).splits)
    if is_merged_on_read(table.stored.schema):
        splits = [left for split in splits if (left := _highest(table.stored, split)).files]
    columns = [field.name for field in _own_fields(table, names)]
    yield from read_splits(table, splits, columns=columns)


def _highest(table: TableStore, split: DataSplit) -> DataSplit:
    highest = highest_level(table.schema.options, (file.level for file in split.files))
    return replace(split, files=tuple(file for file in split.files if file.level == highest))


def row_tracking(table: TableStore, snapshot: Snapshot | None, names: Sequence[str]) -> Iterator[pa.Table]:
    """The rows with the number that each keeps forever, and the sequence number of its last change.

    See `lakelog.filestore.data.row_numbers`.
    """
    if table.schema.options.get("row-tracking.enabled", "").lower() != "true":
        raise InvalidRequestError(
            f"table {table.name} does not number its rows: it has no row-tracking.enabled=true; read it without "
            "$row_tracking"
        )
    fields = _own_fields(table, names)
    for split in plan_read(table, snapshot).splits:
        files = split.files
        groups = groups_by_row_id(files) if has_row_groups(table.schema) else [(file,) for file in files]
        for group in groups:
            marks = [split.deletions[file.file_name] for file in group if file.file_name in split.deletions]
            rows = _numbered(table, split.bucket_id, group, fields)
            kept = without_deleted(rows, read_positions(table.file_io, marks[0])) if marks else rows
            for batch in kept:
                yield pa.Table.from_batches([batch])


def _numbered(
    table: TableStore, bucket: BucketId, group: Sequence[DataFileMeta], fields: Sequence[DataField]
) -> Iterator[pa.RecordBatch]:
    """All rows of a group of files with their numbers: if there are several files, the numbers are consecutive."""
    piece_bytes = READ_MEMORY_BUDGET.understood(table.schema.options) // COPIES
    if len(group) == 1:
        yield from read_numbered(table, bucket, group[0], fields, piece_bytes=piece_bytes)
        return
    newest = replace(group[0], max_sequence_number=max(file.max_sequence_number for file in group))
    schema = to_arrow_schema([*fields, *NUMBER_FIELDS])
    start = 0
    for batch in read_group(table, bucket, group, fields, piece_bytes=piece_bytes):
        unknown = pa.nulls(batch.num_rows, pa.int64())
        rows = pa.RecordBatch.from_arrays([*batch.columns, unknown, unknown], schema=schema)
        yield numbered(rows, newest, start)
        start += batch.num_rows
