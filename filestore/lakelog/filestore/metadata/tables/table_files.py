"""The data files of a snapshot as users see them, with values in place of bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lakelog.common.types import DataField
from lakelog.filestore.encoding.binary_row import deserialize_row, to_scalar
from lakelog.filestore.encoding.key_order import comparable_key
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.schema import TableSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """One data file of a table.

    `partition` is column -> value, empty without partitions. `min_key` and `max_key` are the values of the primary key
    without partition columns in the first and the last row, both within the file; None without primary key.
    `row_count` counts rows of the file: a key may be in several files, and only one of its rows is a row of the table.
    """

    path: str
    partition: Mapping[str, object]
    bucket: int
    level: int
    row_count: int
    size_bytes: int
    min_key: tuple[object, ...] | None
    max_key: tuple[object, ...] | None
    schema_id: int


def files_of_table(table: TableStore, snapshot: Snapshot | None) -> list[TableFile]:
    """The data files of a snapshot, by partition, bucket, level and age, oldest first.

    Raises CorruptDataError for a damaged manifest.
    """
    kinds = [field.type for field in table.schema.partition_fields]
    entries = sorted(
        table.live_files.of(snapshot).entries(),
        key=lambda entry: (
            comparable_key(kinds, entry.partition),
            entry.bucket,
            entry.file.level,
            entry.file.min_sequence_number,
            entry.file.file_name,
        ),
    )
    return list(_shown(table, entries))


def _shown(table: TableStore, entries: Sequence[ManifestEntry]) -> Iterator[TableFile]:
    keys = table.schema.key_fields if table.schema.primary_keys else ()
    for entry in entries:
        file = entry.file
        yield TableFile(
            path=table.data_path(entry.bucket_id, file),
            partition=partition_values(table.schema, entry.partition),
            bucket=entry.bucket,
            level=file.level,
            row_count=file.row_count,
            size_bytes=file.file_size_bytes,
            min_key=_values(keys, file.min_key) if keys else None,
            max_key=_values(keys, file.max_key) if keys else None,
            schema_id=file.schema_id,
        )


def partition_values(schema: TableSchema, partition: bytes) -> dict[str, object]:
    """The values of a serialized partition: column -> value."""
    fields = schema.partition_fields
    return dict(zip((field.name for field in fields), _values(fields, partition), strict=True))


def _values(fields: Sequence[DataField], row: bytes) -> tuple[object, ...]:
    kinds = [field.type for field in fields]
    return tuple(to_scalar(kind, value).as_py() for kind, value in zip(kinds, deserialize_row(kinds, row), strict=True))
