"""Looks up keys in the runs of a bucket, at a cost that grows with the keys, not with the runs.

A compaction looks up its keys in the runs that it leaves out; a table whose log has old values looks up each batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.data.group_cache import CacheShare
from lakelog.filestore.data.key_lookup import KeyRows, read_rows_of_keys
from lakelog.filestore.encoding.binary_row import deserialize_row, to_table
from lakelog.filestore.index.deletion_vectors import DeletionFile, Positions, read_positions
from lakelog.filestore.merge.deduplicate import are_absent
from lakelog.filestore.merge.order import OrderedKey, key_at, key_frame, rows_before, rows_up_to
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.levels import SortedRun
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore


@dataclass(eq=False, slots=True, kw_only=True)
class BucketLookup:
    """Finds rows of keys in runs, youngest first. `deletions` are the deletion vectors of files, by their names.

    `met` collects the positions of the found rows, by the file's name. With a `cache`, data that was read is kept for
    later lookups.
    """

    table: TableStore
    bucket: BucketId
    runs: Sequence[SortedRun]
    fields: Sequence[DataField]
    deletions: Mapping[str, DeletionFile]
    cache: CacheShare | None = None
    met: dict[str, list[npt.NDArray[np.int64]]] = field(default_factory=dict)
    _deleted: dict[str, Positions] = field(default_factory=dict)

    def find(self, keys: pl.DataFrame) -> pa.Table | None:
        """The youngest row of each key that exists, in the columns `fields`; None if no key exists.

        `keys` is a key frame in key order, each key once. Deletes are rows too.
        """
        found = [part.rows for part in self._found(keys, self.fields)]
        return pa.concat_tables(found) if found else None

    def meet(self, keys: pl.DataFrame) -> None:
        """Collect the positions of the rows of keys in `met`, without reading the rows. See `find`."""
        for _ in self._found(keys, ()):
            pass

    def _found(self, keys: pl.DataFrame, fields: Sequence[DataField]) -> Iterator[KeyRows]:
        left = keys
        if self.cache is not None:
            self.cache.cache.begin(self.table.bucket_dir(self.bucket))
        for run in self.runs:
            parts = [part for file in run.files for part in self._find_in(file, left, fields)]
            yield from parts
            if parts and run is not self.runs[-1]:
                left = left.filter(are_absent(left, pl.concat([part.keys for part in parts])))

    def _find_in(self, file: DataFileMeta, keys: pl.DataFrame, fields: Sequence[DataField]) -> Iterator[KeyRows]:
        low, high = self._range_of(file)
        start = rows_before(keys, low)
        wanted = keys.slice(start, rows_up_to(keys, high) - start)
        if not wanted.height:
            return
        for part in read_rows_of_keys(
            self.table,
            self.bucket,
            file,
            fields,
            wanted,
            deleted=self._deleted_of(file.file_name),
            cache=self.cache,
        ):
            self.met.setdefault(file.file_name, []).append(part.positions)
            yield part

    def _range_of(self, file: DataFileMeta) -> tuple[OrderedKey, OrderedKey]:
        schema = self.table.schema
        ends = [deserialize_row(self.table.key_types, key) for key in (file.min_key, file.max_key)]
        frame = key_frame(to_table(schema.key_fields, ends), schema.key_fields)
        return key_at(frame, 0), key_at(frame, 1)

    def _deleted_of(self, file_name: str) -> Positions | None:
        if file_name not in self.deletions:
            return None
        if file_name not in self._deleted:
            self._deleted[file_name] = read_positions(self.table.file_io, self.deletions[file_name])
        return self._deleted[file_name]
