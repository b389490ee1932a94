"""Types of columns that DuckDB reads from Parquet files as it does from Arrow."""

from __future__ import annotations

from lakelog.common.types import DataType, TypeRoot

_MILLIS_DIGITS = 3


def is_alike(kind: DataType) -> bool:
    """Whether DuckDB has the same type for a column from Parquet files as for one from Arrow."""
    if kind.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return (kind.precision or 0) > _MILLIS_DIGITS or kind.root is TypeRoot.TIMESTAMP_LTZ
    inner = [part for part in (kind.element, kind.key, kind.value) if part is not None]
    if len({part.name.casefold() for part in kind.fields}) < len(kind.fields):  # it would rename some of them
        return False
    return kind.root is not TypeRoot.TIME and all(map(is_alike, [*inner, *(part.type for part in kind.fields)]))
