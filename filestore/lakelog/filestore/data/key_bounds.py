"""Smallest and largest value of each key column, over rows in key order. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakelog.common.types import DataField, DataType
from lakelog.filestore.encoding.binary_row import StoredValue, stored_row
from lakelog.filestore.encoding.key_order import comparable
from lakelog.filestore.merge.order import key_frame


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyBounds:
    """Bounds of one column in the format's order, without nulls; None if there are only nulls."""

    kind: DataType
    least: StoredValue
    most: StoredValue
    null_count: int


def bounds_of_keys(rows: pa.Table, key_fields: Sequence[DataField]) -> tuple[KeyBounds, ...]:
    """The bounds of each key column of rows in key order; at least one row."""
    order = key_frame(rows, key_fields) if len(key_fields) > 1 else None
    bounds = []
    for index, field in enumerate(key_fields):
        column = rows.column(field.name)
        if index == 0:  # rows are in the order of this column, nulls first
            least_at, most_at = min(column.null_count, len(column) - 1), len(column) - 1
        else:
            assert order is not None
            values = order.to_series(index)
            least_at, most_at = values.arg_min() or 0, values.arg_max() or 0
        least, most = (stored_row([field.type], [column], row)[0] for row in (least_at, most_at))
        bounds.append(KeyBounds(kind=field.type, least=least, most=most, null_count=column.null_count))
    return tuple(bounds)


def joined_bounds(left: Sequence[KeyBounds], right: Sequence[KeyBounds]) -> tuple[KeyBounds, ...]:
    """The bounds of two sets of rows together; `left` is empty for the first."""
    if not left:
        return tuple(right)
    return tuple(_join(one, other) for one, other in zip(left, right, strict=True))


def _join(left: KeyBounds, right: KeyBounds) -> KeyBounds:
    kind = left.kind

    def order(value: StoredValue) -> tuple[object, ...]:
        return comparable([kind], [value])

    leasts = [value for value in (left.least, right.least) if value is not None]
    mosts = [value for value in (left.most, right.most) if value is not None]
    return KeyBounds(
        kind=kind,
        least=min(leasts, key=order, default=None),
        most=max(mosts, key=order, default=None),
        null_count=left.null_count + right.null_count,
    )
