"""Writes rows to data files, and returns the metadata of these files."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.common.clock import system_millis
from lakelog.common.errors import UnavailableError
from lakelog.common.types import DataField, RowKind
from lakelog.filestore.data.key_bounds import KeyBounds, bounds_of_keys, joined_bounds
from lakelog.filestore.data.row_pieces import StoredRows, joined_pieces
from lakelog.filestore.data.value_stats import StatsCollector, columns_with_nan, has_comparable_bounds
from lakelog.filestore.encoding.binary_row import StoredValue, serialize_row, stored_row
from lakelog.filestore.formats.file_writing import create_data_file
from lakelog.filestore.formats.parquet.parquet_writing import ROW_GROUP_BYTES
from lakelog.filestore.merge.lookups import is_looked_up
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, FileSource, SimpleStats, wall_clock_millis
from lakelog.filestore.metadata.manifests.levels import highest_level
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import KIND_FIELD, SEQUENCE_FIELD, TableStore
from lakelog.filestore.metadata.tables.unnamed_files import discard_files
from lakelog.filestore.options.files import (
    FILE_BLOCK_SIZE,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_COMPRESSION_ZSTD_LEVEL,
    FILE_FORMAT_PER_LEVEL,
    TARGET_FILE_SIZE,
    THIN_MODE,
)
from lakelog.filestore.options.layout import DATA_FILE_PREFIX
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET
from lakelog.filestore.schema.paths import FileNames
from lakelog.filestore.schema.schema import KEY_FIELD_ID_START, TableSchema
from lakelog.filestore.schema.schema_rules import KEY_PREFIX

logger = logging.getLogger("lakelog.filestore")

TARGET_FILE_BYTES = 128 << 20
APPEND_FILE_BYTES = 256 << 20
Value = TypeVar("Value")
LOOKED_UP_GROUP_BYTES = 4 << 20  # a lookup reads the row groups that hold its keys


def file_fields(schema: TableSchema) -> tuple[DataField, ...]:
    """The columns of a data file: keys (not in thin mode), sequence number, kind, then all columns of the table.

    Files of a table without primary key have only the columns of the table.
    """
    if not schema.primary_keys:
        return schema.fields
    keys = (
        replace(column, name=KEY_PREFIX + column.name, id=column.id + KEY_FIELD_ID_START)
        for column in (() if THIN_MODE.of(schema.options) else schema.key_fields)
    )
    return (*keys, SEQUENCE_FIELD, KIND_FIELD, *schema.fields)


def _for_level(given: Mapping[int, Value] | None, schema: TableSchema, level: int, otherwise: Value) -> Value:
    """The value that is given for a level. Only tables with a primary key have levels."""
    return (given or {}).get(level, otherwise) if schema.primary_keys else otherwise


def target_file_bytes(schema: TableSchema) -> int:
    """The size from which a writer starts another data file."""
    return TARGET_FILE_SIZE.of(schema.options) or (TARGET_FILE_BYTES if schema.primary_keys else APPEND_FILE_BYTES)


def write_data_files(
    table: TableStore,
    bucket: BucketId,
    pieces: Iterable[StoredRows],
    *,
    level: int,
    source: FileSource = FileSource.APPEND,
    names: FileNames | None = None,
    prefix: str | None = None,
) -> list[DataFileMeta]:
    """Write pieces with ascending key ranges into files of about the target size. Without rows no file is written.

    `prefix` begins the files' names: that of data files by default. After an error, the files written so far are
    deleted: no snapshot names them yet. Raises UnavailableError.
    """
    names = names or FileNames()
    prefix = prefix or DATA_FILE_PREFIX.of(table.schema.options)
    target = target_file_bytes(table.schema)
    folder = table.bucket_dir(bucket)
    small_groups = LOOKED_UP_GROUP_BYTES if is_looked_up(table.schema) else None
    group_bytes = FILE_BLOCK_SIZE.of(table.schema.options) or small_groups
    # Rows of a group are held until it is written, so they count towards the budget of the merge that creates them.
    block_bytes = group_bytes or min(ROW_GROUP_BYTES, READ_MEMORY_BUDGET.understood(table.schema.options) // 4)
    extension = _for_level(
        FILE_FORMAT_PER_LEVEL.of(table.schema.options), table.schema, level, table.schema.file_format
    )
    done: list[DataFileMeta] = []
    current: _OpenFile | None = None
    with_nan: frozenset[str] = frozenset()
    try:
        for piece in joined_pieces(pieces, block_bytes):
            with_nan |= columns_with_nan(piece.rows, table.schema.fields)
            if current is not None and current.with_nan != with_nan:  # the bounds in its footer would lack NaN
                done.append(current.finish(source))
                current = None
            if current is None:
                name = names.data_file(extension, prefix=prefix)
                current = _OpenFile(table, f"{folder}/{name}", name, level, block_bytes=group_bytes, with_nan=with_nan)
            current.write(piece)
            if current.size_bytes >= target:
                done.append(current.finish(source))
                current = None
        if current is not None:
            done.append(current.finish(source))
    except Exception as error:
        if current is not None:
            current.abandon()
        discard_files(table, (f"{folder}/{file.file_name}" for file in done))
        if isinstance(error, OSError):  # a stream that is written piece by piece raises only these errors
            raise UnavailableError(f"a data file in {folder} could not be written: {error}") from error
        raise
    return done


@dataclass(slots=True)
class _Facts:
    """The statistics of the rows written so far."""

    row_count: int = 0
    delete_row_count: int = 0
    min_sequence: int | None = None
    max_sequence: int | None = None
    first_key: list[StoredValue] | None = None
    last_key: list[StoredValue] | None = None
    bounds: tuple[KeyBounds, ...] = ()


class _OpenFile:
    """One data file being written."""

    def __init__(
        self,
        table: TableStore,
        path: str,
        name: str,
        level: int,
        *,
        block_bytes: int | None,
        with_nan: frozenset[str],
    ) -> None:
        options = table.schema.options
        self.with_nan = with_nan  # the columns that may hold NaN
        self._table = table
        self._path = path
        self._name = name
        self._fields = file_fields(table.schema)
        self._facts = _Facts()
        self._level = level
        self._stats = StatsCollector(table.schema)
        self._writer = create_data_file(
            table.file_io,
            path,
            self._fields,
            compression=_for_level(
                FILE_COMPRESSION_PER_LEVEL.of(options), table.schema, level, FILE_COMPRESSION.of(options)
            ),
            compression_level=FILE_COMPRESSION_ZSTD_LEVEL.of(options),
            block_bytes=block_bytes,
            is_looked_up=bool(table.schema.primary_keys) and level >= highest_level(options, ()),
            without_bounds={*with_nan, *(KEY_PREFIX + name for name in with_nan)},
        )

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._writer.size_bytes

    def write(self, piece: StoredRows) -> None:
        """Append rows whose keys are above those written before."""
        schema = self._table.schema
        columns = [piece.rows.column(name) for name in schema.field_names]
        if schema.primary_keys:
            keys = () if THIN_MODE.of(schema.options) else schema.trimmed_primary_keys
            columns = [*(piece.rows.column(name) for name in keys), piece.sequences, piece.kinds, *columns]
        self._writer.write(pa.table(columns, names=[column.name for column in self._fields]))
        self._stats.learn(piece.rows, with_nan=self.with_nan)
        self._learn(piece)

    def finish(self, source: FileSource) -> DataFileMeta:
        """Make the file durable and return its metadata."""
        size = self._writer.finish()
        value_stats, value_stats_cols = self._stats.finish(self._writer.footer)
        facts, kinds = self._facts, self._table.key_types
        assert facts.first_key is not None
        assert facts.last_key is not None
        assert facts.min_sequence is not None
        assert facts.max_sequence is not None
        return DataFileMeta(
            file_name=self._name,
            file_size_bytes=size,
            row_count=facts.row_count,
            min_key=serialize_row(kinds, facts.first_key),
            max_key=serialize_row(kinds, facts.last_key),
            key_stats=_key_stats(facts.bounds),
            value_stats=value_stats,
            value_stats_cols=value_stats_cols,
            min_sequence_number=facts.min_sequence,
            max_sequence_number=facts.max_sequence,
            schema_id=self._table.schema.id,
            level=self._level,
            creation_time_millis=wall_clock_millis(system_millis()),
            delete_row_count=facts.delete_row_count,
            file_source=source,
            checksums=self._writer.checksums,
        )

    def abandon(self) -> None:
        """Close and delete the unfinished file."""
        with contextlib.suppress(OSError), self._writer:
            pass
        discard_files(self._table, [self._path])

    def _learn(self, piece: StoredRows) -> None:
        facts, kinds = self._facts, self._table.key_types
        columns = [piece.rows.column(name) for name in self._table.schema.trimmed_primary_keys]
        if facts.first_key is None:
            facts.first_key = stored_row(kinds, columns, 0)
        facts.last_key = stored_row(kinds, columns, piece.rows.num_rows - 1)
        facts.row_count += piece.rows.num_rows
        row_kinds = np.asarray(piece.kinds)
        facts.delete_row_count += int(((row_kinds == RowKind.UPDATE_BEFORE) | (row_kinds == RowKind.DELETE)).sum())
        bounds = pc.min_max(piece.sequences)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        facts.min_sequence = low if facts.min_sequence is None else min(low, facts.min_sequence)
        facts.max_sequence = high if facts.max_sequence is None else max(high, facts.max_sequence)
        facts.bounds = joined_bounds(facts.bounds, bounds_of_keys(piece.rows, self._table.schema.key_fields))


def _key_stats(bounds: Sequence[KeyBounds]) -> SimpleStats:
    known = [(column.least, column.most) if has_comparable_bounds(column.kind) else (None, None) for column in bounds]
    kinds = [column.kind for column in bounds]
    return SimpleStats(
        min_values=serialize_row(kinds, [least for least, _ in known]),
        max_values=serialize_row(kinds, [most for _, most in known]),
        null_counts=tuple(column.null_count for column in bounds),
    )
