"""Applies changes to a schema. Pure: no clock, no disk.

Columns keep their field ids forever, and an id is never used again: so old files are read correctly with every later
schema. Source: Paimon spec, "Changing a schema"; Paimon, `SchemaManager`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from lakelog.common.arrow import from_arrow_type
from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import Option
from lakelog.common.quoting import listed
from lakelog.common.types import DataField, DataType, parse_type
from lakelog.filestore.alter.change_checks import check_are_changes, check_changed, check_is_new, check_rows_stay
from lakelog.filestore.alter.computed_places import with_places
from lakelog.filestore.alter.schema_changes import (
    AddColumn,
    DropColumn,
    Place,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetComment,
    SetDefault,
    SetNullability,
    SetOption,
    SetTableComment,
    UpdateColumnPosition,
    UpdateColumnType,
)
from lakelog.filestore.alter.spelled_changes import spelled_change, with_spelled_options
from lakelog.filestore.alter.widening import becomes_text, check_widening
from lakelog.filestore.alter.written_defaults import with_default
from lakelog.filestore.options import check_options
from lakelog.filestore.options.field_options import DEFAULT_AGGREGATE
from lakelog.filestore.options.files import FILE_FORMAT
from lakelog.filestore.options.layout import BUCKET, BUCKET_KEY
from lakelog.filestore.options.merging import SEQUENCE_FIELD
from lakelog.filestore.schema.column_options import (
    check_changeable,
    merge_rules,
    options_naming,
    renamed_in_options,
)
from lakelog.filestore.schema.column_paths import (
    ColumnPath,
    Fields,
    dotted,
    edit_siblings,
    edit_type,
    find,
    named_fields,
    path_of,
)
from lakelog.filestore.schema.new_schema import number_type, with_orc_options
from lakelog.filestore.schema.schema import KEY_FIELD_ID_START, SCHEMA_VERSION, TableSchema

_Edit = Callable[[Fields], Fields]
_Change = Callable[[DataField], DataField]


def apply_changes(
    schema: TableSchema,
    changes: Sequence[SchemaChange],
    *,
    time_millis: int = 0,
    also: Iterable[Option[object]] = (),
    also_prefixes: Iterable[str] = (),
) -> TableSchema:
    """The next schema: one change after the other, all or none. The same schema if they change nothing.

    `also` and `also_prefixes` declare options of other parts of the table. Raises InvalidRequestError (OptionError for
    options) or UnsupportedError, naming what does not fit and what to do.
    """
    check_are_changes(changes)
    given = {change.key: change.value for change in changes if isinstance(change, SetOption)}
    check_options(given, also=also, also_prefixes=also_prefixes)
    if schema.is_change_log:
        check_rows_stay(changes)
    changed = _of_this_version(schema)
    for change in changes:
        spelled = spelled_change(changed, change)
        changed = with_places(changed, _apply(changed, spelled), spelled)
    changed = with_spelled_options(schema, changed)
    if changed == _of_this_version(schema):
        return schema
    changed = with_orc_options(changed, before=schema)
    check_changed(schema, changed)
    return replace(changed, id=schema.id + 1, time_millis=time_millis)


def _of_this_version(schema: TableSchema) -> TableSchema:
    """The schema as this release writes it: with the defaults of older releases as values."""
    if schema.version >= SCHEMA_VERSION:
        return schema
    implied = {BUCKET.key: str(schema.bucket_count), FILE_FORMAT.key: schema.file_format.value}
    return replace(schema, version=SCHEMA_VERSION, options={**implied, **schema.options})


def _apply(schema: TableSchema, change: SchemaChange) -> TableSchema:
    match change:
        case SetOption(key, value):
            check_changeable(key, schema.options.get(key), value)
            return replace(schema, options={**schema.options, key: value})
        case RemoveOption(key):
            return _without_option(schema, key)
        case SetTableComment(comment):
            return replace(schema, comment=comment)
        case AddColumn():
            return _added(schema, change)
        case DropColumn(column):
            return _dropped(schema, path_of(column))
        case RenameColumn(column, name):
            return _renamed(schema, path_of(column), name)
        case UpdateColumnPosition(column, position):
            path = path_of(column)
            return _with_siblings(schema, path, lambda siblings: _moved(siblings, path, position))
        case UpdateColumnType(column, kind):
            return _widened(schema, path_of(column), _parsed(kind, dotted(path_of(column))))
        case SetNullability(column, nullable):
            return _with_nullability(schema, path_of(column), nullable=nullable)
        case SetComment(column, comment):
            path = path_of(column)
            return _with_siblings(
                schema, path, lambda siblings: _replaced(siblings, path, lambda one: replace(one, description=comment))
            )
        case SetDefault(column, default):
            path = path_of(column)
            return _with_siblings(
                schema, path, lambda siblings: _replaced(siblings, path, lambda one: with_default(one, path, default))
            )


def _without_option(schema: TableSchema, key: str) -> TableSchema:
    if key not in schema.options:
        raise InvalidRequestError(f"option {key!r} is not set; there is nothing to remove")
    check_changeable(key, schema.options[key], None)
    return replace(schema, options={name: value for name, value in schema.options.items() if name != key})


def _with_siblings(schema: TableSchema, path: ColumnPath, edit: _Edit) -> TableSchema:
    return replace(schema, fields=edit_siblings(schema.fields, path, edit))


def _added(schema: TableSchema, change: AddColumn) -> TableSchema:
    path = path_of(change.column)
    kind = _parsed(change.type, dotted(path))
    if not kind.nullable:
        raise InvalidRequestError(
            f"column {dotted(path)!r} cannot be added as {kind}: existing rows have no value for it; leave out NOT NULL"
        )
    own = max(schema.highest_field_id, *(field.id for _, field in named_fields(schema.fields))) + 1
    numbers = itertools.count(own + 1)
    field = DataField(id=own, name=path[-1], type=number_type(kind, numbers), description=change.comment)

    def add(siblings: Fields) -> Fields:
        check_is_new(siblings, path[:-1], path[-1])
        at = len(siblings) if change.position is None else _place(siblings, change.position, path)
        return (*siblings[:at], field, *siblings[at:])

    highest = next(numbers) - 1
    if highest >= KEY_FIELD_ID_START:
        raise InvalidRequestError(
            f"column {dotted(path)!r} cannot be added: the table's highest field id is {schema.highest_field_id}, and "
            f"columns have ids below {KEY_FIELD_ID_START}; write the rows to a new table"
        )
    return replace(_with_siblings(schema, path, add), highest_field_id=highest)


def _dropped(schema: TableSchema, path: ColumnPath) -> TableSchema:
    name = path[0]
    if len(path) == 1:
        _check_is_no(schema.primary_keys, "primary key", path, "dropped")
        _check_is_no(schema.partition_keys, "partition", path, "dropped")
        schema = _without_bucket_key(schema, name)
        naming = sorted(options_naming(schema.options, name))
        if naming:
            why = f"the option {naming[0]!r} = {schema.options[naming[0]]!r} names it; change or remove it, too"
            if naming[0] == BUCKET_KEY.key and schema.bucket_count == 1:
                why = "it is the last one of those by which rows go to buckets; keep one that the table was made with"
            raise InvalidRequestError(f"column {name!r} cannot be dropped: {why}")

    def drop(siblings: Fields) -> Fields:
        at = find(siblings, path[-1], path)
        if len(siblings) == 1:
            raise InvalidRequestError(f"column {dotted(path)!r} is the only one left, and cannot be dropped")
        return (*siblings[:at], *siblings[at + 1 :])

    return _with_siblings(schema, path, drop)


def _without_bucket_key(schema: TableSchema, name: str) -> TableSchema:
    """With one bucket the bucket key does not matter: a column can be dropped from a bucket key of several columns."""
    left = [key for key in schema.bucket_keys if key != name]
    if schema.bucket_count != 1 or BUCKET_KEY.key not in schema.options or not left:
        return schema
    return replace(schema, options={**schema.options, BUCKET_KEY.key: ",".join(left)})


def _renamed(schema: TableSchema, path: ColumnPath, name: str) -> TableSchema:
    if len(path) == 1:
        _check_is_no(schema.partition_keys, "partition", path, "renamed")

    def rename(siblings: Fields) -> Fields:
        at = find(siblings, path[-1], path)
        is_other_case = name != path[-1] and name.lower() == path[-1].lower()
        others = (*siblings[:at], *siblings[at + 1 :]) if is_other_case else siblings
        check_is_new(others, path[:-1], name)
        return _replaced(siblings, path, lambda field: replace(field, name=name))

    renamed = _with_siblings(schema, path, rename)
    if len(path) > 1:
        return renamed
    keys = tuple(name if key == path[0] else key for key in schema.primary_keys)
    return replace(renamed, primary_keys=keys, options=renamed_in_options(schema.options, path[0], name))


def _widened(schema: TableSchema, path: ColumnPath, wanted: DataType) -> TableSchema:
    if len(path) == 1:
        _check_is_no(schema.primary_keys, "primary key", path, "changed in type")
        _check_is_no(schema.partition_keys, "partition", path, "changed in type")
        _check_is_no(schema.bucket_keys if schema.bucket_count != 1 else (), "bucket key", path, "changed in type")

    def widen(kind: DataType) -> DataType:
        check_widening(kind, wanted, name=dotted(path))
        if becomes_text(kind, wanted):
            _check_may_be_string(schema, path, kind, wanted)
        return wanted.with_nullable(kind.nullable)

    return replace(schema, fields=edit_type(schema.fields, path, widen))


def _check_may_be_string(schema: TableSchema, path: ColumnPath, kind: DataType, wanted: DataType) -> None:
    options = schema.options
    is_folded = schema.merge_engine.traits.folds_all or DEFAULT_AGGREGATE in options
    if is_folded or path[0] in SEQUENCE_FIELD.of(options) or path[0] in merge_rules(options):
        raise InvalidRequestError(
            f"column {dotted(path)!r} is {kind} and cannot become {wanted}: rows are ordered or folded by its values, "
            "and strings have another order and no sums"
        )


def _with_nullability(schema: TableSchema, path: ColumnPath, *, nullable: bool) -> TableSchema:
    if len(path) == 1 and nullable:
        _check_is_no(schema.primary_keys, "primary key", path, "made nullable")

    def change(kind: DataType) -> DataType:
        if kind.nullable and not nullable:
            raise InvalidRequestError(
                f"column {dotted(path)!r} is nullable and may hold nulls, so it cannot become NOT NULL; add a column, "
                "and fill it"
            )
        return kind.with_nullable(nullable)

    return replace(schema, fields=edit_type(schema.fields, path, change))


def _moved(siblings: Fields, path: ColumnPath, position: Position) -> Fields:
    at = find(siblings, path[-1], path)
    if position.beside is not None and find(siblings, position.beside, (*path[:-1], position.beside)) == at:
        raise InvalidRequestError(f"column {dotted(path)!r} cannot be moved {position.place.value} itself")
    rest = (*siblings[:at], *siblings[at + 1 :])
    to = _place(rest, position, path)
    return (*rest[:to], siblings[at], *rest[to:])


def _place(siblings: Fields, position: Position, path: ColumnPath) -> int:
    match position.place:
        case Place.FIRST:
            return 0
        case Place.LAST:
            return len(siblings)
    beside = position.beside or ""
    return find(siblings, beside, (*path[:-1], beside)) + (position.place is Place.AFTER)


def _replaced(siblings: Fields, path: ColumnPath, change: _Change) -> Fields:
    at = find(siblings, path[-1], path)
    return (*siblings[:at], change(siblings[at]), *siblings[at + 1 :])


def _check_is_no(keys: Sequence[str], what: str, path: ColumnPath, verb: str) -> None:
    if path[0] in keys:
        raise InvalidRequestError(
            f"column {path[0]!r} belongs to the {what} ({listed(keys)}) and cannot be {verb}; make a table with "
            "other keys, and copy the rows"
        )


def _parsed(kind: DataType | pa.DataType | str, name: str) -> DataType:
    if isinstance(kind, str):
        return parse_type(kind)
    return kind if isinstance(kind, DataType) else from_arrow_type(kind, name=name)
