"""Rows as a file holds them."""

from __future__ import annotations

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError


def stored_rows(table: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """The rows in the types that the file at `path` holds. Raises InvalidRequestError, also for nulls in NOT NULL."""
    for column, values in zip(schema, table.columns, strict=False):
        if not column.nullable and values.null_count:
            raise InvalidRequestError(f"column {column.name!r} is NOT NULL and has {values.null_count} nulls")
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise InvalidRequestError(f"the rows do not fit the columns of {path}: {error}") from error
