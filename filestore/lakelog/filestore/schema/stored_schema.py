"""The schema that the files of a table have, and the one that users see: two for tables without key that take deletes,
and for tables with a log that merge otherwise than by the last row, or that write changelog files of what they look up.
Pure.
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
from lakelog.filestore.schema.schema import TableSchema


def stored_schema(schema: TableSchema) -> TableSchema:
    """The schema that files have, of one as users see it."""
    if schema.is_change_log:
        return counted_schema(schema)
    return whole_row_schema(schema) if has_own_rules(schema) else schema


def shown_schema(schema: TableSchema, *, path: str) -> TableSchema:
    """The schema as users see it, of one that the file at `path` has.

    Raises UnsupportedError for tables that are not laid out like ours.
    """
    if schema.primary_keys and has_log(schema.options) and not schema.is_counted:
        return schema_with_rules(schema, path=path)
    return schema_without_count(schema, path=path)
