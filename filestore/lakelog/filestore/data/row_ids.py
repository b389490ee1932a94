"""Tables whose rows are in several files at once, each with some of the columns (`data-evolution.enabled`).

Every row of such a table has a number. A file has the rows from `first_row_id` on, and the columns `write_cols`, or all
columns. Files of the same rows are one group: a column is read from the newest file which has it, and is null if no
file has it. BLOB columns are in blob files (`.blob`), which may have parts of a group's rows; if a newer blob file
refers to an older one for a value, the older one's value is read. The deletion vector of a group is that of its oldest
file. Source: Paimon, `DataEvolutionSplitRead`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema, to_arrow_type
from lakelog.common.errors import CorruptDataError, UnsupportedError
from lakelog.common.options import Option, parse_bool
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.data.data_reader import read_data_file, stored_columns, stored_file
from lakelog.filestore.formats.blob import ELSEWHERE, EXTENSION, BlobFile
from lakelog.filestore.index.deletion_vectors import DeletionFile, read_positions, without_deleted
from lakelog.filestore.io.integrity import damaged
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.schema import TableSchema

_DATA_EVOLUTION = Option(  # refused by writes, see `lakelog.filestore.options.foreign`
    key="data-evolution.enabled",
    parse=parse_bool,
    default=False,
    doc="Whether rows are joined from several files by their numbers.",
)
_BATCH_ROWS = 65_536


def has_row_groups(schema: TableSchema) -> bool:
    """Whether a row of the table may be in several files."""
    return not schema.primary_keys and _DATA_EVOLUTION.of(schema.options)


def is_blob(file: DataFileMeta) -> bool:
    """Whether a file has only values of a BLOB column."""
    return file.file_name.endswith(EXTENSION)


def groups_by_row_id(files: Sequence[DataFileMeta]) -> list[tuple[DataFileMeta, ...]]:
    """The files of a bucket by the rows that they have: files that share rows are together, in the order of the rows.

    In a group, files of columns come first, from the newest to the oldest; then blob files. A file without row numbers
    is alone. Raises CorruptDataError if files share only some of their rows. Pure.
    """
    numbered = sorted((file for file in files if file.first_row_id is not None), key=_rows_of)
    found: list[list[DataFileMeta]] = []
    end = -1
    for file in numbered:
        first, behind = _rows_of(file)
        if not found or first >= end:
            found.append([])
        found[-1].append(file)
        end = max(end, behind)
    alone = [(file,) for file in files if file.first_row_id is None]
    return [*alone, *(_ordered(group) for group in found)]


def _ordered(group: Sequence[DataFileMeta]) -> tuple[DataFileMeta, ...]:
    newest_first = sorted(group, key=lambda file: (file.max_sequence_number, file.file_name), reverse=True)
    plain = [file for file in newest_first if not is_blob(file)]
    ranges = {_rows_of(file) for file in plain}
    first, end = min(_rows_of(file)[0] for file in group), max(_rows_of(file)[1] for file in group)
    if ranges != {(first, end)}:
        names = listed(file.file_name for file in group)
        raise CorruptDataError(f"data files {names} share rows, but do not all have the rows {first} to {end - 1}")
    return (*plain, *(file for file in newest_first if is_blob(file)))


def _rows_of(file: DataFileMeta) -> tuple[int, int]:
    first = file.first_row_id or 0
    return first, first + file.row_count


@dataclass(frozen=True, slots=True)
class _Source:
    """Columns of a group that are read from one place."""

    fields: tuple[DataField, ...]
    files: tuple[DataFileMeta, ...]


def read_group(
    table: TableStore,
    bucket: BucketId,
    group: Sequence[DataFileMeta],
    fields: Sequence[DataField],
    *,
    piece_bytes: int,
    deletions: DeletionFile | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a group in the columns `fields`, in their order, in batches of about `piece_bytes`.

    Raises as `read_data_file`, and UnsupportedError for columns whose values are not in the table.
    """
    sources = _sources(table, group, fields)
    count = group[0].row_count
    streams = [_stream(table, bucket, source, group, piece_bytes) for source in sources]
    schema = to_arrow_schema(fields)
    batches = _joined(streams, [source.fields for source in sources], count, schema)
    if deletions is not None:
        batches = without_deleted(batches, read_positions(table.file_io, deletions))
    yield from batches


