"""Relations of DuckDB that hold an object as long as something reads them."""

from __future__ import annotations

from typing import Any  # Any: duckdb is an optional extra without types here

import duckdb
import pyarrow as pa


class NoRows:
    """No rows, as a stream of Arrow, which holds an object."""

    # Not made from a list: Arrow would import pandas.
    _ROWS = pa.table({"held": pa.Array.from_buffers(pa.bool_(), 0, [None, pa.py_buffer(b"")])})

    def __init__(self, held: object) -> None:
        self._held = held

    def __arrow_c_schema__(self) -> object:
        return self._ROWS.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._ROWS.__arrow_c_stream__(requested_schema)


def holding_relation(connection: Any, query: str, held: object) -> Any:
    """A query as a relation that holds a stream of Arrow, by a join that DuckDB leaves out of its plans.

    Views of the relation hold it too. Raises what DuckDB raises.
    """
    lakelog_held = held
    try:
        return connection.sql(f"{query} ANTI JOIN lakelog_held ON false")  # DuckDB finds the variable
    except duckdb.CatalogException:  # where python_enable_replacements is false
        rows = duckdb.from_arrow(lakelog_held, connection=connection)
        return connection.sql(query).join(rows, "false", how="anti")
