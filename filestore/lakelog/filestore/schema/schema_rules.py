"""The rules that a schema must meet before lakelog creates or writes its table. Pure; each rule has an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lakelog.common.column_names import known_columns
from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.quoting import listed, shown
from lakelog.common.types import FIELDS_MAX, DataField, DataType, TypeRoot
from lakelog.filestore.options.compaction import FULL_COMPACTION_DELTA_COMMITS
from lakelog.filestore.options.files import FILE_FORMAT, FileFormat
from lakelog.filestore.options.foreign import OptionUse, check_foreign_options
from lakelog.filestore.options.layout import BUCKET_KEY, BucketFunction
from lakelog.filestore.options.merging import (
    CHANGELOG_PRODUCER,
    DELETION_VECTORS,
    MERGE_ENGINE,
    ROWKIND_FIELD,
    ChangelogProducer,
)
from lakelog.filestore.schema.paths import INDEX_BESIDE_DATA
from lakelog.filestore.schema.schema import UNAWARE_BUCKET, TableSchema

KEY_PREFIX = "_KEY_"
_AVRO_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_NAMES = {"_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "rowkind", "_ROW_ID", "_row_kind"}
_TIMESTAMPS = {TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ}
_NO_PATH_TYPES = {TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.BINARY, TypeRoot.VARBINARY}


def check_writable(schema: TableSchema) -> None:
    """Raise UnsupportedError if lakelog cannot write a table of this schema correctly."""
    check_foreign_options(schema.options, OptionUse.WRITE)
    _check_producer(schema)
    _check_rowkind_field(schema)
    if schema.primary_keys and schema.bucket_count < 1:
        _check_dynamic(schema)
    if FileFormat.ORC in schema.file_formats:
        _check_orc(schema.fields)
    if FileFormat.AVRO in schema.file_formats:
        _check_avro(schema.fields)


def _check_dynamic(schema: TableSchema) -> None:
    """Raise UnsupportedError if the HASH index of a partition cannot hold the bucket of each key."""
    if schema.bucket_count != UNAWARE_BUCKET:
        raise UnsupportedError(
            f"primary key tables with bucket={schema.bucket_count} are not written yet; use a positive number, or -1"
        )
    if not schema.has_dynamic_buckets:
        missing = listed(name for name in schema.partition_keys if name not in schema.primary_keys)
        raise UnsupportedError(
            f"a table with bucket=-1 whose primary key ({listed(schema.primary_keys)}) lacks the partition columns "
            f"{missing} is not written yet: a key could be in any partition; make a table whose key has them, or write "
            "this one with Paimon"
        )
    _check_index_folder(schema, "dynamic buckets")


def _check_index_folder(schema: TableSchema, what: str) -> None:
    """Raise UnsupportedError for a table whose index files are beside its data."""
    if schema.options.get(INDEX_BESIDE_DATA, "false").lower() == "true":
        raise UnsupportedError(f"{what} of tables with {INDEX_BESIDE_DATA}=true are not written yet")


def _check_rowkind_field(schema: TableSchema) -> None:
    """Raise InvalidRequestError if the column of the row kinds does not exist or is not a string."""
    name = ROWKIND_FIELD.of(schema.options)
    if name is None:
        return
    kind = next((column.type for column in schema.fields if column.name == name), None)
    if kind is None:
        known = known_columns(name, schema.field_names)
        raise InvalidRequestError(f"{ROWKIND_FIELD.key} names column {name!r}, which does not exist; {known}")
    if not _has_text(kind):
        raise InvalidRequestError(
            f"{ROWKIND_FIELD.key} names column {name!r}, which has the type {kind}; row kinds are strings: use STRING"
        )


def _check_orc(fields: Sequence[DataField]) -> None:
    for column in fields:
        if any(part.root is TypeRoot.CHAR for part in _leaves(column.type)):
            raise UnsupportedError(
                f"column {column.name!r} has the type {column.type}: readers of ORC remove the blanks at the end of "
                f"a CHAR; use VARCHAR, or {FILE_FORMAT.key}=parquet"
            )


def _check_avro(fields: Sequence[DataField]) -> None:
    for column in fields:
        for part in _leaves(column.type):
            if part.root in _TIMESTAMPS and (part.precision or 0) > 6:
                raise UnsupportedError(
                    f"column {column.name!r} has {part}; Avro files hold microseconds: use 6 digits, or "
                    f"{FILE_FORMAT.key}=parquet"
                )
        if any(part.root is TypeRoot.MULTISET and not _has_text(part.element) for part in _parts(column.type)):
            raise UnsupportedError(
                f"column {column.name!r} has the type {column.type}: Paimon reads a MULTISET from Avro files only "
                f"where its elements are strings; use a MAP, or {FILE_FORMAT.key}=parquet"
            )
        for name in (column.name, *(member.name for members in _rows(column.type) for member in members)):
            if not _AVRO_NAME.fullmatch(name):
                raise UnsupportedError(
                    f"column {column.name!r} needs the name {name!r}, which Avro files cannot hold: they take letters, "
                    f"digits and _; rename it, or use {FILE_FORMAT.key}=parquet"
                )


def _has_text(kind: DataType | None) -> bool:
    return kind is not None and kind.root in (TypeRoot.CHAR, TypeRoot.VARCHAR)


def holds_local_time(fields: Sequence[DataField]) -> bool:
    """Whether a column holds a TIMESTAMP_LTZ, nested or not."""
    return any(part.root is TypeRoot.TIMESTAMP_LTZ for column in fields for part in _leaves(column.type))


def _check_producer(schema: TableSchema) -> None:
    """Raise InvalidRequestError if a changelog producer does not fit the keys or the merge engine."""
    engine = schema.merge_engine
    producer = CHANGELOG_PRODUCER.of(schema.options)
    if producer is not ChangelogProducer.NONE and not schema.primary_keys:
        raise InvalidRequestError(f"{CHANGELOG_PRODUCER.key}={producer} needs a primary key; give the table one")
    if engine.traits.keeps_first and producer not in (ChangelogProducer.NONE, ChangelogProducer.LOOKUP):
        raise InvalidRequestError(
            f"{MERGE_ENGINE.key}={engine} goes with {CHANGELOG_PRODUCER.key}=none or lookup, found {producer}"
        )
    if DELETION_VECTORS.of(schema.options):
        if not schema.primary_keys:
            raise UnsupportedError(f"{DELETION_VECTORS.key} of tables without primary key is read, not written yet")
        _check_index_folder(schema, "deletion vectors")
        if engine.traits.keeps_first or producer is ChangelogProducer.FULL_COMPACTION:
            raise InvalidRequestError(
                f"{DELETION_VECTORS.key} does not go with {MERGE_ENGINE.key}={engine} and "
                f"{CHANGELOG_PRODUCER.key}={producer}: use changelog-producer=lookup, and no first-row"
            )
    if producer is ChangelogProducer.LOOKUP and FULL_COMPACTION_DELTA_COMMITS.of(schema.options) is not None:
        raise InvalidRequestError(
            f"{CHANGELOG_PRODUCER.key}=lookup writes a changelog at every compaction: leave out "
            f"{FULL_COMPACTION_DELTA_COMMITS.key}, or use {CHANGELOG_PRODUCER.key}=full-compaction"
        )


def is_writable(schema: TableSchema) -> bool:
    """Whether lakelog writes tables of this schema."""
    try:
        check_writable(schema)
    except (InvalidRequestError, UnsupportedError):
        return False
    return True


def check_names(fields: Sequence[DataField]) -> None:
    """Raise InvalidRequestError for names of columns and members: empty, duplicate, reserved, with NUL."""
    if not fields:
        raise InvalidRequestError("a table needs at least one column")
    counts = (len(fields), *(len(members) for column in fields for members in _rows(column.type)))
    if max(counts) > FIELDS_MAX:
        raise InvalidRequestError(
            f"a table has at most {FIELDS_MAX} columns, and a ROW as many members; found {max(counts)}"
        )
    seen: set[str] = set()
    for column in fields:
        if not column.name.strip():
            raise InvalidRequestError("a column has an empty name")
        if column.name in seen:
            raise InvalidRequestError(f"column {column.name!r} is there twice; names must differ")
        if column.name in _RESERVED_NAMES or column.name.startswith(KEY_PREFIX):
            raise InvalidRequestError(f"column name {column.name!r} is reserved by the table format; choose another")
        if column.name == "*" or (column.name.startswith("^") and column.name.endswith("$")):
            raise InvalidRequestError(f"column name {column.name!r} is a pattern of names for polars; choose another")
        seen.add(column.name)
        for name in (column.name, *(member.name for members in _rows(column.type) for member in members)):
            if "\0" in name:  # Arrow's C interface, by which Spark and polars take rows, ends a name there
                raise InvalidRequestError(f"the name {shown(name)} has the character NUL; choose another")
        for members in _rows(column.type):
            if len({member.name for member in members}) < len(members):
                raise InvalidRequestError(
                    f"column {column.name!r} has the type {column.type}: two members share a name"
                )


def check_key_types(what: str, fields: Sequence[DataField]) -> None:
    """Raise InvalidRequestError for key columns that are nested. `what` names the key."""
    for field in fields:
        if field.type.is_nested:
            raise InvalidRequestError(
                f"{what}: column {field.name!r} has the type {field.type}; keys must have atomic types"
            )


def check_keys(schema: TableSchema) -> None:
    """Raise InvalidRequestError or UnsupportedError if primary key and partition do not fit together."""
    if schema.primary_keys:
        missing = [name for name in schema.partition_keys if name not in schema.primary_keys]
        if missing:
            raise InvalidRequestError(
                f"the primary key ({listed(schema.primary_keys)}) must contain the partition columns; "
                f"add {listed(missing)}"
            )
        if not schema.trimmed_primary_keys:
            raise InvalidRequestError("the primary key must have a column that is not a partition column")
    for column in schema.partition_fields:
        if column.type.root in _NO_PATH_TYPES:
            raise UnsupportedError(f"partition column {column.name!r} has the type {column.type}, which has no path")


def check_types(fields: Sequence[DataField]) -> None:
    """Raise UnsupportedError for types whose values data files cannot hold exactly."""
    for column in fields:
        name = column.name
        if column.type.is_nested:
            digits = {(part.precision or 0) > 6 for part in _leaves(column.type) if part.root in _TIMESTAMPS}
            if len(digits) > 1:
                raise UnsupportedError(
                    f"column {name!r} has the type {column.type}, which mixes timestamps of up to 6 and more digits; "
                    "give them the same number of digits"
                )
        for part in _leaves(column.type):
            if part.root is TypeRoot.BLOB:
                raise UnsupportedError(f"column {name!r} has {part}, which is read and not written; use BYTES")
            if part.root is TypeRoot.TIME and (part.precision or 0) > 3:
                raise UnsupportedError(f"column {name!r} has {part}; TIME is stored in milliseconds: use TIME(3)")
            if part.root is TypeRoot.ROW:
                raise UnsupportedError(
                    f"column {name!r} has a ROW without members, which files cannot hold; give it one"
                )


def _rows(kind: DataType) -> Iterator[tuple[DataField, ...]]:
    """The members of every ROW inside a type."""
    if kind.fields:
        yield kind.fields
    inner = [part for part in (kind.element, kind.key, kind.value) if part is not None]
    for part in (*inner, *(member.type for member in kind.fields)):
        yield from _rows(part)


def _parts(kind: DataType) -> Iterator[DataType]:
    """A type and all types inside it."""
    yield kind
    inner = [part for part in (kind.element, kind.key, kind.value) if part is not None]
    for part in (*inner, *(member.type for member in kind.fields)):
        yield from _parts(part)


def _leaves(kind: DataType) -> Iterator[DataType]:
    """The innermost types of a type; a ROW without members is one of them."""
    inner = [part for part in (kind.element, kind.key, kind.value) if part is not None]
    inner += [member.type for member in kind.fields]
    if not inner:
        yield kind
    for part in inner:
        yield from _leaves(part)


def check_bucket(schema: TableSchema) -> None:
    """Raise InvalidRequestError if columns cannot be a bucket key, or not one for the bucket function."""
    for column in schema.bucket_fields:
        if column.type.is_nested:
            raise InvalidRequestError(f"bucket key column {column.name!r} has the type {column.type}; use atomic types")
        if column.name in schema.partition_keys:
            raise InvalidRequestError(f"bucket key column {column.name!r} is a partition column; leave it out")
        if schema.primary_keys and column.name not in schema.primary_keys:
            raise InvalidRequestError(
                f"bucket key column {column.name!r} is not in the primary key ({listed(schema.primary_keys)}); "
                "one key could be in several buckets"
            )
    if schema.bucket_function is BucketFunction.MOD:
        roots = [column.type.root for column in schema.bucket_fields]
        if len(roots) != 1 or roots[0] not in (TypeRoot.INT, TypeRoot.BIGINT):
            raise InvalidRequestError(
                "bucket-function.type=mod needs a bucket key of one INT or BIGINT column, found "
                + listed(f"{column.name} {column.type}" for column in schema.bucket_fields)
            )
    if schema.bucket_function is BucketFunction.HIVE:
        for column in schema.bucket_fields:
            if column.type.root in _TIMESTAMPS:
                raise InvalidRequestError(
                    f"bucket key column {column.name!r} has the type {column.type}, which bucket-function.type=hive "
                    "cannot hash; use the default function"
                )
    if schema.bucket_count < 1 and BUCKET_KEY.of(schema.options):
        raise InvalidRequestError(f"bucket={schema.bucket_count} takes no bucket-key; leave it out or set bucket")
