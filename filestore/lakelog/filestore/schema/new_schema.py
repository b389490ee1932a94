"""The schema of a new table, from columns, keys and options as users give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakelog.common.arrow import from_arrow_schema
from lakelog.common.column_names import given_names, spelled
from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import Option, parse_names
from lakelog.common.types import DataField, DataType, check_type_limits
from lakelog.filestore.options import check_options
from lakelog.filestore.options.files import ORC_TIMESTAMP_LTZ_LEGACY_TYPE, FileFormat
from lakelog.filestore.options.foreign import OptionUse, check_foreign_options
from lakelog.filestore.options.layout import BUCKET, BUCKET_KEY, PARTITION, PRIMARY_KEY
from lakelog.filestore.schema.column_options import check_named_columns, spelled_options
from lakelog.filestore.schema.counted_schema import check_write_mode
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_rules import (
    check_bucket,
    check_key_types,
    check_keys,
    check_names,
    check_types,
    check_writable,
    holds_local_time,
)


def build_schema(
    columns: pa.Schema | Sequence[DataField | pa.Field],
    *,
    primary_keys: str | Sequence[str] = (),
    partition_keys: str | Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
    time_millis: int = 0,
    also: Iterable[Option[object]] = (),
    also_prefixes: Iterable[str] = (),
) -> TableSchema:
    """The first schema of a new table, checked, with field ids numbered as the format numbers them.

    A key is the name of a column or a list of them. Names in keys and options are compared as in Spark, and stored as
    the columns spell them. `also` and `also_prefixes` declare options of other parts of the table. Raises
    InvalidRequestError (OptionError for options) or UnsupportedError, naming what is wrong and what to do.
    """
    given = dict(options or {})
    check_options(given, also=also, also_prefixes=also_prefixes)
    check_foreign_options(given, *OptionUse)
    arrow = iter(from_arrow_schema(column for column in columns if not isinstance(column, DataField)))
    fields = [column if isinstance(column, DataField) else next(arrow) for column in columns]
    check_names(fields)
    for column in fields:
        check_type_limits(column.type)
    given = spelled_options(given, [column.name for column in fields])
    primary = _keys_of(primary_keys, given.pop(PRIMARY_KEY.key, None), fields, what="primary_keys")
    partition = _keys_of(partition_keys, given.pop(PARTITION.key, None), fields, what="partition_keys")
    fields = [_not_null(column) if column.name in primary else column for column in fields]
    numbered, highest = number_fields(fields)
    schema = TableSchema(
        id=0,
        fields=numbered,
        highest_field_id=highest,
        partition_keys=partition,
        primary_keys=primary,
        options={BUCKET.key: str(BUCKET.default)} | given,
        comment=comment,
        time_millis=time_millis,
    )
    check_write_mode(schema)
    schema = _with_bucket_key(schema)
    schema = with_orc_options(schema)
    check_keys(schema)
    check_types(schema.fields)
    check_bucket(schema)
    check_writable(schema)
    check_named_columns(schema.options, schema.field_names)
    return schema


def number_fields(fields: Sequence[DataField]) -> tuple[tuple[DataField, ...], int]:
    """Columns with ids from 0 on, and the highest assigned id.

    A column gets the next id, then the ROW members inside its type; a member that is a ROW itself gets its id after its
    own members. Source: Paimon, `RowType.Builder` and `ReassignFieldId`.
    """
    counter = iter(range(1 << 30))
    highest = -1
    numbered = []
    for column in fields:
        own = next(counter)
        numbered.append(replace(column, id=own, type=number_type(column.type, counter)))
    highest = next(counter) - 1
    return tuple(numbered), highest


def number_type(kind: DataType, counter: Iterable[int]) -> DataType:
    """The type with ids from the counter for its ROW members: in order, those inside a member before its own."""
    numbers = iter(counter)

    def renumber(inner: DataType | None) -> DataType | None:
        return None if inner is None else number_type(inner, numbers)

    members = []
    for member in kind.fields:
        inner = number_type(member.type, numbers)
        members.append(replace(member, type=inner, id=next(numbers)))
    if not kind.is_nested:
        return kind
    return replace(
        kind, element=renumber(kind.element), key=renumber(kind.key), value=renumber(kind.value), fields=tuple(members)
    )


def _keys_of(given: object, as_option: str | None, fields: Sequence[DataField], *, what: str) -> tuple[str, ...]:
    """The columns of a key, as the table spells them. `what` is the argument that names them."""
    names = given_names(given, what=what)
    if as_option is not None:
        if names:
            raise InvalidRequestError(f"{what} is given twice, as an argument and as an option; leave one out")
        names = parse_names(as_option)
    keys = spelled(names, [column.name for column in fields], what=what)
    check_key_types(what, [column for column in fields if column.name in keys])
    return keys


def _not_null(column: DataField) -> DataField:
    return replace(column, type=column.type.with_nullable(False))


def with_orc_options(schema: TableSchema, *, before: TableSchema | None = None) -> TableSchema:
    """The schema with the option that stops other engines from shifting timestamps in ORC files by their local zone.

    If the schema `before` had such files already, either kind may exist: then the schema is not changed.
    """
    key = ORC_TIMESTAMP_LTZ_LEGACY_TYPE.key
    if key in schema.options or not _has_timestamps_in_orc(schema) or (before and _has_timestamps_in_orc(before)):
        return schema
    return replace(schema, options={**schema.options, key: "false"})


def _has_timestamps_in_orc(schema: TableSchema) -> bool:
    return holds_local_time(schema.fields) and FileFormat.ORC in schema.file_formats


def _with_bucket_key(schema: TableSchema) -> TableSchema:
    """The schema with all columns except the partition columns as bucket key, if there are buckets but no key."""
    if schema.bucket_count <= 0 or schema.primary_keys or BUCKET_KEY.of(schema.options):
        return schema
    others = [column for column in schema.fields if column.name not in schema.partition_keys]
    usable = [column.name for column in others if not column.type.is_nested]
    if not usable:
        raise InvalidRequestError("no column can be the bucket key; set bucket=-1 for a table without primary key")
    return replace(schema, options={**schema.options, BUCKET_KEY.key: ",".join(usable)})
