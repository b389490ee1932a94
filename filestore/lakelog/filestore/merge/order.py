"""Keys as columns that polars orders and compares as the format does. Pure.

The format sorts nulls first, strings and bytes by unsigned bytes, -0.0 before 0.0, NaN last and equal to itself. polars
sorts in the same way except for floats, which become integers in the same order; times and timestamps become integers
too. Source: Paimon spec, "Data files"; Java's `Double.compare`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import numpy as np
import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField, TypeRoot

_MANTISSA_MASK = 0x7FFF_FFFF_FFFF_FFFF
_NAN_ORDER = _MANTISSA_MASK  # above every number, infinity included
_FLOATS = {TypeRoot.FLOAT, TypeRoot.DOUBLE}
_INTEGER_STORAGE = {
    TypeRoot.DATE: pa.int32(),
    TypeRoot.TIMESTAMP: pa.int64(),
    TypeRoot.TIMESTAMP_LTZ: pa.int64(),
}

OrderedKey = tuple[tuple[object, ...], ...]


def key_frame(table: pa.Table, key_fields: Sequence[DataField]) -> pl.DataFrame:
    """The key columns of a table, in key order, as polars orders them; named `0`, `1`, ..."""
    return pl.DataFrame(
        [
            _order_column(table.column(field.name), field.type.root).alias(str(index))
            for index, field in enumerate(key_fields)
        ]
    )


def key_at(keys: pl.DataFrame, row: int) -> OrderedKey:
    """One row of a key frame as a tuple that Python compares in the same order."""
    return tuple((0,) if value is None else (1, value) for value in keys.row(row))


def rows_up_to(keys: pl.DataFrame, key: OrderedKey) -> int:
    """How many rows of a sorted key frame are at or before `key`. Fastest if the frame is one chunk."""
    return _equal_rows(keys, key)[1]


def rows_before(keys: pl.DataFrame, key: OrderedKey) -> int:
    """How many rows of a sorted key frame are before `key`. Fastest if the frame is one chunk."""
    return _equal_rows(keys, key)[0]


def _equal_rows(keys: pl.DataFrame, key: OrderedKey) -> tuple[int, int]:
    """Where the rows that equal `key` start and end in a sorted key frame, found column by column."""
    start, end = 0, keys.height
    for index, part in enumerate(key):
        if start == end:
            break
        column = keys.to_series(index).slice(start, end - start)
        nulls = column.null_count()
        if len(part) == 1:  # null, which comes first
            end = start + nulls
            continue
        rest = column.slice(nulls) if nulls else column
        first = start + nulls
        start, end = first + _position(rest, part[1], "left"), first + _position(rest, part[1], "right")
    return start, end


def _position(values: pl.Series, value: object, side: Literal["left", "right"]) -> int:
    """Where `value` belongs among sorted values without nulls, before or after equal ones."""
    if values.dtype.is_integer():  # the overhead of polars is 30 times that of this search
        return int(np.searchsorted(values.to_numpy(), cast(int, value), side))  # a column of integers holds integers
    return int(values.search_sorted(pl.Series([value], dtype=values.dtype), side)[0])


def is_last_of_key(ordered: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """For rows sorted by the columns `names`: whether each is the last row of its key."""
    changes = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(-1)) for name in names)
    is_end = pl.int_range(pl.len()) == pl.len() - 1
    return ordered.select(changes | is_end).to_series()


def _order_column(values: pa.ChunkedArray, root: TypeRoot) -> pl.Series:
    if root in _FLOATS:
        return _float_order(values)
    if root is TypeRoot.TIME:
        return to_series(values.cast(pa.int32() if values.type.bit_width == 32 else pa.int64()))
    storage = _INTEGER_STORAGE.get(root)
    return to_series(values if storage is None else values.cast(storage))


def _float_order(values: pa.ChunkedArray) -> pl.Series:
    """Integers in the order of `Double.compare`: negative numbers' bits are inverted, NaNs are equal and largest."""
    doubles = values.cast(pa.float64())
    bits = pa.chunked_array([chunk.view(pa.int64()) for chunk in doubles.chunks], pa.int64())
    frame = pl.DataFrame({"value": to_series(doubles), "bits": to_series(bits)})
    magnitude = pl.col("bits") ^ _MANTISSA_MASK
    return frame.select(
        pl.when(pl.col("value").is_nan())
        .then(_NAN_ORDER)
        .when(pl.col("bits") < 0)
        .then(magnitude)
        .otherwise(pl.col("bits"))
    ).to_series()


def to_series(values: pa.Array | pa.ChunkedArray) -> pl.Series:
    """An Arrow column as a polars series; copies nothing if the layouts agree, but for nested columns in pieces.

    polars (2.1) panics where it compares lists of rows of maps that are in several pieces.
    """
    series = pl.from_arrow(values)
    assert isinstance(series, pl.Series)
    return series.rechunk() if series.dtype.is_nested() else series
