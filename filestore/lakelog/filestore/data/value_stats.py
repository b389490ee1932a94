"""Column statistics of new data files: null counts, smallest and largest value of each column.

Bounds come from the footer of the written Parquet file, where the Parquet writer puts them; files of other formats have
only null counts. NaN is searched for: it is the largest number in the format, but Arrow leaves it out of the bounds in
Parquet, and Paimon's Java readers would skip its row groups, so a column with NaN has no bounds there. Columns of
nested types and TIMESTAMPs of more than 6 digits have no bounds in Parquet. Bytes have no bounds in manifests: Paimon's
Java readers compare bytes as signed numbers, not in the order of keys. Source: Paimon, `SimpleColStatsCollector`,
`ParquetSimpleStatsExtractor`, `CompareUtils`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.encoding.binary_row import StoredValue, serialize_row
from lakelog.filestore.formats.parquet.parquet_bounds import bounds_in_footer, leaves_of
from lakelog.filestore.metadata.manifests.data_file import EMPTY_STATS, SimpleStats
from lakelog.filestore.options.field_options import STATS_MODE as OWN_STATS_MODE
from lakelog.filestore.options.field_options import field_key
from lakelog.filestore.options.files import STATS_DENSE_STORE, STATS_MODE
from lakelog.filestore.options.stats_mode import StatsMode, parse_stats_mode, truncated_bounds
from lakelog.filestore.schema.schema import TableSchema

_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_NONE = StatsMode(has_counts=False, has_bounds=False)
_UNKNOWN: tuple[StoredValue, StoredValue] = (None, None)
Numbers = npt.NDArray[np.floating[npt.NBitBase]]


def stats_modes(schema: TableSchema) -> dict[str, StatsMode]:
    """The mode of each column. Raises OptionError for a mode that does not exist."""
    return {field.name: _NONE if field.type.is_nested else _mode_of(field, schema.options) for field in schema.fields}


def _mode_of(field: DataField, options: Mapping[str, str]) -> StatsMode:
    own = replace(STATS_MODE, key=field_key(field.name, OWN_STATS_MODE), default=STATS_MODE.of(options))
    return parse_stats_mode(own.of(options))


class StatsCollector:
    """Collects the statistics of one data file while it is written."""

    def __init__(self, schema: TableSchema) -> None:
        self._modes = stats_modes(schema)
        self._is_dense = STATS_DENSE_STORE.of(schema.options)
        self._all = schema.fields
        self._kept = [field for field in schema.fields if self._modes[field.name] != _NONE]
        self._nulls = dict.fromkeys(self._modes, 0)
        self._leasts: dict[str, float] = {}

    def learn(self, rows: pa.Table, *, with_nan: Set[str] = frozenset()) -> None:
        """Count nulls in rows that were written; `with_nan` are columns that may hold NaN, the same in each call."""
        for field in self._kept:
            column = rows.column(field.name)
            self._nulls[field.name] += column.null_count
            if field.name in with_nan:
                least = _least_beside_nan(column)
                self._leasts[field.name] = float(np.fmin(least, self._leasts.get(field.name, math.nan)))

    def finish(self, footer: pq.FileMetaData | None) -> tuple[SimpleStats, tuple[str, ...] | None]:
        """The statistics of a finished file, and the columns that they cover: None means all columns of the schema.

        `footer` is None for formats whose writers give no bounds: then bounds are unknown.
        """
        is_all = len(self._kept) == len(self._all) or not self._is_dense
        covered = self._all if is_all else self._kept
        names = None if is_all else tuple(field.name for field in covered)
        if not covered:
            return EMPTY_STATS, names
        bounds = [_UNKNOWN] * len(covered)
        if footer is not None:
            leaves = leaves_of(footer)
            bounds = [self._bounds(field, footer, leaves) for field in covered]
        kinds = [field.type for field in covered]
        stats = SimpleStats(
            min_values=serialize_row(kinds, [least for least, _ in bounds]),
            max_values=serialize_row(kinds, [most for _, most in bounds]),
            null_counts=tuple(
                self._nulls[field.name] if self._modes[field.name].has_counts else None for field in covered
            ),
        )
        return stats, names

    def _bounds(
        self, field: DataField, footer: pq.FileMetaData, leaves: Mapping[str, int]
    ) -> tuple[StoredValue, StoredValue]:
        mode = self._modes[field.name]
        if not mode.has_bounds or field.name not in leaves or not has_comparable_bounds(field.type):
            return _UNKNOWN
        if field.name in self._leasts:
            least_number = self._leasts[field.name]
            return (-0.0 if least_number == 0 else least_number), math.nan
        found = bounds_in_footer(field.type, footer, leaves[field.name], range(footer.num_row_groups))
        least, most = found if found is not None else _UNKNOWN
        if isinstance(least, str) and isinstance(most, str) and mode.length is not None:
            return truncated_bounds(least, most, mode.length) or _UNKNOWN
        return least, most


def has_comparable_bounds(kind: DataType) -> bool:
    """Whether Paimon's Java readers compare values as the order of keys does, so that bounds do not mislead them."""
    return kind.root not in _BYTES


def columns_with_nan(rows: pa.Table, fields: Sequence[DataField]) -> frozenset[str]:
    """The columns of FLOAT and DOUBLE that hold a NaN."""
    return frozenset(field.name for field in fields if field.type.root in _FLOATS and _has_nan(rows.column(field.name)))


def _has_nan(column: pa.ChunkedArray) -> bool:
    """Whether a float is NaN."""
    return any(len(values) and np.isnan(np.min(values)) for values in _numbers(column))


def _least_beside_nan(column: pa.ChunkedArray) -> float:
    """The smallest number of a column; NaN if it holds nothing else."""
    return float(
        np.fmin.reduce([np.fmin.reduce(values, initial=np.nan) for values in _numbers(column)], initial=np.nan)
    )


def _numbers(column: pa.ChunkedArray) -> Iterator[Numbers]:
    for chunk in column.chunks:
        yield (chunk.drop_null() if chunk.null_count else chunk).to_numpy(zero_copy_only=True)
