"""Look-ups by key in the files behind a snapshot: what was read of them stays in memory for the next look-up.

A file of a small batch takes longer to open than its rows to search, and a table with a log may have hundreds of them
behind its newest snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

import pyarrow as pa

from lakelog.common.types import TypeRoot
from lakelog.filestore.data.data_reader import read_data_file
from lakelog.filestore.merge.deduplicate import are_absent, newest_rows, without_deletes
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import KIND_FIELD, TableStore
from lakelog.filestore.options.merging import DELETION_VECTORS
from lakelog.filestore.options.reading import SCAN_FALLBACK_BRANCH, SCAN_PRIMARY_BRANCH
from lakelog.filestore.read.key_rows import rows_with
from lakelog.filestore.write.places import parts_of, places_of

_PIECE_BYTES = 8 << 20


@dataclass(slots=True)
class RowsInMemory:
    """The rows of files by their names, up to a limit of bytes. Safe to share between threads."""

    bytes_max: int
    _rows: dict[str, pa.Table] = field(default_factory=dict)
    _bytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    @property
    def size_bytes(self) -> int:
        """The memory of all rows."""
        return self._bytes

    def get(self, name: str) -> pa.Table | None:
        """The rows of a file; None if they are not kept."""
        return self._rows.get(name)

    def put(self, name: str, rows: pa.Table) -> None:
        """Keep the rows of a file if there is room for them."""
        size = rows.get_total_buffer_size()
        with self._lock:
            if name not in self._rows and self._bytes + size <= self.bytes_max:
                self._rows[name] = rows
                self._bytes += size

    def keep_only(self, names: frozenset[str]) -> None:
        """Drop the rows of all other files."""
        with self._lock:
            for name in self._rows.keys() - names:
                self._bytes -= self._rows.pop(name).get_total_buffer_size()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedRows:
    """A table whose reads show a snapshot, `base`, and the files behind it by their places, the oldest first."""

    base: TableStore
    files: Mapping[BucketId, Sequence[DataFileMeta]]
    kept: RowsInMemory

    @classmethod
    def of(
        cls, base: TableStore, added: Sequence[ManifestEntry], kept: RowsInMemory, *, is_part: bool = False
    ) -> AddedRows | None:
        """The files that are added; None for a table whose newest row of a key is not the row of that key.

        `is_part` says that other buckets have files too: what is kept of them stays.
        """
        schema, options = base.schema, base.schema.options
        if not schema.primary_keys or row_merge(schema) is not None or DELETION_VECTORS.of(options):
            return None
        if SCAN_FALLBACK_BRANCH.of(options) or SCAN_PRIMARY_BRANCH.of(options):
            return None  # what a partition without rows shows depends on the files
        if any(one.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE) for one in schema.key_fields):
            return None  # 0.0 and -0.0 are two keys, and equal
        files: dict[BucketId, list[DataFileMeta]] = defaultdict(list)
        for entry in added:
            files[entry.bucket_id].append(entry.file)
        if not is_part:
            kept.keep_only(frozenset(entry.file.file_name for entry in added))
        return cls(base=base, files=files, kept=kept)

    def find(self, keys: pa.Table) -> tuple[list[pa.Table], pa.Table]:
        """The rows with these keys in the files, and the keys that no file has. A key that was deleted has no row."""
        schema = self.base.schema
        found, left = [], [keys.slice(0, 0)]
        for place, wanted in parts_of(places_of(self.base, keys, None), keys):
            parts = [self._rows(place, file) for file in self.files.get(place, ())]
            hits = rows_with(pa.concat_tables(parts), wanted) if parts else None
            if hits is None or not hits.num_rows:
                left.append(wanted)
                continue
            newest = hits.take(newest_rows(key_frame(hits, schema.key_fields)).to_arrow())
            found.append(without_deletes(newest))
            absent = are_absent(key_frame(wanted, schema.key_fields), key_frame(newest, schema.key_fields))
            left.append(wanted.filter(absent.to_arrow()))
        return found, pa.concat_tables(left)

    def _rows(self, place: BucketId, file: DataFileMeta) -> pa.Table:
        """All rows of a file, with their kinds."""
        rows = self.kept.get(file.file_name)
        if rows is None:
            fields = [*self.base.schema.fields, KIND_FIELD]
            batches = read_data_file(self.base.stored, place, file, fields, piece_bytes=_PIECE_BYTES)
            rows = pa.Table.from_batches(list(batches)).combine_chunks()
            self.kept.put(file.file_name, rows)
        return rows
