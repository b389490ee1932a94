"""Whether rows are equal, column by column, as the format compares values. Pure.

Null equals null and NaN equals NaN; 0.0 does not equal -0.0. Nested values are equal if their JSON is: the same rule
holds inside them, and the order of the entries of a map does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from lakelog.common.types import DataField
from lakelog.filestore.merge.order import key_frame
from lakelog.filestore.read.json_rows import to_json_lines

Flags = npt.NDArray[np.bool_]


def comparable(rows: pa.Table, fields: Sequence[DataField]) -> pl.DataFrame:
    """Columns `0`, `1`, ... that polars finds equal where the values are equal; nested columns as JSON."""
    columns = []
    for at, field in enumerate(fields):
        if field.type.is_nested:
            columns.append(pl.Series(str(at), to_json_lines(rows.select([field.name]), [field]), dtype=pl.String))
        else:
            columns.append(key_frame(rows, [field]).to_series().alias(str(at)))
    return pl.DataFrame(columns)


def are_equal(left: pa.Table, right: pa.Table, fields: Sequence[DataField]) -> Flags:
    """For each place whether the two rows there are equal in these columns."""
    return np.asarray(equal_columns(left, right, fields).all(axis=1), np.bool_)


def equal_columns(left: pa.Table, right: pa.Table, fields: Sequence[DataField]) -> Flags:
    """For each place and column whether the two values there are equal."""
    mine, yours = comparable(left, fields), comparable(right, fields)
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
