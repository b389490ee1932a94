"""Whether rows are equal, column by column, as the format compares values: NaN equals NaN, null equals null. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.merge.order import key_frame

Flags = npt.NDArray[np.bool_]


def are_equal(left: pa.Table, right: pa.Table, fields: Sequence[DataField]) -> Flags:
    """For each place whether the two rows there are equal in these columns."""
    return np.asarray(equal_columns(left, right, fields).all(axis=1), np.bool_)


def equal_columns(left: pa.Table, right: pa.Table, fields: Sequence[DataField]) -> Flags:
    """For each place and column whether the two values there are equal."""
    mine, yours = key_frame(left, fields), key_frame(right, fields)
    found = np.ones((left.num_rows, len(fields)), np.bool_)
    for index, name in enumerate(mine.columns):
        found[:, index] = mine[name].eq_missing(yours[name]).to_numpy()
    return found


def are_same(rows: pa.Table, fields: Sequence[DataField], left: pl.Series, right: pl.Series) -> pl.Series:
    """For each pair of places in `rows`, null for no row, whether both rows are equal or both are missing."""
    is_same = (left.is_null() & right.is_null()).to_numpy().copy()
    both = np.flatnonzero((left.is_not_null() & right.is_not_null()).to_numpy())
    if len(both):
        mine, yours = (rows.take(side.gather(both).to_arrow()) for side in (left, right))
        is_same[both] = are_equal(mine, yours, fields)
    return pl.Series(is_same)
