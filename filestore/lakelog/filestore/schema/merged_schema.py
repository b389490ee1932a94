"""Tables with a log that merge otherwise than by the last row: the schema that users see, and that of the files. Pure.

Such a table is merged when it is written, since its log must say what a change made of a row. Its files hold whole
rows, of which the last one of a key counts: for every engine it is a table with `merge-engine=deduplicate`. The options
that say how rows are merged are in the schema file under names of lakelog's own. Source: docs/rfcs/0023-log-modes.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakelog.common.errors import UnsupportedError
from lakelog.common.log_system import has_log
from lakelog.filestore.options.field_options import MAP_LAYOUT, PREFIX, STATS_MODE
from lakelog.filestore.options.merging import (
    AGGREGATION_REMOVE_ON_DELETE,
    IGNORE_DELETE,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
    MergeEngine,
)

if TYPE_CHECKING:
    from lakelog.filestore.schema.schema import TableSchema

_AT_WRITE = "lakelog.merged-at-write."
_RULES = {
    AGGREGATION_REMOVE_ON_DELETE.key,
    IGNORE_DELETE.key,
    *IGNORE_DELETE.older_keys,
    MERGE_ENGINE.key,
    PARTIAL_UPDATE_REMOVE_ON_DELETE.key,
    PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP.key,
    SEQUENCE_FIELD.key,
    SEQUENCE_FIELD_SORT_ORDER.key,
}
_OF_FILES = (f".{STATS_MODE}", f".{MAP_LAYOUT}")  # of columns, and no rule of a merge


def is_merged_at_write(schema: TableSchema) -> bool:
    """Whether a schema, as users see it, is of a table with a log that does not keep the last row of a key."""
    options = schema.options
    keeps_last = MERGE_ENGINE.of(options) is MergeEngine.DEDUPLICATE and not SEQUENCE_FIELD.of(options)
    return has_log(options) and bool(schema.primary_keys) and not (keeps_last and not IGNORE_DELETE.of(options))


def whole_row_schema(schema: TableSchema) -> TableSchema:
    """The schema that the files of such a table have."""
    return replace(
        schema,
        options={f"{_AT_WRITE}{key}" if _is_rule(key) else key: value for key, value in schema.options.items()},
    )


def has_hidden_rules(schema: TableSchema) -> bool:
    """Whether a schema, as files have it, is of such a table."""
    return any(key.startswith(_AT_WRITE) for key in schema.options)


def schema_with_rules(schema: TableSchema, *, path: str) -> TableSchema:
    """The schema as users see it, of one that the file at `path` has.

    Raises UnsupportedError where another engine has changed how the table merges.
    """
    shown = replace(schema, options={key.removeprefix(_AT_WRITE): value for key, value in schema.options.items()})
    if whole_row_schema(shown) != schema:
        raise UnsupportedError(
            f"schema file {path} is of a table that lakelog merges when it writes, and another engine has set options "
            "by which it would be merged when it is read: take the change back there"
        )
    return shown


def _is_rule(key: str) -> bool:
    return key in _RULES or (key.startswith(PREFIX) and not key.endswith(_OF_FILES))
