"""The rows of one data file that have given keys.

In a Parquet file the row groups that may hold a key are found by their bounds; their key columns are read first, and
the other columns only if a key was found. Files of other formats are read whole. With a cache each part of a file is
read only once while it is kept; a file whose parts are all kept is not opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.types import DataField
from lakelog.filestore.data.data_reader import BATCH_ROWS_MAX, file_fields, opened_file
from lakelog.filestore.data.group_cache import CacheShare
from lakelog.filestore.formats.opening import DataFile
from lakelog.filestore.formats.parquet.parquet import ParquetFile
from lakelog.filestore.index.deletion_vectors import Positions
from lakelog.filestore.merge.deduplicate import are_absent
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.schema.evolution import FieldMapping

Item = TypeVar("Item")
Side = Literal["left", "right"]
Places = npt.NDArray[np.intp]
_ROW = "row"
_BOUNDS_BYTES = 64  # of one row group: its bounds and its first row


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRows:
    """Rows of a data file that have given keys: their key frame, and their positions in the file.

    `rows` has no columns, and no rows, if no columns were requested.
    """

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
    cache: CacheShare | None = None,
) -> Iterator[KeyRows]:
    """The rows of a data file whose keys are in the key frame `keys`, in the columns `fields`.

    `keys` is in key order. Rows at the positions `deleted` are left out. Without `fields` only key columns are read.
    Raises as `read_data_file`.
    """
    with _LookedUpFile(table, bucket, file, fields, cache) as source:
        found = source.groups(keys) if file.file_name.endswith(".parquet") else source.whole(keys)
        for part in found:
            if deleted is None:
                yield part
                continue
            left = ~np.isin(part.positions, deleted)
            if left.any():
                yield KeyRows(
                    rows=part.rows.filter(pa.array(left)) if fields else part.rows,
                    keys=part.keys.filter(pl.Series(left)),
                    positions=part.positions[left],
                )


class _LookedUpFile:
    """A data file, opened only when a part is read that is not in the cache. A context manager."""

    def __init__(
        self,
        table: TableStore,
        bucket: BucketId,
        file: DataFileMeta,
        fields: Sequence[DataField],
        cache: CacheShare | None,
    ) -> None:
        stored = file_fields(table, file, fields)
        self._key_fields = table.schema.key_fields
        self._key_mapping = FieldMapping.of(self._key_fields, stored)
        self._mapping = FieldMapping.of(fields, stored)
        self._names = tuple(field.name for field in fields)
        self._cache = cache
        self._place = (table.data_path(bucket, file), file.checksums, table.schema.id)
        self._stack = ExitStack()
        self._open = partial(opened_file, table, bucket, file)
        self._opened: DataFile | None = None

    def __enter__(self) -> _LookedUpFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def groups(self, keys: pl.DataFrame) -> Iterator[KeyRows]:
        """The rows of keys in a Parquet file, if any."""
        layout = self._layout()
        groups = layout.groups_with(keys.to_series(0))
        if not groups:
            return
        frames = list(self._keys(groups))
        frame = pl.concat(frames) if len(frames) > 1 else frames[0]
        hits = _present_rows(frame, keys)
        starts = np.cumsum([0, *(one.height for one in frames)])
        inside = np.split(hits, np.searchsorted(hits, starts[1:-1]))
        met = [number for number, part in enumerate(inside) if len(part)]
        if not met:
            return
        tables = self._rows([groups[number] for number in met])
        yield KeyRows(
            rows=pa.concat_tables(
                rows.take(pa.array(inside[number] - starts[number])) if self._names else rows
                for number, rows in zip(met, tables, strict=True)
            ),
            keys=frame[hits],
            positions=np.concatenate([inside[one] - starts[one] + layout.starts[groups[one]] for one in met]),
        )

    def whole(self, keys: pl.DataFrame) -> Iterator[KeyRows]:
        """The rows of keys in a file of any format, which is read as a whole."""
        start = 0
        stored = tuple(dict.fromkeys([*self._key_mapping.stored, *self._mapping.stored]))
        for batch in self._file().iter_batches(stored, batch_rows=BATCH_ROWS_MAX):
            rows = pa.Table.from_batches([batch])
            given = _adapted(self._key_mapping, rows.select([field.name for field in self._key_mapping.stored]))
            frame = key_frame(given, self._key_fields)
            hits = _present_rows(frame, keys)
            if len(hits):
                yield KeyRows(rows=self._taken(rows, hits), keys=frame[hits], positions=hits + start)
            start += batch.num_rows

    def _taken(self, rows: pa.Table, hits: npt.NDArray[np.int64]) -> pa.Table:
        if not self._names:
            return pa.table({})
        values = _adapted(self._mapping, rows.select([field.name for field in self._mapping.stored]))
        return values.take(pa.array(hits))

    def _file(self) -> DataFile:
        if self._opened is None:
            self._opened = self._stack.enter_context(self._open())
        return self._opened

    def _parquet(self) -> ParquetFile:
        opened = self._file()
        assert isinstance(opened, ParquetFile), "the file's name ends with its format"
        return opened

    def _layout(self) -> _Layout:
        place = (*self._place, "bounds")
        found = self._kept(place, _Layout)
        if found is None:
            found = _Layout.of(self._parquet(), self._key_mapping, self._key_fields)
            self._keep_keys(place, found, _BOUNDS_BYTES * len(found.starts))
        return found

    def _keys(self, groups: Sequence[int]) -> Iterator[pl.DataFrame]:
        """The keys of each row group, as key frames."""
        kept = [self._kept((*self._place, group), pl.DataFrame) for group in groups]
        fresh = self._read(self._key_mapping, [group for group, one in zip(groups, kept, strict=True) if one is None])
        for group, one in zip(groups, kept, strict=True):
            found = key_frame(next(fresh), self._key_fields) if one is None else one
            if one is None:
                self._keep_keys((*self._place, group), found, int(found.estimated_size()))
            yield found

    def _rows(self, groups: Sequence[int]) -> Iterator[pa.Table]:
        """The rows of each row group; tables without columns where no fields are read."""
        if not self._names:
            yield from (pa.table({}) for _ in groups)
            return
        kept = [self._kept((*self._place, group, self._names), pa.Table) for group in groups]
        fresh = self._read(self._mapping, [group for group, one in zip(groups, kept, strict=True) if one is None])
        for group, one in zip(groups, kept, strict=True):
            found = next(fresh) if one is None else one
            if one is None and self._cache is not None:
                place, size = (*self._place, group, self._names), found.get_total_buffer_size()
                self._cache.cache.put_rows(place, found, size, bytes_max=self._cache.bytes_max)
            yield found

    def _read(self, mapping: FieldMapping, groups: Sequence[int]) -> Iterator[pa.Table]:
        if groups:
            yield from (_adapted(mapping, rows) for rows in self._parquet().read_groups(mapping.stored, groups))

    def _kept(self, place: tuple[object, ...], kind: type[Item]) -> Item | None:
        found = None if self._cache is None else self._cache.cache.get(place)
        assert found is None or isinstance(found, kind), "an item has the type of its place"
        return found

    def _keep_keys(self, place: tuple[object, ...], item: object, size_bytes: int) -> None:
        if self._cache is not None:
            self._cache.cache.put_keys(place, item, size_bytes, bytes_max=self._cache.bytes_max)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The first rows of the row groups of a file, and the bounds of their first key column.

    `known` are the row groups with bounds, `ends` their smallest and largest values in turn, ordered as in key frames.
    """

    starts: npt.NDArray[np.int64]
    known: npt.NDArray[np.int64]
    ends: pl.Series

    @classmethod
    def of(cls, opened: ParquetFile, key_mapping: FieldMapping, key_fields: Sequence[DataField]) -> _Layout:
        starts = np.cumsum([0, *(rows for rows, _ in opened.row_groups)])[:-1]
        first = key_fields[0]
        is_widened = key_mapping.stored[0].type != first.type  # since then: its bounds are of another type
        bounds = [None] * len(starts) if is_widened else opened.bounds_of(key_mapping.stored[0])
        known = [group for group, found in enumerate(bounds) if found is not None]
        ends = pl.Series()
        if known:
            values = pa.concat_arrays([bounds[group] for group in known])
            ends = key_frame(pa.table({first.name: values}), [first]).to_series()
        return cls(starts, np.array(known, np.int64), ends)

    def groups_with(self, wanted: pl.Series) -> list[int]:
        """The row groups that may hold a key whose first column is in `wanted`, which is in key order."""
        may_hold = np.ones(len(self.starts), np.bool_)
        if len(self.known):
            low = _places(wanted, self.ends.gather_every(2), "left")
            high = _places(wanted, self.ends.gather_every(2, 1), "right")
            may_hold[self.known] = low != high
        return np.flatnonzero(may_hold).tolist()


