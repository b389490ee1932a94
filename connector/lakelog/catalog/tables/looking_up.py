"""Rows by their primary keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any  # Any: values of keys

import polars as pl
import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import cause, listed
from lakelog.filestore.read import key_filter

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable

Keys = Mapping[str, Any] | Sequence[Mapping[str, Any]]


def look_up(store: FileStoreTable, keys: Keys, *, columns: str | Sequence[str] | None = None) -> pa.Table:
    """The rows with these primary keys, in no order; a key without a row has none.

    Reads only files that may hold the keys. Raises InvalidRequestError for other columns than those of the key, and for
    values of other types; UnsupportedError for a table without primary key.
    """
    wanted = _typed(store, keys)
    names = wanted.column_names
    shown = [field.name for field in store.schema.chosen(columns)]
    read = [*shown, *(name for name in names if name not in shown)]
    rows = store.to_arrow(columns=read, where=key_filter(store.schema.select(names), wanted))
    found = _frame(rows.select(names)).with_row_index("_place").join(_frame(wanted), on=names, how="semi")
    return rows.take(found["_place"].to_arrow()).select(shown)


def _typed(store: FileStoreTable, keys: Keys) -> pa.Table:
    """The keys as the columns of the table's primary key."""
    schema, given = store.schema, [keys] if isinstance(keys, Mapping) else list(keys)
    if not schema.primary_keys:
        raise UnsupportedError(f"table {store.name} has no primary key: read rows with a condition, `where`")
    for key in given:
        if not isinstance(key, Mapping) or set(key) != set(schema.primary_keys):
            found = listed(key) if isinstance(key, Mapping) else repr(key)
            raise InvalidRequestError(
                f"a key of table {store.name} has a value for each of the columns {listed(schema.primary_keys)}, as in "
                f"{{{schema.primary_keys[0]!r}: ...}}; found {found}"
            )
    try:
        return pa.Table.from_pylist(given, to_arrow_schema(schema.select(schema.primary_keys)))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        kinds = listed(f"{field.name} {field.type}" for field in schema.select(schema.primary_keys))
        raise InvalidRequestError(f"a key of table {store.name} does not fit into {kinds}: {cause(error)}") from error


def _frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame
