"""Manifests and their lists: which files a snapshot added and deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any  # Any: Avro records are untyped until they are checked here

import polars as pl

from lakelog.common.errors import CorruptDataError
from lakelog.common.file_names import check_file_name, check_file_names
from lakelog.common.quoting import cause
from lakelog.common.types import DataType
from lakelog.filestore.encoding.binary_row import StoredValue, comparable, deserialize_row, serialize_row
from lakelog.filestore.formats.avro import codec_of, encode_container
from lakelog.filestore.formats.records import iter_records, read_records
from lakelog.filestore.io.collection import paused_collection
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.integrity import damaged, has_digest, read_checked
from lakelog.filestore.io.name_cache import NameCache
from lakelog.filestore.metadata.data_file import EMPTY_STATS, DataFileMeta, FileSource, SimpleStats
from lakelog.filestore.metadata.manifest_columns import decode_columns, entries_of, of_buckets
from lakelog.filestore.metadata.manifest_entries import (
    MANIFEST_VERSION,
    BucketFilter,
    FileIdentifier,
    FileKind,
    ManifestEntry,
    entries_of_buckets,
)
from lakelog.filestore.metadata.manifest_schemas import CHECKSUMS_KEY, ENTRY_SCHEMA, LIST_SCHEMA
from lakelog.filestore.schema.paths import FileNames, TablePaths

__all__ = [
    "COLUMNS_CACHE",
    "ENTRY_CACHE",
    "LIST_CACHE",
    "MANIFEST_VERSION",
    "FileIdentifier",
    "FileKind",
    "ManifestEntry",
    "ManifestFileMeta",
    "ManifestFiles",
    "live_entries",
    "merge_entries",
    "partition_stats",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_META_BYTES = 1_000  # memory of the entry of a manifest in a list
_ENTRY_BYTES = 1_600  # memory of an entry, without the rows of its statistics


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


def merge_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The entries that remain when every DELETE has cancelled its ADD, in order of appearance.

    A DELETE whose ADD is not among the entries stays, so that parts of a table's manifests can be merged.
    Raises CorruptDataError when a file is added twice.
    """
    left: dict[FileIdentifier, ManifestEntry] = {}
    for entry in entries:
        identifier = entry.identifier
        before = left.get(identifier)
        if entry.kind is FileKind.ADD:
            if before is not None and before.kind is FileKind.ADD:
                raise CorruptDataError(f"file {entry.file.file_name} is added to bucket {entry.bucket} twice")
            left[identifier] = entry
        elif before is not None and before.kind is FileKind.ADD:
            del left[identifier]
        else:
            left[identifier] = entry
    return list(left.values())


