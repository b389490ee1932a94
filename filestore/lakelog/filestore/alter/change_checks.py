"""Checks what changes of a schema may not do to the table."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.common.column_names import matching
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import typed
from lakelog.filestore.alter.schema_changes import AddColumn, DropColumn, SchemaChange, UpdateColumnType
from lakelog.filestore.data.value_stats import stats_modes
from lakelog.filestore.merge.engines import row_merge
from lakelog.filestore.options.field_options import SEQUENCE_GROUP, field_options
from lakelog.filestore.options.foreign import OptionUse, check_foreign_options
from lakelog.filestore.options.merging import WRITE_MODE
from lakelog.filestore.schema.column_options import check_named_columns, merge_rules
from lakelog.filestore.schema.column_paths import ColumnPath, Fields, dotted, path_of
from lakelog.filestore.schema.counted_schema import check_write_mode
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_rules import (
    check_bucket,
    check_keys,
    check_names,
    check_types,
    check_writable,
    is_writable,
)
from lakelog.filestore.schema.table_kinds import check_need_no_key


def check_are_changes(changes: Sequence[SchemaChange]) -> None:
    """Raise InvalidRequestError for no change, and for a value that is not one."""
    if not changes:
        raise InvalidRequestError("no change is given; name at least one")
    for change in changes:
        if not isinstance(change, SchemaChange):
            raise InvalidRequestError(
                f"{typed(change)} is not a change: expected values such as AddColumn('note', 'STRING') or "
                "SetOption(key, value) of lakelog.catalog"
            )


def check_rows_stay(changes: Sequence[SchemaChange]) -> None:
    """Raise InvalidRequestError for a change that would change the counted rows of a value-count table."""
    for change in changes:
        if isinstance(change, AddColumn | DropColumn | UpdateColumnType):
            raise InvalidRequestError(
                f"column {dotted(path_of(change.column))!r} cannot be added, dropped or changed in type: with "
                f"{WRITE_MODE.key}=change-log the whole row is the key; make a table with the columns, and copy the "
                "rows"
            )


def check_is_new(siblings: Fields, above: ColumnPath, name: str) -> None:
    """Raise InvalidRequestError for a sibling's name, in any case: Spark takes both for one column."""
    for found in matching(name, (field.name for field in siblings)):
        new = dotted((*above, name))
        if found == name:
            raise InvalidRequestError(f"column {new!r} exists already; choose another name")
        raise InvalidRequestError(
            f"column {new!r} differs only in case from {dotted((*above, found))!r}, which exists, and Spark cannot "
            f"distinguish the two: write the values to {found!r}, or choose another name"
        )


def check_changed(old: TableSchema, new: TableSchema) -> None:
    """Raise an error for a schema that is invalid, cannot be written any more, or misreads stored rows."""
    check_names(new.fields)
    check_write_mode(new)
    check_keys(new)
    check_types(new.fields)
    check_bucket(new)
    changed = {key: value for key, value in new.options.items() if value != old.options.get(key)}
    check_foreign_options(changed, *OptionUse)
    if is_writable(old):
        check_writable(new)
    check_named_columns(changed, new.field_names)
    _check_merge_rules(old, new)
    check_need_no_key(changed, has_key=bool(new.primary_keys))
    row_merge(new)
    if any(key.endswith("stats-mode") for key in changed):
        stats_modes(new)


def _check_merge_rules(old: TableSchema, new: TableSchema) -> None:
    """Raise an error for options that would merge the stored values of a column in another way than before."""
    before, after = _rules_by_id(old), _rules_by_id(new)
    names = {field.id: field.name for field in new.fields}
    for number in names.keys() & {field.id for field in old.fields}:
        if before.get(number) != after.get(number):
            raise InvalidRequestError(
                f"the options fields.* of column {names[number]!r} cannot be changed: stored values were merged by "
                "them; give such options to columns that the same alter adds"
            )
    if bool(_groups(new)) and not _groups(old) and old.primary_keys:
        raise InvalidRequestError(
            f"option {_groups(new)[0]!r} would be the first sequence group of the table, which changes what stored "
            "deletes mean; make a table with it, and copy the rows"
        )


def _rules_by_id(schema: TableSchema) -> dict[int, dict[str, object]]:
    ids = {field.name: field.id for field in schema.fields}
    rules = merge_rules(schema.options)
    return {
        ids[name]: {
            what: tuple(ids.get(one, one) for one in rule) if isinstance(rule, tuple) else rule
            for what, rule in found.items()
        }
        for name, found in rules.items()
        if name in ids
    }


def _groups(schema: TableSchema) -> list[str]:
    return [key for key, option in field_options(schema.options) if option.suffix == SEQUENCE_GROUP]
