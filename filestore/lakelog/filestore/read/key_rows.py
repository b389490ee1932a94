"""Rows by their primary keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # Any: values of keys

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import cause, listed
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.predicate import Predicate
from lakelog.filestore.read.engine_filters import joined, membership


def typed_keys(table: TableStore, keys: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> pa.Table:
    """The keys as the columns of the table's primary key. Raises InvalidRequestError, UnsupportedError without one."""
    schema, given = table.schema, [keys] if isinstance(keys, Mapping) else list(keys)
    if not schema.primary_keys:
        raise UnsupportedError(f"table {table.name} has no primary key: read rows with a condition, `where`")
    for key in given:
        if not isinstance(key, Mapping) or set(key) != set(schema.primary_keys):
            found = listed(key) if isinstance(key, Mapping) else repr(key)
            raise InvalidRequestError(
                f"a key of table {table.name} has a value for each of the columns {listed(schema.primary_keys)}, as in "
                f"{{{schema.primary_keys[0]!r}: ...}}; found {found}"
            )
    try:
        return pa.Table.from_pylist(given, to_arrow_schema(schema.select(schema.primary_keys)))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        kinds = listed(f"{field.name} {field.type}" for field in schema.select(schema.primary_keys))
        raise InvalidRequestError(f"a key of table {table.name} does not fit into {kinds}: {cause(error)}") from error


def key_filter(table: TableStore, keys: pa.Table) -> Predicate | None:
    """A predicate that rows with these keys pass, and maybe others; None for columns whose values have no literal."""
    fields = table.schema.select(keys.column_names)
    parts = [membership(field, keys.column(field.name).unique().to_pylist()) for field in fields]
    return joined(parts, is_and=True)


def rows_with(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows whose key is one of these, in their order."""
    names = keys.column_names
    numbered = _frame(rows.select(names)).with_row_index("_place")
    found = numbered.join(_frame(keys), on=names, how="semi", maintain_order="left")
    return rows.take(found["_place"].to_arrow())


def _frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame
