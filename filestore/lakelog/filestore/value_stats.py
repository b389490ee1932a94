"""Column statistics of new data files: null counts, least and most of each column.

Bounds come from the footer of the Parquet file that was written: its writer has them anyway; files of other formats
have null counts alone. Only NaN must be looked for, which
Parquet's bounds leave out and which is the largest number here. Columns of nested types and TIMESTAMPs of more than 6
digits have no bounds in Parquet. Source: Paimon, `SimpleColStatsCollector`, `ParquetSimpleStatsExtractor`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.common.types import DataField, TypeRoot
from lakelog.filestore.binary_row import StoredValue, serialize_row
from lakelog.filestore.data_file import EMPTY_STATS, SimpleStats
from lakelog.filestore.formats.parquet_bounds import bounds_in_footer, leaves_of
from lakelog.filestore.options.files import STATS_DENSE_STORE, STATS_MODE
from lakelog.filestore.schema import TableSchema
from lakelog.filestore.stats_mode import StatsMode, parse_stats_mode, truncated_bounds

_FLOATS = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_NONE = StatsMode(has_counts=False, has_bounds=False)
_UNKNOWN: tuple[StoredValue, StoredValue] = (None, None)


def stats_modes(schema: TableSchema) -> dict[str, StatsMode]:
    """The mode of each column. Raises OptionError for a mode that does not exist."""
    return {field.name: _NONE if field.type.is_nested else _mode_of(field, schema.options) for field in schema.fields}


def _mode_of(field: DataField, options: Mapping[str, str]) -> StatsMode:
    own = replace(STATS_MODE, key=f"fields.{field.name}.stats-mode", default=STATS_MODE.of(options))
    return parse_stats_mode(own.of(options))


class StatsCollector:
    """Collects the statistics of one data file while it is written."""

    def __init__(self, schema: TableSchema) -> None:
        self._modes = stats_modes(schema)
        self._is_dense = STATS_DENSE_STORE.of(schema.options)
        self._all = schema.fields
        self._kept = [field for field in schema.fields if self._modes[field.name] != _NONE]
        self._nulls = dict.fromkeys(self._modes, 0)
        self._with_nan: set[str] = set()

    def learn(self, rows: pa.Table) -> None:
        """Count nulls and look for NaN in rows that were written."""
        for field in self._kept:
            column = rows.column(field.name)
            self._nulls[field.name] += column.null_count
            if field.type.root in _FLOATS and field.name not in self._with_nan and _has_nan(column):
                self._with_nan.add(field.name)

    def finish(self, footer: pq.FileMetaData | None) -> tuple[SimpleStats, tuple[str, ...] | None]:
        """The statistics of a finished file, and the columns that they cover: None is all of the schema.

        `footer` None is that of a format whose writer tells no bounds: they stay unknown.
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
        if not mode.has_bounds or field.name not in leaves:
            return _UNKNOWN
        found = bounds_in_footer(field.type, footer, leaves[field.name], range(footer.num_row_groups))
        least, most = found if found is not None else _UNKNOWN
        if field.name in self._with_nan:
            return (math.nan if least is None else least), math.nan
        if isinstance(least, str) and isinstance(most, str) and mode.length is not None:
            return truncated_bounds(least, most, mode.length) or _UNKNOWN
        if isinstance(least, bytes) and isinstance(most, bytes) and mode.length is not None:
            return (least, most) if max(len(least), len(most)) <= mode.length else _UNKNOWN
        return least, most


def _has_nan(column: pa.ChunkedArray) -> bool:
    """Whether a float is NaN: the least of an array is, if any is."""
    for chunk in column.chunks:
        values = (chunk.drop_null() if chunk.null_count else chunk).to_numpy(zero_copy_only=True)
        if len(values) and np.isnan(np.min(values)):
            return True
    return False