def _places(ordered: pl.Series, values: pl.Series, side: Side) -> Places:
    """Where `values` belong among ordered values, before or after equal ones."""
    if ordered.dtype.is_integer() and not ordered.null_count():  # polars has an overhead of a hundred times this search
        return np.searchsorted(ordered.to_numpy(), values.to_numpy(), side)
    return ordered.search_sorted(values, side).to_numpy()


def _present_rows(frame: pl.DataFrame, keys: pl.DataFrame) -> npt.NDArray[np.int64]:
    """The rows of a key frame whose keys are in `keys`, in ascending order. Both are in key order, each key once."""
    if frame.width == 1:
        ordered, wanted = frame.to_series(), keys.to_series()
        if ordered.dtype.is_integer() and not (ordered.null_count() or wanted.null_count()):
            values, sought = ordered.to_numpy(), wanted.to_numpy()
            places = np.searchsorted(values, sought)
            is_inside = places < len(values)
            places, sought = places[is_inside], sought[is_inside]
            met: npt.NDArray[np.int64] = places[values[places] == sought]
            return met
        return np.flatnonzero(~are_absent(frame, keys).to_numpy())
    numbered = frame.with_row_index(_ROW)
    found = numbered.join(keys, on=keys.columns, how="semi", nulls_equal=True, maintain_order="left")[_ROW]
    return found.to_numpy().astype(np.int64)


def _adapted(mapping: FieldMapping, rows: pa.Table) -> pa.Table:
    adapted = [mapping.adapt(batch) for batch in rows.to_batches()]
    return pa.Table.from_batches(adapted) if adapted else to_arrow_schema(mapping.wanted).empty_table()
