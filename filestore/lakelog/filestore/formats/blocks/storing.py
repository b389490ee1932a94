"""Rows in the types of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakelog.common.errors import InvalidRequestError


def stored_rows(table: pa.Table, schema: pa.Schema, path: str) -> pa.Table:
    """The rows in the types of the file at `path`. Raises InvalidRequestError, also for nulls in NOT NULL columns."""
    for column, values in zip(schema, table.columns, strict=False):
        if not column.nullable and values.null_count:
            raise InvalidRequestError(f"column {column.name!r} is NOT NULL and has {values.null_count} nulls")
    try:
        return table.cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        raise InvalidRequestError(f"the rows do not fit the columns of {path}: {error}") from error


def timestamps_in(values: pa.Array) -> Iterator[pa.Array]:
    """The timestamps among values, nested ones included."""
    types = pa.types
    if types.is_timestamp(values.type):
        yield values
    elif types.is_map(values.type):
        start, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        for part in (values.keys, values.items):
            yield from timestamps_in(part.slice(start, end - start))
    elif types.is_list(values.type):
        yield from timestamps_in(values.flatten())
    elif types.is_struct(values.type):
        for part in values.flatten():
            yield from timestamps_in(part)