def _sources(table: TableStore, group: Sequence[DataFileMeta], fields: Sequence[DataField]) -> list[_Source]:
    """The sources of the columns; columns that no file has are left out, unless there are no others."""
    plain = [file for file in group if not is_blob(file)]
    by_file: dict[str, list[DataField]] = {}
    found: list[_Source] = []
    ids = {file.file_name: {field.id for field in stored_columns(table, file)} for file in group}
    for field in fields:
        blobs = tuple(file for file in group if is_blob(file) and field.id in ids[file.file_name])
        if blobs:
            _check_is_plain(table, field)
            found.append(_Source((field,), blobs))
            continue
        newest = next((file for file in plain if field.id in ids[file.file_name]), None)
        if newest is not None:
            by_file.setdefault(newest.file_name, []).append(field)
    found += [_Source(tuple(by_file[file.file_name]), (file,)) for file in plain if file.file_name in by_file]
    return found or [_Source(tuple(fields[:1]), (plain[0],))]  # one column is read, to count the rows


def _check_is_plain(table: TableStore, field: DataField) -> None:
    if field.type.root is not TypeRoot.BLOB:
        raise UnsupportedError(
            f"column {field.name!r} of table {table.name} is {field.type} in blob files, from which only columns "
            "of the type BLOB can be read; leave it out"
        )


def _stream(
    table: TableStore, bucket: BucketId, source: _Source, group: Sequence[DataFileMeta], piece_bytes: int
) -> Iterator[pa.RecordBatch]:
    if is_blob(source.files[0]):
        return _blob_batches(table, bucket, source, group[0], piece_bytes)
    return read_data_file(table, bucket, source.files[0], source.fields, piece_bytes=piece_bytes)


def _joined(
    streams: Sequence[Iterator[pa.RecordBatch]],
    columns: Sequence[Sequence[DataField]],
    count: int,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Batches of the same rows side by side; the columns that no stream has are null."""
    held: list[pa.RecordBatch | None] = [None for _ in streams]
    done = 0
    while done < count:
        for number, stream in enumerate(streams):
            held[number] = _more(held[number], stream)
        size = min([_BATCH_ROWS, count - done, *(batch.num_rows for batch in held if batch is not None)])
        arrays: dict[str, pa.Array] = {}
        for number, batch in enumerate(held):
            assert batch is not None
            part = batch.slice(0, size)
            arrays |= {field.name: part.column(at) for at, field in enumerate(columns[number])}
            held[number] = batch.slice(size)
        nulls = {name: pa.nulls(size, schema.field(name).type) for name in schema.names if name not in arrays}
        arrays |= nulls
        yield pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)
        done += size


def _more(held: pa.RecordBatch | None, stream: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
    """The rest of a batch, or the next one that has rows; each file has as many rows as its manifest says."""
    while held is None or not held.num_rows:
        held = next(stream)
    return held


def _blob_batches(
    table: TableStore, bucket: BucketId, source: _Source, anchor: DataFileMeta, piece_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The values of a BLOB column, each from the newest file that has it."""
    first, end = _rows_of(anchor)
    schema = to_arrow_schema(source.fields)
    kind = to_arrow_type(source.fields[0].type)
    with ExitStack() as stack:
        opened = [stack.enter_context(_open_blob(table, bucket, file)) for file in source.files]
        _check_covered(table, source, first, end)
        owner, size = np.full(end - first, -1, np.int64), np.zeros(end - first, np.int64)
        for number in reversed(range(len(opened))):  # from the oldest on: the newest wins
            start, behind = (row - first for row in _rows_of(source.files[number]))
            is_here = opened[number].lengths != ELSEWHERE
            owner[start:behind][is_here] = number
            size[start:behind][is_here] = np.maximum(opened[number].lengths[is_here], 0)
        starts = [_rows_of(file)[0] - first for file in source.files]
        cuts = np.flatnonzero(np.diff(np.cumsum(size) // max(1, piece_bytes))) + 1
        bounds = [0, *cuts.tolist(), end - first]
        for low, high in itertools.pairwise(bounds):
            for begin in range(low, high, _BATCH_ROWS):
                rows = range(begin, min(high, begin + _BATCH_ROWS))
                values = [None if owner[row] < 0 else opened[owner[row]].read(row - starts[owner[row]]) for row in rows]
                yield pa.RecordBatch.from_arrays([pa.array(values, kind)], schema=schema)


def _check_covered(table: TableStore, source: _Source, first: int, end: int) -> None:
    """Raise CorruptDataError if a row is in no blob file, before memory is allocated for all rows."""
    covered = first
    for start, behind in sorted(_rows_of(file) for file in source.files):
        if start > covered:
            break
        covered = max(covered, behind)
    if covered < end:
        names = listed(file.file_name for file in source.files)
        raise CorruptDataError(
            f"blob files {names} of table {table.name} have the rows {first} to {covered - 1} of column "
            f"{source.fields[0].name!r}, its other columns those to {end - 1}"
        )


def _open_blob(table: TableStore, bucket: BucketId, file: DataFileMeta) -> BlobFile:
    stored = stored_file(table, bucket, file)
    opened = BlobFile(stored)
    if opened.row_count != file.row_count:
        with opened:
            raise damaged(stored.path, f"it has {opened.row_count} values, expected {file.row_count}")
    return opened
