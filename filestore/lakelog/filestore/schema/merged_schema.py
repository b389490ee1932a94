"""Logged tables that merge in another way than by the last row: the schema that users see, and that of the files. Pure.

Such a table is merged when it is written, since its log must have the result of each change. Its files hold whole rows,
and the last row of a key counts: for every engine it is a table with `merge-engine=deduplicate`. The options that say
how rows are merged are in the schema file under names of lakelog's own.

A table that looks up old rows when it is written has `changelog-producer=lookup` in the same way: its changelog files
come with each batch, which for every engine is `input`. Older tables have `lookup` in their schema file, and their
compactions write the changelog. Source: docs/rfcs/0023-log-modes.md, docs/rfcs/0025-old-values-in-the-log.md.
"""

from __future__ import annotations

from dataclasses import replace

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.options.field_options import MAP_LAYOUT, PREFIX, STATS_MODE
from lakelog.filestore.options.merging import (
    AGGREGATION_REMOVE_ON_DELETE,
    CHANGELOG_PRODUCER,
    IGNORE_DELETE,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE_ON_DELETE,
    PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
    ChangelogProducer,
)
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.table_kinds import BY_COMPACTION

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
_OF_FILES = (f".{STATS_MODE}", f".{MAP_LAYOUT}")  # options of columns that are not rules of a merge


def has_own_rules(schema: TableSchema) -> bool:
    """Whether a schema, as users see it, differs from the one that the files of such a table have."""
    return schema.is_merged_at_write or schema.has_changelog_at_write or BY_COMPACTION in schema.options


def whole_row_schema(schema: TableSchema) -> TableSchema:
    """The schema that the files of such a table have."""
    hidden = {key for key in schema.options if _is_rule(key)} if schema.is_merged_at_write else set()
    inputs = {}
    if schema.has_changelog_at_write:
        hidden.add(CHANGELOG_PRODUCER.key)
        inputs = {CHANGELOG_PRODUCER.key: ChangelogProducer.INPUT.value}
    options = {f"{_AT_WRITE}{key}" if key in hidden else key: value for key, value in schema.options.items()}
    options.pop(BY_COMPACTION, None)
    return replace(schema, options=options | inputs)


def has_hidden_rules(schema: TableSchema) -> bool:
    """Whether a schema, as files have it, is of such a table."""
    return any(key.startswith(_AT_WRITE) for key in schema.options)


def schema_with_rules(schema: TableSchema, *, path: str) -> TableSchema:
    """The schema as users see it, for the one in the file at `path`.

    Raises UnsupportedError if another engine has changed how the table merges.
    """
    hidden = {key: value for key, value in schema.options.items() if key.startswith(_AT_WRITE)}
    plain = {key: value for key, value in schema.options.items() if key not in hidden}
    shown = replace(schema, options=plain | {key.removeprefix(_AT_WRITE): value for key, value in hidden.items()})
    is_open = CHANGELOG_PRODUCER.of(plain) is ChangelogProducer.LOOKUP
    if is_open and shown.looks_up_old_rows:
        shown = replace(shown, options={**shown.options, BY_COMPACTION: "true"})
    if hidden and whole_row_schema(shown) != schema:
        raise UnsupportedError(
            f"schema file {path} is of a table that lakelog merges when it writes, and another engine has set options "
            "by which it would be merged when it is read: take the change back there"
        )
    return shown


def _is_rule(key: str) -> bool:
    return key in _RULES or (key.startswith(PREFIX) and not key.endswith(_OF_FILES))
