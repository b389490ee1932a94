"""One data file's rows in the columns of a table's schema: whatever its format, its schema and its deletion vector."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema, to_arrow_type
from lakelog.common.errors import NotFoundError, UnsupportedError
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.data.row_groups import RowFilter, groups_left
from lakelog.filestore.formats.opening import DataFile, open_data_file
from lakelog.filestore.formats.parquet import FETCH_BYTES_MIN, ParquetFile
from lakelog.filestore.formats.stored_file import StoredFile
from lakelog.filestore.index.deletion_vectors import DeletionFile, Positions, read_positions, without_deleted
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.merge.deduplicate import are_absent
from lakelog.filestore.merge.order import key_at, key_frame, rows_before, rows_up_to
from lakelog.filestore.metadata.data_file import DataFileMeta
from lakelog.filestore.metadata.manifest_entries import BucketId
from lakelog.filestore.metadata.store import KIND_FIELD, SEQUENCE_FIELD, TableStore
from lakelog.filestore.schema.evolution import FieldMapping, check_not_narrowed
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.stored_schema import stored_schema

_BATCH_ROWS_MAX = 65_536
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
    """The rows of a data file in the columns `fields` of the table's schema, sequence number and kind among them.

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

    `columns` are those of the table's schema and those of the file's.
    """
    estimate = max(row_bytes(read), opened.row_bytes, 1)
    batch_rows = min(max(piece_bytes // estimate, _BATCH_ROWS_MIN), _BATCH_ROWS_MAX)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRows:
    """Rows of a data file that have given keys: their key frame, and their positions in the file."""

    rows: pa.Table
    keys: pl.DataFrame
    positions: npt.NDArray[np.int64]


def read_rows_of_keys(
    table: TableStore,
    bucket: BucketId,
    file: DataFileMeta,
    fields: Sequence[DataField],
    keys: pl.DataFrame,
    *,
    deleted: Positions | None = None,
) -> Iterator[KeyRows]:
    """The rows of a data file whose keys are in the key frame `keys`, in the columns `fields`.

    `keys` is in key order. Rows at the positions `deleted` are left out. Without `fields` only key columns are read.
    Raises as `read_data_file`.
    """
    stored = file_fields(table, file, fields)
    key_fields = table.schema.key_fields
    key_mapping, mapping = FieldMapping.of(key_fields, stored), FieldMapping.of(fields, stored)
    with opened_file(table, bucket, file) as opened:
        if isinstance(opened, ParquetFile):
            pieces = _row_groups(opened, key_mapping, mapping, _groups_with(opened, key_mapping, key_fields, keys))
        else:
            pieces = _whole(opened, key_mapping, mapping)
        for piece in pieces:
            frame = key_frame(piece.keys, key_fields)
            hits = np.flatnonzero(~are_absent(frame, _between(keys, frame)).to_numpy())
            if deleted is not None:
                hits = hits[~np.isin(hits + piece.start, deleted)]
            if len(hits):
                rows = (piece.rows() if fields else piece.keys.select([])).take(pa.array(hits))
                yield KeyRows(rows=rows, keys=frame[hits], positions=hits + piece.start)


def _between(keys: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The keys, in key order, from the first of `rows`, which are in key order too, to the last."""
    start = rows_before(keys, key_at(rows, 0))
    return keys.slice(start, rows_up_to(keys, key_at(rows, rows.height - 1)) - start)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Rows of a file from a position on: their keys, and a function that reads them."""

    start: int
    keys: pa.Table
    rows: Callable[[], pa.Table]


def _row_groups(
    opened: ParquetFile, key_mapping: FieldMapping, mapping: FieldMapping, groups: Sequence[int]
) -> Iterator[_Piece]:
    starts = np.cumsum([0, *(rows for rows, _ in opened.row_groups)])
    for group in groups:
        keys = _adapted(key_mapping, opened.read(key_mapping.stored, row_groups=[group]))
        yield _Piece(int(starts[group]), keys, partial(_read_group, opened, mapping, group))


def _read_group(opened: ParquetFile, mapping: FieldMapping, group: int) -> pa.Table:
    return _adapted(mapping, opened.read(mapping.stored, row_groups=[group]))


def _whole(opened: DataFile, key_mapping: FieldMapping, mapping: FieldMapping) -> Iterator[_Piece]:
    start = 0
    stored = tuple(dict.fromkeys([*key_mapping.stored, *mapping.stored]))
    for batch in opened.iter_batches(stored, batch_rows=_BATCH_ROWS_MAX):
        rows = pa.Table.from_batches([batch])
        keys = _adapted(key_mapping, rows.select([field.name for field in key_mapping.stored]))
        values = rows.select([field.name for field in mapping.stored])
        yield _Piece(start, keys, partial(_adapted, mapping, values))
        start += batch.num_rows


def _adapted(mapping: FieldMapping, rows: pa.Table) -> pa.Table:
    adapted = [mapping.adapt(batch) for batch in rows.to_batches()]
    return pa.Table.from_batches(adapted) if adapted else to_arrow_schema(mapping.wanted).empty_table()


def _groups_with(
    opened: ParquetFile, key_mapping: FieldMapping, key_fields: Sequence[DataField], keys: pl.DataFrame
) -> list[int]:
    """The row groups that may hold one of the keys, by the bounds of their first key column."""
    first, wanted = key_fields[0], keys.to_series(0)
    if key_mapping.stored[0].type != first.type:  # widened since: its bounds are of another type
        return list(range(len(opened.row_groups)))
    bounds = opened.bounds_of(key_mapping.stored[0])
    known = [group for group, found in enumerate(bounds) if found is not None]
    if not known:
        return list(range(len(bounds)))
    ends = key_frame(pa.table({first.name: pa.concat_arrays([bounds[group] for group in known])}), [first]).to_series()
    low, high = wanted.search_sorted(ends[::2], "left"), wanted.search_sorted(ends[1::2], "right")
    ruled_out = {known[place] for place in np.flatnonzero((low == high).to_numpy())}
    return [group for group in range(len(bounds)) if group not in ruled_out]


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
    """BLOB columns whose values are outside of the table."""
    lists = (schema.options.get(key, "") for key in BLOBS_ELSEWHERE)
    return {name.strip() for names in lists for name in names.split(",")}


def _check_held(table: TableStore, wanted: Sequence[DataField]) -> None:
    """Raise UnsupportedError for a BLOB column whose values are outside of the table."""
    if table.schema.has_blobs:
        kept = _kept(table.schema)
        for field in wanted:
            if field.type.root is TypeRoot.BLOB and field.name in kept:
                raise UnsupportedError(
                    f"column {field.name!r} of table {table.name} holds references to its values, by an option of "
                    f"{', '.join(BLOBS_ELSEWHERE)}, which lakelog does not follow; leave the column out"
                )


def file_fields(table: TableStore, file: DataFileMeta, wanted: Sequence[DataField]) -> list[DataField]:
    """The columns of a file. Raises ConflictError where the wanted ones, of an older schema, would lose values."""
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


@contextmanager
def opened_file(table: TableStore, bucket: BucketId, file: DataFileMeta) -> Iterator[DataFile]:
    stored = stored_file(table, bucket, file)
    with missing_named(stored.path):
        opened = open_data_file(stored)
    with opened:
        if opened.row_count != file.row_count:
            raise damaged(stored.path, f"it has {opened.row_count} rows, expected {file.row_count}")
        yield opened


@contextmanager
def missing_named(path: str) -> Iterator[None]:
    """Say of a data file that is missing why that may be. Raises NotFoundError."""
    try:
        yield
    except NotFoundError as error:
        raise NotFoundError(
            f"data file {path} is missing: its snapshot has expired meanwhile, or the file was lost; plan the read "
            "again, and when it is still missing restore it from a copy or read a snapshot that does not need it"
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