def live_entries(entries: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """The live files of a whole state: base entries, then delta entries. Raises CorruptDataError for a lone DELETE."""
    merged = merge_entries(entries)
    for entry in merged:
        if entry.kind is FileKind.DELETE:
            raise CorruptDataError(
                f"file {entry.file.file_name} of bucket {entry.bucket} is deleted but was never added"
            )
    return merged


ENTRY_CACHE: NameCache[ManifestEntry] = NameCache(512 << 20)
COLUMNS_CACHE: NameCache[pl.DataFrame] = NameCache(256 << 20)
LIST_CACHE: NameCache[ManifestFileMeta] = NameCache(32 << 20)


@dataclass(frozen=True, slots=True)
class ManifestFiles:
    """Reads and writes manifests and manifest lists of one table. A process caches what it has read or written.

    Both are Avro object files with the record names that Paimon's Java code gives, one record an entry. Their names
    end with a digest of their bytes. ORC and Parquet files of other engines are read too.
    """

    file_io: FileIO
    paths: TablePaths
    partition_types: tuple[DataType, ...] = ()
    compression: str = "zstd"

    def write(
        self, entries: Sequence[ManifestEntry], *, names: FileNames, schema_id: int, entries_max: int = 50_000
    ) -> list[ManifestFileMeta]:
        """Write entries into as few manifests as `entries_max` allows; none for no entries."""
        return [
            self._write_one(tuple(entries[start : start + entries_max]), names, schema_id)
            for start in range(0, len(entries), entries_max)
        ]

    def read(self, name: str, *, size_bytes: int | None = None) -> tuple[ManifestEntry, ...]:
        """The entries of a manifest of `size_bytes`. Raises NotFoundError or CorruptDataError."""
        path = self.paths.manifest(name)
        held = ENTRY_CACHE.get(path)
        if held is None:
            with paused_collection():
                held = tuple(self._load(path, size_bytes))
            ENTRY_CACHE.put(path, held, _entries_bytes(held))
        return held

    def read_buckets(
        self, manifest: ManifestFileMeta, keeps: BucketFilter, *, min_level: int = 0
    ) -> Iterator[ManifestEntry]:
        """The entries of a manifest of `min_level` and above whose bucket `keeps` is true for.

        Only these become objects; the others stay in memory as columns. Raises NotFoundError, or
        CorruptDataError, also for a manifest that lacks entries.
        """
        path = self.paths.manifest(manifest.file_name)
        frame = self._columns(path, manifest.file_size_bytes) if ENTRY_CACHE.get(path) is None else None
        if not isinstance(frame, pl.DataFrame):
            entries = (entry for entry in self.read_entries([manifest]) if entry.file.level >= min_level)
            return entries_of_buckets(entries, keeps)
        self._check_count(manifest, frame.height)
        with _records_named(path):
            left = of_buckets(frame.filter(pl.col("_LEVEL") >= min_level), keeps)
        return _parsed(entries_of(left), _same, path)

    def _columns(self, path: str, size_bytes: int | None) -> pl.DataFrame | bytes:
        """The entries of a manifest as columns, or its bytes where they must be decoded record by record."""
        held = COLUMNS_CACHE.get(path)
        if held is not None:
            return held[0]
        data = read_checked(self.file_io, path, size_bytes=size_bytes)
        frame = decode_columns(data, path=path)
        if frame is None:
            return data
        COLUMNS_CACHE.put(path, (frame,), int(frame.estimated_size()))
        return frame

    def _load(self, path: str, size_bytes: int | None) -> Iterator[ManifestEntry]:
        found = self._columns(path, size_bytes)
        if isinstance(found, bytes):
            return _parsed(iter_records(found, path=path), _parse_entry, path)
        return _parsed(entries_of(found), _same, path)

    def write_list(self, manifests: Sequence[ManifestFileMeta], *, names: FileNames) -> tuple[str, int]:
        """Write a manifest list, which may be empty; gives its name and size in bytes."""
        data = encode_container(
            LIST_SCHEMA, [_manifest_record(meta) for meta in manifests], codec=codec_of(self.compression)
        )
        name = names.manifest_list(data)
        path = self.paths.manifest(name)
        self._create(path, data)
        LIST_CACHE.put(path, tuple(manifests), _META_BYTES * len(manifests))
        return name, len(data)

    def read_list(self, name: str, *, size_bytes: int | None = None) -> tuple[ManifestFileMeta, ...]:
        """The manifests of a list of `size_bytes`, in order. Raises NotFoundError or CorruptDataError."""
        path = self.paths.manifest(name)
        held = LIST_CACHE.get(path)
        if held is None:
            held = tuple(_parsed(read_records(self.file_io, path, size_bytes=size_bytes), _parse_manifest, path))
            if size_bytes is not None or has_digest(path):  # a file without a known size or digest is not cached
                LIST_CACHE.put(path, held, _META_BYTES * len(held))
        return held

    def read_entries(self, manifests: Iterable[ManifestFileMeta]) -> Iterator[ManifestEntry]:
        """The entries of manifests, in order. Raises CorruptDataError for one that lacks entries."""
        for manifest in manifests:
            entries = self.read(manifest.file_name, size_bytes=manifest.file_size_bytes)
            self._check_count(manifest, len(entries))
            yield from entries

    def _check_count(self, manifest: ManifestFileMeta, found: int) -> None:
        expected = manifest.num_added_files + manifest.num_deleted_files
        if found != expected:
            raise damaged(self.paths.manifest(manifest.file_name), f"it has {found} entries, expected {expected}")

    def _write_one(self, entries: tuple[ManifestEntry, ...], names: FileNames, schema_id: int) -> ManifestFileMeta:
        data = encode_container(
            ENTRY_SCHEMA, [_entry_record(entry) for entry in entries], codec=codec_of(self.compression)
        )
        name = names.manifest(data)
        path = self.paths.manifest(name)
        self._create(path, data)
        ENTRY_CACHE.put(path, entries, _entries_bytes(entries))
        added = sum(entry.kind is FileKind.ADD for entry in entries)
        return ManifestFileMeta(
            file_name=name,
            file_size_bytes=len(data),
            num_added_files=added,
            num_deleted_files=len(entries) - added,
            partition_stats=partition_stats(self.partition_types, {entry.partition for entry in entries}),
            schema_id=schema_id,
            min_bucket=min(entry.bucket for entry in entries),
            max_bucket=max(entry.bucket for entry in entries),
            min_level=min(entry.file.level for entry in entries),
            max_level=max(entry.file.level for entry in entries),
        )

    def _create(self, path: str, data: bytes) -> None:
        if not self.file_io.create_new(path, data):
            raise CorruptDataError(f"{path} exists already, though its name has a new uuid")


def _entries_bytes(entries: Sequence[ManifestEntry]) -> int:
    """About the memory of entries, by the statistics of the first."""
    if not entries:
        return 0
    file = entries[0].file
    rows = (file.min_key, file.max_key, *(row for stats in (file.key_stats, file.value_stats) for row in _rows(stats)))
    return len(entries) * (_ENTRY_BYTES + len(file.checksums or b"") + sum(map(len, rows)))


def _rows(stats: SimpleStats) -> tuple[bytes, bytes]:
    return stats.min_values, stats.max_values


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


def _parsed(records: Iterable[Any], parse: Any, path: str) -> Iterator[Any]:
    """Parse records, naming the file in errors. Any: the callers know the type that their parser gives."""
    with _records_named(path):
        for record in records:
            yield parse(record)


@contextlib.contextmanager
def _records_named(path: str) -> Iterator[None]:
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise damaged(path, f"it holds a record that is not readable: {cause(error)}") from error


def _same(entry: ManifestEntry) -> ManifestEntry:
    return entry


def _check_version(record: dict[str, Any]) -> None:
    if record["_VERSION"] != MANIFEST_VERSION:
        raise ValueError(f"version {record['_VERSION']}, expected {MANIFEST_VERSION}")


def _entry_record(entry: ManifestEntry) -> dict[str, Any]:
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


def _parse_entry(record: dict[str, Any]) -> ManifestEntry:
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


def _manifest_record(meta: ManifestFileMeta) -> dict[str, Any]:
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


def _parse_manifest(record: dict[str, Any]) -> ManifestFileMeta:
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
