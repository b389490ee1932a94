"""Manifest entries, and the entries of manifest lists, as the Avro records that the format stores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any  # Any: Avro records are untyped until they are checked here

from lakelog.common.file_names import check_file_name, check_file_names
from lakelog.common.types import DataType
from lakelog.filestore.encoding.binary_row import StoredValue, deserialize_row, serialize_row
from lakelog.filestore.encoding.key_order import comparable
from lakelog.filestore.metadata.manifests.data_file import EMPTY_STATS, DataFileMeta, FileSource, SimpleStats
from lakelog.filestore.metadata.manifests.manifest_entries import MANIFEST_VERSION, FileKind, ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_schemas import CHECKSUMS_KEY

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_KINDS = {int(kind): kind for kind in FileKind}
_SOURCES: dict[int | None, FileSource | None] = {None: None, **{int(source): source for source in FileSource}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFileMeta:
    """One manifest in a list, with a summary of its entries. Bounds None are unknown."""

    file_name: str
    file_size_bytes: int
    num_added_files: int
    num_deleted_files: int
    partition_stats: SimpleStats
    schema_id: int
    min_bucket: int | None = None
    max_bucket: int | None = None
    min_level: int | None = None
    max_level: int | None = None
    min_row_id: int | None = None
    max_row_id: int | None = None


def partition_stats(kinds: Sequence[DataType], partitions: Iterable[bytes]) -> SimpleStats:
    """Minima, maxima and null counts over distinct partitions, column by column."""
    if not kinds:
        return EMPTY_STATS
    rows = [deserialize_row(kinds, partition) for partition in partitions]
    least: list[StoredValue] = []
    most: list[StoredValue] = []
    nulls = []
    for kind, column in zip(kinds, zip(*rows, strict=True), strict=True):
        present = sorted(
            (value for value in column if value is not None), key=lambda value: comparable([kind], [value])
        )
        least.append(present[0] if present else None)
        most.append(present[-1] if present else None)
        nulls.append(len(column) - len(present))
    return SimpleStats(
        min_values=serialize_row(kinds, least), max_values=serialize_row(kinds, most), null_counts=tuple(nulls)
    )


def _check_version(record: dict[str, Any]) -> None:
    if record["_VERSION"] != MANIFEST_VERSION:
        raise ValueError(f"version {record['_VERSION']}, expected {MANIFEST_VERSION}")


def entry_record(entry: ManifestEntry) -> dict[str, Any]:
    """An entry as a record of a manifest."""
    file = entry.file
    created = None if file.creation_time_millis is None else _EPOCH + file.creation_time_millis * _MILLISECOND
    return {
        "_VERSION": MANIFEST_VERSION,
        "_KIND": int(entry.kind),
        "_PARTITION": entry.partition,
        "_BUCKET": entry.bucket,
        "_TOTAL_BUCKETS": entry.total_buckets,
        "_FILE": {
            "_FILE_NAME": file.file_name,
            "_FILE_SIZE": file.file_size_bytes,
            "_ROW_COUNT": file.row_count,
            "_MIN_KEY": file.min_key,
            "_MAX_KEY": file.max_key,
            "_KEY_STATS": _stats_record(file.key_stats),
            "_VALUE_STATS": _stats_record(file.value_stats),
            "_MIN_SEQUENCE_NUMBER": file.min_sequence_number,
            "_MAX_SEQUENCE_NUMBER": file.max_sequence_number,
            "_SCHEMA_ID": file.schema_id,
            "_LEVEL": file.level,
            "_EXTRA_FILES": list(file.extra_files),
            "_CREATION_TIME": created,
            "_DELETE_ROW_COUNT": file.delete_row_count,
            "_EMBEDDED_FILE_INDEX": file.embedded_file_index,
            "_FILE_SOURCE": None if file.file_source is None else int(file.file_source),
            "_VALUE_STATS_COLS": None if file.value_stats_cols is None else list(file.value_stats_cols),
            "_EXTERNAL_PATH": file.external_path,
            "_FIRST_ROW_ID": file.first_row_id,
            "_WRITE_COLS": None if file.write_cols is None else list(file.write_cols),
            CHECKSUMS_KEY: file.checksums,
        },
    }


def parse_entry(record: dict[str, Any]) -> ManifestEntry:
    """The entry in a record. Raises KeyError, TypeError or ValueError for a record that is not readable."""
    _check_version(record)
    return ManifestEntry(
        kind=_KINDS[record["_KIND"]],
        partition=record["_PARTITION"],
        bucket=record["_BUCKET"],
        total_buckets=record["_TOTAL_BUCKETS"],
        file=_parse_file(record["_FILE"]),
    )


def _parse_file(record: dict[str, Any]) -> DataFileMeta:
    created, source = record.get("_CREATION_TIME"), record.get("_FILE_SOURCE")
    return DataFileMeta(
        file_name=check_file_name(record["_FILE_NAME"]),
        file_size_bytes=record["_FILE_SIZE"],
        row_count=record["_ROW_COUNT"],
        min_key=record["_MIN_KEY"],
        max_key=record["_MAX_KEY"],
        key_stats=_parse_stats(record["_KEY_STATS"]),
        value_stats=_parse_stats(record["_VALUE_STATS"]),
        min_sequence_number=record["_MIN_SEQUENCE_NUMBER"],
        max_sequence_number=record["_MAX_SEQUENCE_NUMBER"],
        schema_id=record["_SCHEMA_ID"],
        level=record["_LEVEL"],
        extra_files=check_file_names(record["_EXTRA_FILES"]),
        creation_time_millis=None if created is None else (created - _EPOCH) // _MILLISECOND,
        delete_row_count=record.get("_DELETE_ROW_COUNT"),
        embedded_file_index=record.get("_EMBEDDED_FILE_INDEX"),
        file_source=_SOURCES[source],
        value_stats_cols=_names(record.get("_VALUE_STATS_COLS")),
        external_path=record.get("_EXTERNAL_PATH"),
        first_row_id=record.get("_FIRST_ROW_ID"),
        write_cols=_names(record.get("_WRITE_COLS")),
        checksums=record.get(CHECKSUMS_KEY),
    )


def manifest_record(meta: ManifestFileMeta) -> dict[str, Any]:
    """A manifest as a record of a manifest list."""
    return {
        "_VERSION": MANIFEST_VERSION,
        "_FILE_NAME": meta.file_name,
        "_FILE_SIZE": meta.file_size_bytes,
        "_NUM_ADDED_FILES": meta.num_added_files,
        "_NUM_DELETED_FILES": meta.num_deleted_files,
        "_PARTITION_STATS": _stats_record(meta.partition_stats),
        "_SCHEMA_ID": meta.schema_id,
        "_MIN_BUCKET": meta.min_bucket,
        "_MAX_BUCKET": meta.max_bucket,
        "_MIN_LEVEL": meta.min_level,
        "_MAX_LEVEL": meta.max_level,
        "_MIN_ROW_ID": meta.min_row_id,
        "_MAX_ROW_ID": meta.max_row_id,
    }


def parse_manifest(record: dict[str, Any]) -> ManifestFileMeta:
    """The manifest that a record of a list names. Raises as `parse_entry`."""
    _check_version(record)
    return ManifestFileMeta(
        file_name=check_file_name(record["_FILE_NAME"]),
        file_size_bytes=record["_FILE_SIZE"],
        num_added_files=record["_NUM_ADDED_FILES"],
        num_deleted_files=record["_NUM_DELETED_FILES"],
        partition_stats=_parse_stats(record["_PARTITION_STATS"]),
        schema_id=record["_SCHEMA_ID"],
        min_bucket=record.get("_MIN_BUCKET"),
        max_bucket=record.get("_MAX_BUCKET"),
        min_level=record.get("_MIN_LEVEL"),
        max_level=record.get("_MAX_LEVEL"),
        min_row_id=record.get("_MIN_ROW_ID"),
        max_row_id=record.get("_MAX_ROW_ID"),
    )


def _stats_record(stats: SimpleStats) -> dict[str, Any]:
    return {
        "_MIN_VALUES": stats.min_values,
        "_MAX_VALUES": stats.max_values,
        "_NULL_COUNTS": None if stats.null_counts is None else list(stats.null_counts),
    }


def _parse_stats(record: dict[str, Any]) -> SimpleStats:
    counts = record.get("_NULL_COUNTS")
    return SimpleStats(
        min_values=record["_MIN_VALUES"],
        max_values=record["_MAX_VALUES"],
        null_counts=None if counts is None else tuple(counts),
    )


def _names(given: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)
