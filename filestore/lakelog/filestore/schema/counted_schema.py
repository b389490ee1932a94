"""Value-count tables: the schema that users see, and the one that files have. Pure.

In files such a table is an LSM whose key is the whole row, with one more column for the count of the row, which is
summed: so deletes need no lookup, and the order of writes does not matter. Any reader of the format sees each distinct
row once, with its count. A private option distinguishes such tables from others with a key of all columns.
Source: FLIP-188, "write-mode"; docs/rfcs/0013-change-log-tables.md.
"""

from __future__ import annotations

from dataclasses import replace

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.options.field_options import AGGREGATE, PREFIX, STATS_MODE, field_key
from lakelog.filestore.options.merging import (
    CHANGELOG_PRODUCER,
    DELETION_VECTORS,
    IGNORE_DELETE,
    MERGE_ENGINE,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    WRITE_MODE,
    MergeEngine,
    StoreWriteMode,
)
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.table_kinds import COUNT_MARK

COUNT_COLUMN = "_VALUE_COUNT"  # FLIP-188's name
_OF_THE_FILES = {
    MERGE_ENGINE.key: MergeEngine.AGGREGATION.value,
    field_key(COUNT_COLUMN, AGGREGATE): "sum",
    "primary-key.nullable": "true",
    COUNT_MARK: COUNT_COLUMN,
}
_FOR_KEYS = (CHANGELOG_PRODUCER, DELETION_VECTORS, IGNORE_DELETE, MERGE_ENGINE, ROWKIND_FIELD, SEQUENCE_FIELD)


def count_field(schema: TableSchema) -> DataField:
    """The column of the count that files have after the columns of `schema`, which is as users see it."""
    return DataField(
        id=schema.highest_field_id + 1, name=COUNT_COLUMN, type=DataType(root=TypeRoot.BIGINT, nullable=False)
    )


def counted_schema(schema: TableSchema) -> TableSchema:
    """The schema of the files of a value-count table, for a schema as users see it.

    The key has the columns in the order in which they were added, whatever their order in the table.
    """
    count = count_field(schema)
    return replace(
        schema,
        fields=(*schema.fields, count),
        highest_field_id=count.id,
        primary_keys=_in_order(schema),
        options={**schema.options, **_OF_THE_FILES},
    )


def schema_without_count(schema: TableSchema, *, path: str) -> TableSchema:
    """The schema as users see it, for the one in the file at `path`: they differ only for value-count tables.

    Raises UnsupportedError for value-count tables whose files have another layout than lakelog's.
    """
    if not schema.is_counted:
        if schema.is_change_log:
            raise UnsupportedError(
                f"schema file {path} is of a table without primary key with {WRITE_MODE.key}=change-log that lakelog "
                "did not make, such as one of Paimon 0.5 or before: its files are not read; copy the rows with the "
                "engine that made it"
            )
        return schema
    shown = replace(
        schema,
        fields=tuple(field for field in schema.fields if field.name != COUNT_COLUMN),
        highest_field_id=schema.highest_field_id - 1,
        primary_keys=(),
        options={key: value for key, value in schema.options.items() if key not in _OF_THE_FILES},
    )
    if counted_schema(shown) != schema:
        raise UnsupportedError(
            f"schema file {path} is of a value-count table, whose key is the whole row, and another engine has changed "
            "its columns or options: lakelog cannot read its rows any more; undo the change with that engine"
        )
    return shown


def check_write_mode(schema: TableSchema) -> None:
    """Raise InvalidRequestError if `write-mode` does not fit the rest of a schema, as users see it."""
    mode = WRITE_MODE.of(schema.options)
    if schema.primary_keys and mode is StoreWriteMode.APPEND_ONLY:
        raise InvalidRequestError(
            f"{WRITE_MODE.key}={mode} is for tables without primary key; leave out the key or the option"
        )
    if schema.is_change_log:
        _check_change_log(schema)


def _check_change_log(schema: TableSchema) -> None:
    for field in schema.fields:
        if field.type.is_nested:
            raise InvalidRequestError(
                f"column {field.name!r} has the type {field.type}: with {WRITE_MODE.key}=change-log the whole row is "
                "the key, and keys must have atomic types; give the table a primary key, or leave the column out"
            )
        if field.name == COUNT_COLUMN:
            raise InvalidRequestError(
                f"column name {COUNT_COLUMN!r} is reserved for the count in the files of tables with "
                f"{WRITE_MODE.key}=change-log; choose another"
            )
    if len(schema.partition_keys) == len(schema.fields):
        raise InvalidRequestError(
            f"with {WRITE_MODE.key}=change-log a table needs a column that is not a partition column; add one"
        )
    if schema.bucket_count < 1:
        raise InvalidRequestError(
            f"with {WRITE_MODE.key}=change-log equal rows must meet in one bucket, found bucket={schema.bucket_count}; "
            "use a positive number"
        )
    odd = [option.key for option in _FOR_KEYS if option.of(schema.options) != option.default]
    odd += [key for key in schema.options if key.startswith(PREFIX) and not key.endswith(f".{STATS_MODE}")]
    if odd:
        raise InvalidRequestError(
            f"option {odd[0]!r} = {schema.options[odd[0]]!r} does not go with {WRITE_MODE.key}=change-log without "
            "primary key, whose rows are counted and whose changes are kept as written; leave it out"
        )


def _in_order(schema: TableSchema) -> tuple[str, ...]:
    return tuple(field.name for field in sorted(schema.fields, key=lambda field: field.id))
