"""One data file's rows in the columns of a table's schema, for any format, file schema and deletion vector."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import pyarrow as pa

from lakelog.common.arrow import to_arrow_type
from lakelog.common.errors import LakelogError, NotFoundError, UnsupportedError
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.data.row_groups import RowFilter, groups_left
from lakelog.filestore.formats.blocks.checked import BLOCK_BYTES
from lakelog.filestore.formats.blocks.stored_file import StoredFile, fetch_stored_ends
from lakelog.filestore.formats.opening import DataFile, open_data_file
from lakelog.filestore.formats.parquet.parquet import FETCH_BYTES_MIN, ParquetFile
from lakelog.filestore.formats.parquet.parquet_footer import cached_footer
from lakelog.filestore.index.deletion_vectors import DeletionFile, read_positions, without_deleted
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import KIND_FIELD, SEQUENCE_FIELD, TableStore
from lakelog.filestore.schema.evolution import FieldMapping, check_not_narrowed
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.stored_schema import stored_schema

BATCH_ROWS_MAX = 65_536
_ENDS_AT_ONCE = 32
_BATCH_ROWS_MIN = 64
BLOBS_ELSEWHERE = ("blob-descriptor-field", "blob.stored-descriptor-fields", "blob-view-field")
_VARIABLE_BYTES = 32  # a guess for one string or nested value, until rows have been read


def read_data_file(
    table: TableStore,
    bucket: BucketId,
    file: DataFileMeta,
    fields: Sequence[DataField],
    *,
    piece_bytes: int,
    deletions: DeletionFile | None = None,
    rows: RowFilter | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a data file in the columns `fields` of the schema, with sequence number and kind at most.

    Row groups without a row that `rows` needs are left out. Batches hold at most about `piece_bytes`. Raises
    NotFoundError when the file has expired, CorruptDataError when it is damaged, UnsupportedError for formats and
    changes of types that lakelog does not read, ConflictError for a file of a newer schema whose values the table's
    older one cannot hold.
    """
    stored = file_fields(table, file, fields)
    mapping = FieldMapping.of(fields, stored)
    read = mapping.stored or (stored[0],)  # one column, to count the rows
    with opened_file(table, bucket, file) as opened:
        positions = None if deletions is None else read_positions(table.file_io, deletions)
        for start, batches in parts_of(opened, read, piece_bytes, rows, (table.schema.fields, stored)):
            left = batches if positions is None else without_deleted(batches, positions, start=start)
            for batch in left:
                yield mapping.adapt(batch)


