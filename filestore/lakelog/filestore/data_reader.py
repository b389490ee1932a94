"""One data file's rows in the columns of a table's schema: whatever its format, its schema and its deletion vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakelog.common.arrow import to_arrow_type
from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.common.types import DataField
from lakelog.filestore.data_file import DataFileMeta
from lakelog.filestore.deletion_vectors import DeletionFile, read_positions, without_deleted
from lakelog.filestore.evolution import FieldMapping
from lakelog.filestore.formats.opening import DataFile, open_data_file
from lakelog.filestore.live_files import BucketId
from lakelog.filestore.store import KIND_FIELD, SEQUENCE_FIELD, TableStore

_BATCH_ROWS_MAX = 65_536
_BATCH_ROWS_MIN = 64
_VARIABLE_BYTES = 32  # a guess for one text or nested value, until rows have been seen


def read_data_file(
    table: TableStore,
    bucket: BucketId,
    file: DataFileMeta,
    fields: Sequence[DataField],
    *,
    piece_bytes: int,
    deletions: DeletionFile | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a data file in the columns `fields` of the table's schema, sequence number and kind among them.

    Batches hold at most about `piece_bytes`. Raises NotFoundError when the file has expired, CorruptDataError when it
    is damaged, UnsupportedError for formats and changes of types that lakelog does not read.
    """
    path = table.data_path(*bucket, file)
    schema = table.schema if file.schema_id == table.schema.id else table.schemas.get(file.schema_id)
    stored = [*schema.fields, SEQUENCE_FIELD, KIND_FIELD]
    mapping = FieldMapping.of(fields, stored)
    read = mapping.stored or (stored[0],)  # to have the rows counted
    with _opened(table, path) as opened:
        if opened.row_count != file.row_count:
            raise CorruptDataError(f"data file {path} has {opened.row_count} rows, expected {file.row_count}")
        estimate = max(row_bytes(read), opened.row_bytes, 1)
        batch_rows = min(max(piece_bytes // estimate, _BATCH_ROWS_MIN), _BATCH_ROWS_MAX)
        batches = opened.iter_batches(read, batch_rows=batch_rows)
        if deletions is not None:
            batches = without_deleted(batches, read_positions(table.file_io, deletions))
        for batch in batches:
            yield mapping.adapt(batch)


def _opened(table: TableStore, path: str) -> DataFile:
    try:
        return open_data_file(table.file_io, path)
    except NotFoundError as error:
        raise NotFoundError(
            f"data file {path} is gone: its snapshot has expired meanwhile; plan the read again"
        ) from error


def row_bytes(fields: Sequence[DataField]) -> int:
    """A guess of a row's bytes in memory."""
    total = 1
    for field in fields:
        kind = to_arrow_type(field.type)
        try:
            total += -(-kind.bit_width // 8)
        except ValueError:  # types of no fixed width
            total += _VARIABLE_BYTES
    return total
