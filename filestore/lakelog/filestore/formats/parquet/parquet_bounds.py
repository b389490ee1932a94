"""Bounds of columns in the footer of a Parquet file, as stored values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # Any: raw values of a footer have the type of their column

import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.common.types import DataType, TypeRoot
from lakelog.filestore.encoding.binary_row import StoredValue, decimal_of
from lakelog.filestore.encoding.key_order import comparable

_TEXT = (TypeRoot.CHAR, TypeRoot.VARCHAR)
_BYTES = (TypeRoot.BINARY, TypeRoot.VARBINARY)
_TIMESTAMPS = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)


def leaves_of(footer: pq.FileMetaData) -> dict[str, int]:
    """The position of each column in the footer. A name that a member of a nested column has too is left out."""
    paths = [footer.schema.column(index).path for index in range(footer.num_columns)]
    return {path: index for index, path in enumerate(paths) if paths.count(path) == 1}


def roots_of(schema: pa.Schema) -> list[str]:
    """The column of a file that each of its leaves belongs to; names of columns may have dots, as paths have."""
    return [column.name for column in schema for _ in range(_leaf_count(column.type))]


def _leaf_count(kind: pa.DataType) -> int:
    return sum(_leaf_count(kind.field(at).type) for at in range(kind.num_fields)) if kind.num_fields else 1


def bounds_in_footer(
    kind: DataType, footer: pq.FileMetaData, leaf: int, row_groups: Sequence[int]
) -> tuple[StoredValue, StoredValue] | None:
    """The bounds of a column over row groups, without NaN; None if a group with values has none."""
    leasts: list[StoredValue] = []
    mosts: list[StoredValue] = []
    for group in row_groups:
        chunk = footer.row_group(group).column(leaf)
        stats = chunk.statistics
        if stats is None or chunk.physical_type == "INT96":
            return None
        if not stats.has_min_max:
            if stats.has_null_count and stats.null_count == chunk.num_values:
                continue
            return None
        leasts.append(_stored(kind, stats.min_raw))
        mosts.append(_stored(kind, stats.max_raw))
    if not leasts:
        return None

    def order(value: StoredValue) -> tuple[object, ...]:
        return comparable([kind], [value])

    return min(leasts, key=order), max(mosts, key=order)


def _stored(kind: DataType, raw: Any) -> StoredValue:
    """The stored value of a raw value in a Parquet column of lakelog."""
    if kind.root in _TEXT:
        return bytes(raw).decode()
    if kind.root in _BYTES:
        return bytes(raw)
    if kind.root is TypeRoot.DECIMAL:
        unscaled = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)
        return decimal_of(unscaled, kind)
    if kind.root in _TIMESTAMPS and not kind.precision:  # whole seconds, stored in milliseconds
        return int(raw) // 1_000
    value: StoredValue = raw
    return value


def null_count_in_footer(footer: pq.FileMetaData, leaf: int, row_group: int) -> int | None:
    """Nulls of a column in a row group; None if the footer has no count."""
    stats = footer.row_group(row_group).column(leaf).statistics
    return None if stats is None or not stats.has_null_count else int(stats.null_count)