def parts_of(
    opened: DataFile,
    read: Sequence[DataField],
    piece_bytes: int,
    rows: RowFilter | None,
    columns: tuple[Sequence[DataField], Sequence[DataField]],
) -> Iterator[tuple[int, Iterator[pa.RecordBatch]]]:
    """The parts of a file that may hold needed rows: the position of the first row, and the batches.

    `columns` are those of the table's schema and those of the file's schema.
    """
    estimate = max(row_bytes(read), opened.row_bytes, 1)
    batch_rows = min(max(piece_bytes // estimate, _BATCH_ROWS_MIN), BATCH_ROWS_MAX)
    if not isinstance(opened, ParquetFile):
        yield 0, opened.iter_batches(read, batch_rows=batch_rows)
        return
    fetch_bytes = max(piece_bytes, FETCH_BYTES_MIN)
    batches_of = partial(opened.iter_batches, read, batch_rows=batch_rows, fetch_bytes=fetch_bytes)
    if rows is None:
        yield 0, batches_of()
        return
    left = groups_left(opened, rows, *columns)
    starts = [0, *itertools.accumulate(count for count, _ in opened.row_groups)]
    for _, numbered in itertools.groupby(enumerate(left), key=lambda item: item[1] - item[0]):
        neighbours = [group for _, group in numbered]
        yield starts[neighbours[0]], batches_of(row_groups=neighbours)


def stored_columns(table: TableStore, file: DataFileMeta) -> list[DataField]:
    """The columns of the table that a file has, as its schema names them.

    Values of BLOB columns are in blob files, unless an option of the table puts references to them into data files.
    """
    is_same = file.schema_id == table.schema.id
    schema = table.schema if is_same else stored_schema(table.schemas.get_beside(file.schema_id, table.schema))
    if file.write_cols is None and not table.schema.has_blobs:
        return list(schema.fields)
    if file.write_cols is not None:
        return [field for field in schema.fields if field.name in file.write_cols]
    return [field for field in schema.fields if field.type.root is not TypeRoot.BLOB or field.name in _kept(schema)]


def _kept(schema: TableSchema) -> set[str]:
    """BLOB columns whose values are outside the table."""
    lists = (schema.options.get(key, "") for key in BLOBS_ELSEWHERE)
    return {name.strip() for names in lists for name in names.split(",")}


def _check_held(table: TableStore, wanted: Sequence[DataField]) -> None:
    """Raise UnsupportedError for a BLOB column whose values are outside the table."""
    if table.schema.has_blobs:
        kept = _kept(table.schema)
        for field in wanted:
            if field.type.root is TypeRoot.BLOB and field.name in kept:
                raise UnsupportedError(
                    f"column {field.name!r} of table {table.name} holds references to its values, because of one "
                    f"of the options {', '.join(BLOBS_ELSEWHERE)}, which lakelog does not follow; leave the column out"
                )


def file_fields(table: TableStore, file: DataFileMeta, wanted: Sequence[DataField]) -> list[DataField]:
    """The columns of a file. Raises ConflictError if the wanted ones, of an older schema, would lose values."""
    _check_held(table, wanted)
    stored = [*stored_columns(table, file), SEQUENCE_FIELD, KIND_FIELD]
    if file.schema_id > table.schema.id:
        check_not_narrowed(wanted, stored, path=file.file_name)
    return stored


def stored_file(table: TableStore, bucket: BucketId, file: DataFileMeta) -> StoredFile:
    """A data file of a bucket, to be opened."""
    return StoredFile(
        file_io=table.file_io,
        path=table.data_path(bucket, file),
        size_bytes=file.file_size_bytes,
        checksums=file.checksums,
    )


def fetch_ends(table: TableStore, files: Iterable[tuple[BucketId, DataFileMeta]]) -> None:
    """Fetch the ends of data files that are about to be read, at once, as far as that saves requests.

    Files whose footers are known are left out, unless they have nothing else to fetch. Raises nothing: a file that
    cannot be read is an error of its reader.
    """
    wanted = []
    for bucket, file in files:
        stored = stored_file(table, bucket, file)
        is_known = cached_footer(stored.path, stored.checksums) is not None
        if not is_known or file.file_size_bytes <= BLOCK_BYTES:
            wanted.append(stored)
    for start in range(0, len(wanted), _ENDS_AT_ONCE):
        with suppress(LakelogError):
            fetch_stored_ends(wanted[start : start + _ENDS_AT_ONCE])


@contextmanager
def opened_file(table: TableStore, bucket: BucketId, file: DataFileMeta) -> Iterator[DataFile]:
    stored = stored_file(table, bucket, file)
    with missing_named(stored.path):
        opened = open_data_file(stored)
    with opened:
        if opened.row_count != file.row_count:
            raise damaged(stored.path, f"it has {opened.row_count} rows, expected {file.row_count}")
        try:
            yield opened
        except NotFoundError as error:
            if not str(error).startswith(stored.path):  # of another file, such as one of deletion vectors
                raise
            with missing_named(stored.path):  # deleted since, or opened without a request
                raise


@contextmanager
def missing_named(path: str) -> Iterator[None]:
    """Say why a data file may be missing, if it is. Raises NotFoundError."""
    try:
        yield
    except NotFoundError as error:
        raise NotFoundError(
            f"data file {path} is missing: its snapshot has expired meanwhile, or the file was lost; plan the read "
            "again, and when it is still missing restore it from a copy or read a snapshot that does not need it"
        ) from error


def row_bytes(fields: Sequence[DataField]) -> int:
    """An estimate of a row's bytes in memory."""
    total = 1
    for field in fields:
        kind = to_arrow_type(field.type)
        try:
            total += -(-kind.bit_width // 8)
        except ValueError:  # types of no fixed width
            total += _VARIABLE_BYTES
    return total
