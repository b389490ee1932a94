"""The schema of a table's files, and that which users see, where these differ. Pure.

They differ for tables without key that take deletes, for logged tables that merge in another way than by the last row,
or that write changelog files from looked up rows, and for reads with the places of rows.
"""

from __future__ import annotations

from lakelog.common.log_system import has_log
from lakelog.filestore.schema.counted_schema import (
    counted_schema,
    schema_without_count,
)
from lakelog.filestore.schema.merged_schema import (
    has_own_rules,
    schema_with_rules,
    whole_row_schema,
)
from lakelog.filestore.schema.row_places import has_places, schema_without_places
from lakelog.filestore.schema.schema import TableSchema


def stored_schema(schema: TableSchema) -> TableSchema:
    """The schema of the files, for a schema as users see it."""
    if has_places(schema):
        return schema_without_places(schema)
    if schema.is_change_log:
        return counted_schema(schema)
    return whole_row_schema(schema) if has_own_rules(schema) else schema


def shown_schema(schema: TableSchema, *, path: str) -> TableSchema:
    """The schema as users see it, for the one in the file at `path`.

    Raises UnsupportedError for tables with another layout than lakelog's.
    """
    if schema.primary_keys and has_log(schema.options) and not schema.is_counted:
        return schema_with_rules(schema, path=path)
    return schema_without_count(schema, path=path)
