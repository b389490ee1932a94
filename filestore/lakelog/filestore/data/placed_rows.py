"""Rows with their places, of tables without primary key, and files without the rows at some places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import DataField
from lakelog.filestore.data.data_reader import file_fields, opened_file, parts_of, read_data_file
from lakelog.filestore.data.data_writer import write_data_files
from lakelog.filestore.data.row_groups import RowFilter
from lakelog.filestore.data.row_pieces import StoredRows
from lakelog.filestore.index.deletion_vectors import DeletionFile, read_positions, without_deleted
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.evolution import FieldMapping
from lakelog.filestore.schema.row_places import FILE, FILE_FIELD, PLACE_FIELDS, POSITION, POSITION_FIELD


def read_placed_file(
    table: TableStore,
    bucket: BucketId,
    file: DataFileMeta,
    fields: Sequence[DataField],
    *,
    piece_bytes: int,
    deletions: DeletionFile | None = None,
    rows: RowFilter | None = None,
) -> Iterator[pa.RecordBatch]:
    """As `read_data_file`, with the columns of places among `fields`."""
    stored = file_fields(table, file, [field for field in fields if field not in PLACE_FIELDS])
    mapping = FieldMapping.of([field for field in fields if field not in PLACE_FIELDS], stored)
    read = mapping.stored or (stored[0],)  # one column, to count the rows
    schema = to_arrow_schema(fields)
    with opened_file(table, bucket, file) as opened:
        deleted = None if deletions is None else read_positions(table.file_io, deletions)
        for start, batches in parts_of(opened, read, piece_bytes, rows, (table.schema.fields, stored)):
            numbered = _numbered(batches, start)
            for batch in numbered if deleted is None else without_deleted(numbered, deleted, start=start):
                own = mapping.adapt(batch.drop_columns([POSITION]))
                made = {name: own.column(name) for name in own.schema.names}
                if FILE_FIELD in fields:
                    made[FILE] = pa.repeat(file.file_name, batch.num_rows)
                if POSITION_FIELD in fields:
                    made[POSITION] = batch.column(POSITION)
                yield pa.RecordBatch.from_arrays([made[name] for name in schema.names], schema=schema)


def _numbered(batches: Iterator[pa.RecordBatch], start: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.append_column(POSITION, pa.array(np.arange(start, start + batch.num_rows)))
        start += batch.num_rows


def file_without(
    table: TableStore,
    bucket: BucketId,
    file: DataFileMeta,
    positions: npt.NDArray[np.uint64],
    *,
    deletions: DeletionFile | None,
    budget_bytes: int,
) -> list[DataFileMeta]:
    """The new files that replace a file, without the rows at `positions`, which ascend; none if no row stays.

    Reads and writes within the budget. Raises NotFoundError, CorruptDataError.
    """
    taken = positions
    if deletions is not None:
        taken = np.union1d(positions, read_positions(table.file_io, deletions))
    if len(taken) == file.row_count:
        return []
    batches = read_data_file(table, bucket, file, table.schema.fields, piece_bytes=budget_bytes // 2)
    pieces = _stored(without_deleted(batches, taken), file.min_sequence_number)
    return write_data_files(table, bucket, pieces, level=file.level)


def _stored(batches: Iterator[pa.RecordBatch], first: int) -> Iterator[StoredRows]:
    for batch in batches:
        count = batch.num_rows
        yield StoredRows(
            rows=pa.Table.from_batches([batch]),
            sequences=pa.array(np.arange(first, first + count)),
            kinds=pa.array(np.zeros(count, np.int8)),
        )
        first += count
