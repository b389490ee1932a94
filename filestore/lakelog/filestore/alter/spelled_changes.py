"""Changes of a schema, with column names as the table spells them. Pure."""

from __future__ import annotations

from dataclasses import replace

from lakelog.filestore.alter.schema_changes import AddColumn, RemoveOption, SchemaChange, SetOption, SetTableComment
from lakelog.filestore.schema.column_options import spelled_option, spelled_options
from lakelog.filestore.schema.column_paths import path_of, spelled_path
from lakelog.filestore.schema.schema import TableSchema


def spelled_change(schema: TableSchema, change: SchemaChange) -> SchemaChange:
    """A change, with column names as the schema spells them.

    Raises InvalidRequestError for a column that does not exist, and for an ambiguous name.
    """
    if isinstance(change, SetOption):
        key, value = spelled_option(change.key, change.value, schema.field_names)
        return SetOption(key, value)
    if isinstance(change, RemoveOption):
        return RemoveOption(spelled_option(change.key, "", schema.field_names)[0])
    if isinstance(change, SetTableComment):
        return change
    path = spelled_path(schema.fields, path_of(change.column), is_new=isinstance(change, AddColumn))
    return replace(change, column=path)


def with_spelled_options(old: TableSchema, new: TableSchema) -> TableSchema:
    """The new schema, with the changed options as `spelled_options` gives them, also those of added columns."""
    kept = {key: value for key, value in new.options.items() if old.options.get(key) == value}
    given = {key: value for key, value in new.options.items() if key not in kept}
    return replace(new, options={**kept, **spelled_options(given, new.field_names)}) if given else new
