"""Manifests and their lists: which files a snapshot added and deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any  # Any: Avro records are untyped until they are checked here

import polars as pl

from lakelog.common.bounded_cache import BoundedCache
from lakelog.common.quoting import cause
from lakelog.common.types import DataType
from lakelog.filestore.formats.avro.avro import codec_of, encode_container
from lakelog.filestore.formats.avro.avro_blocks import MAGIC
from lakelog.filestore.formats.records import iter_records
from lakelog.filestore.io.collection import paused_collection
from lakelog.filestore.io.fileio import FileIO
from lakelog.filestore.io.integrity import damaged, has_digest, read_checked
from lakelog.filestore.io.network import both, create_all, fetched_ahead
from lakelog.filestore.metadata.manifests.data_file import SimpleStats
from lakelog.filestore.metadata.manifests.manifest_columns import check_columns, decode_columns, entries_of, of_buckets
from lakelog.filestore.metadata.manifests.manifest_entries import (
    MANIFEST_VERSION,
    BucketFilter,
    FileIdentifier,
    FileKind,
    ManifestEntry,
    entries_of_buckets,
    live_entries,
    merge_entries,
)
from lakelog.filestore.metadata.manifests.manifest_lists import decode_list, encode_list
from lakelog.filestore.metadata.manifests.manifest_merging import ENTRIES_MAX
from lakelog.filestore.metadata.manifests.manifest_pruning import by_partition
from lakelog.filestore.metadata.manifests.manifest_records import (
    ManifestFileMeta,
    entry_record,
    parse_entry,
    partition_stats,
)
from lakelog.filestore.metadata.manifests.manifest_schemas import ENTRY_SCHEMA
from lakelog.filestore.schema.paths import FileNames, TablePaths

__all__ = [
    "COLUMNS_CACHE",
    "ENTRY_CACHE",
    "LIST_CACHE",
    "MANIFEST_VERSION",
    "FileIdentifier",
    "FileKind",
    "ManifestEntry",
    "ManifestFiles",
    "live_entries",
    "merge_entries",
]

_META_BYTES = 1_000  # memory of the entry of a manifest in a list
_FEW_BYTES = 4 << 10  # of a manifest: its records become objects one by one before they would become columns
_ENTRY_BYTES = 1_600  # memory of an entry, without the rows of its statistics


ENTRY_CACHE: BoundedCache[str, tuple[ManifestEntry, ...]] = BoundedCache(bytes_max=512 << 20)
COLUMNS_CACHE: BoundedCache[str, pl.DataFrame] = BoundedCache(bytes_max=256 << 20)
LIST_CACHE: BoundedCache[str, tuple[ManifestFileMeta, ...]] = BoundedCache(bytes_max=32 << 20)


@dataclass(frozen=True, slots=True)
class ManifestFiles:
    """Reads and writes manifests and manifest lists of one table. A process caches what it has read or written.

    Both are Avro object files with the record names of Paimon's Java code, one record per entry. Their names end with a
    digest of their bytes. ORC and Parquet files of other engines are read too.

    What is written to `collecting()` is created by `create_collected`, all files at once: one file can name another
    before that exists, because only a snapshot shows them to readers.
    """

    file_io: FileIO
    paths: TablePaths
    partition_types: tuple[DataType, ...] = ()
    compression: str = "zstd"
    collected: list[tuple[str, bytes]] | None = None

    def collecting(self) -> ManifestFiles:
        """The same files, of which new ones are created later, by `create_collected`."""
        return replace(self, collected=[])

    def create_collected(self, *, unsynced: Sequence[str] = ()) -> None:
        """Create the files that were written since the last call, durably, and make the files `unsynced` durable."""
        if self.collected is not None:
            create_all(self.file_io, self.collected, unsynced=unsynced)
            self.collected.clear()

    def write(
        self, entries: Sequence[ManifestEntry], *, names: FileNames, schema_id: int, entries_max: int | None = None
    ) -> list[ManifestFileMeta]:
        """Write entries into as few manifests as `entries_max` allows; none without entries.

        Several manifests are in the order of partitions and buckets, so that each holds few of them.
        """
        entries_max = ENTRIES_MAX if entries_max is None else entries_max
        if len(entries) > entries_max:
            entries = by_partition(entries, self.partition_types)
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
            ENTRY_CACHE.add(path, held, _entries_bytes(held))
        return held

    def read_buckets(
        self, manifest: ManifestFileMeta, keeps: BucketFilter, *, min_level: int = 0
    ) -> Iterator[ManifestEntry]:
        """The entries of a manifest of `min_level` and above for whose bucket `keeps` is true.

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

    def read_columns(self, manifest: ManifestFileMeta) -> pl.DataFrame | None:
        """The entries of a manifest as columns, named as in the file; None for a file that has to be read by `read`.

        Raises NotFoundError, or CorruptDataError, also for a manifest that lacks entries.
        """
        path = self.paths.manifest(manifest.file_name)
        frame = self._columns(path, manifest.file_size_bytes)
        if not isinstance(frame, pl.DataFrame):
            return None
        with _records_named(path):
            check_columns(frame)
        self._check_count(manifest, frame.height)
        return frame

    def _columns(self, path: str, size_bytes: int | None) -> pl.DataFrame | bytes:
        """The entries of a manifest as columns, or its bytes where they must be decoded record by record."""
        held = COLUMNS_CACHE.get(path)
        if held is not None:
            return held
        data = read_checked(self.file_io, path, size_bytes=size_bytes)
        frame = decode_columns(data, path=path)
        if frame is None:
            return data
        COLUMNS_CACHE.add(path, frame, int(frame.estimated_size()))
        return frame

    def _load(self, path: str, size_bytes: int | None) -> Iterator[ManifestEntry]:
        is_small = size_bytes is not None and size_bytes <= _FEW_BYTES and COLUMNS_CACHE.get(path) is None
        data = read_checked(self.file_io, path, size_bytes=size_bytes) if is_small else b""
        found = data if data.startswith(MAGIC) else self._columns(path, size_bytes)
        if isinstance(found, bytes):
            return _parsed(iter_records(found, path=path), parse_entry, path)
        return _parsed(entries_of(found), _same, path)

    def write_list(self, manifests: Sequence[ManifestFileMeta], *, names: FileNames) -> tuple[str, int]:
        """Write a manifest list, which may be empty; returns its name and size in bytes."""
        data = encode_list(manifests, table=self.paths.root, codec=codec_of(self.compression))
        name = names.manifest_list(data)
        path = self.paths.manifest(name)
        self.create(path, data)
        LIST_CACHE.add(path, tuple(manifests), _META_BYTES * len(manifests))
        return name, len(data)

    def read_list(self, name: str, *, size_bytes: int | None = None) -> tuple[ManifestFileMeta, ...]:
        """The manifests of a list of `size_bytes`, in order. Raises NotFoundError or CorruptDataError."""
        path = self.paths.manifest(name)
        held = LIST_CACHE.get(path)
        if held is None:
            data = read_checked(self.file_io, path, size_bytes=size_bytes)
            with _records_named(path):
                held = decode_list(data, path=path, table=self.paths.root)
            if size_bytes is not None or has_digest(path):  # a file without a known size or digest is not cached
                LIST_CACHE.add(path, held, _META_BYTES * len(held))
        return held

    def read_lists(
        self, base: tuple[str, int | None], delta: tuple[str, int | None]
    ) -> tuple[tuple[ManifestFileMeta, ...], tuple[ManifestFileMeta, ...]]:
        """The manifests of two lists, each given by its name and size. Raises as `read_list`."""
        if any(LIST_CACHE.get(self.paths.manifest(name)) is not None for name, _ in (base, delta)):
            return self.read_list(base[0], size_bytes=base[1]), self.read_list(delta[0], size_bytes=delta[1])
        return both(
            self.file_io,
            lambda: self.read_list(base[0], size_bytes=base[1]),
            lambda: self.read_list(delta[0], size_bytes=delta[1]),
        )

    def read_entries(self, manifests: Iterable[ManifestFileMeta]) -> Iterator[ManifestEntry]:
        """The entries of manifests, in order. Raises CorruptDataError for a manifest that lacks entries."""

        def read(manifest: ManifestFileMeta) -> tuple[ManifestEntry, ...]:
            return self.read(manifest.file_name, size_bytes=manifest.file_size_bytes)

        for manifest in fetched_ahead(self.file_io, tuple(manifests), read, is_held=self._holds_entries):
            entries = read(manifest)
            self._check_count(manifest, len(entries))
            yield from entries

    def read_all_buckets(
        self, manifests: Sequence[ManifestFileMeta], keeps: BucketFilter, *, min_level: int = 0
    ) -> Iterator[ManifestEntry]:
        """The entries of manifests in order, as `read_buckets`."""

        def fetch(manifest: ManifestFileMeta) -> None:
            self._columns(self.paths.manifest(manifest.file_name), manifest.file_size_bytes)

        for manifest in fetched_ahead(self.file_io, manifests, fetch, is_held=self._holds_columns):
            yield from self.read_buckets(manifest, keeps, min_level=min_level)

    def _holds_entries(self, manifest: ManifestFileMeta) -> bool:
        return ENTRY_CACHE.get(self.paths.manifest(manifest.file_name)) is not None

    def _holds_columns(self, manifest: ManifestFileMeta) -> bool:
        return self._holds_entries(manifest) or COLUMNS_CACHE.get(self.paths.manifest(manifest.file_name)) is not None

    def _check_count(self, manifest: ManifestFileMeta, found: int) -> None:
        expected = manifest.num_added_files + manifest.num_deleted_files
        if found != expected:
            raise damaged(self.paths.manifest(manifest.file_name), f"it has {found} entries, expected {expected}")

    def _write_one(self, entries: tuple[ManifestEntry, ...], names: FileNames, schema_id: int) -> ManifestFileMeta:
        data = encode_container(
            ENTRY_SCHEMA, [entry_record(entry) for entry in entries], codec=codec_of(self.compression)
        )
        name = names.manifest(data)
        path = self.paths.manifest(name)
        self.create(path, data)
        ENTRY_CACHE.add(path, entries, _entries_bytes(entries))
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

    def create(self, path: str, data: bytes) -> None:
        """Create a file with a new name, durably; or collect it."""
        if self.collected is None:
            create_all(self.file_io, [(path, data)])
        else:
            self.collected.append((path, data))


def _entries_bytes(entries: Sequence[ManifestEntry]) -> int:
    """The approximate memory of entries, estimated by the statistics of the first."""
    if not entries:
        return 0
    file = entries[0].file
    rows = (file.min_key, file.max_key, *(row for stats in (file.key_stats, file.value_stats) for row in _rows(stats)))
    return len(entries) * (_ENTRY_BYTES + len(file.checksums or b"") + sum(map(len, rows)))


def _rows(stats: SimpleStats) -> tuple[bytes, bytes]:
    return stats.min_values, stats.max_values


def _parsed(records: Iterable[Any], parse: Any, path: str) -> Iterator[Any]:
    """Parse records, naming the file in errors. Any: the callers know the type that their parser returns."""
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
