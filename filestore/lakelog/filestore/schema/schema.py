"""Table schemas: columns, keys, options."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any  # in a file, the digest of the schema before is only compared

import pyarrow as pa

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.column_names import known_columns, spelled
from lakelog.common.errors import InvalidRequestError, LakelogError, UnsupportedError
from lakelog.common.html import html_table
from lakelog.common.json_fields import COUNT, INT, items, optional, parse_object, string, string_map, strings, whole
from lakelog.common.quoting import cause, listed, shown
from lakelog.common.types import DataField, TypeRoot, field_to_json, parse_fields
from lakelog.filestore.io.integrity import damaged, json_digest
from lakelog.filestore.options.files import FILE_FORMAT, FILE_FORMAT_PER_LEVEL, FileFormat
from lakelog.filestore.options.layout import BUCKET, BUCKET_FUNCTION, BUCKET_KEY, BucketFunction
from lakelog.filestore.options.merging import MERGE_ENGINE, MergeEngine
from lakelog.filestore.schema.table_kinds import (
    has_changelog_at_write,
    is_change_log,
    is_counted,
    is_merged_at_write,
    looks_up_old_rows,
)

SCHEMA_VERSION = 3
UNAWARE_BUCKET = -1
DIGEST_KEY = "lakelogDigest"
_JSON_VALUES_MAX = 200_000  # of a schema file: twenty a column at most
BASE_KEY = "lakelogBase"
SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
KEY_FIELD_ID_START = 1_073_741_823
SEQUENCE_NUMBER_FIELD_ID = 2_147_483_646
VALUE_KIND_FIELD_ID = 2_147_483_645


@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """One schema of a table, in the file `schema/schema-<id>`.

    A JSON object: version, id, fields [{id, name, type, description?, defaultValue?}], highestFieldId, partitionKeys,
    primaryKeys, options {string: string}, comment?, timeMillis, and lakelog's own lakelogBase, the digest of the schema
    before, and lakelogDigest, the digest of all the others. Unknown keys are ignored, unknown options kept. Source:
    Paimon spec, "Schema".
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # other engines may keep passwords in them
    comment: str | None = None
    time_millis: int = 0
    version: int = SCHEMA_VERSION

    def __repr__(self) -> str:
        columns = listed(f"{column.name} {column.type}" for column in self.fields)
        keys = f", primary_keys={list(self.primary_keys)}" if self.primary_keys else ""
        partitions = f", partition_keys={list(self.partition_keys)}" if self.partition_keys else ""
        return f"TableSchema(id={self.id}, {columns}{keys}{partitions})"

    def _repr_html_(self) -> str:
        """The columns, as notebooks show them; no I/O."""
        return self.columns_html(f"schema {self.id}")

    def columns_html(self, title: str) -> str:
        """The columns as an HTML table: names, types, the keys that they are in, and comments."""
        keys = {"primary key": self.primary_keys, "partition": self.partition_keys}
        rows = [
            (
                column.name,
                column.type,
                ", ".join(key for key, names in keys.items() if column.name in names),
                column.description,
            )
            for column in self.fields
        ]
        return html_table(title, ("column", "type", "key", "comment"), rows)

    @cached_property
    def field_names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.fields)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The table's columns as Arrow gives them."""
        return to_arrow_schema(self.fields)

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary key columns without partition columns: the key inside a bucket. Empty for append tables."""
        return tuple(name for name in self.primary_keys if name not in self.partition_keys)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """The columns of the trimmed primary key, in key order."""
        return self.select(self.trimmed_primary_keys)

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        """The partition columns, in the order of `partition_keys`."""
        return self.select(self.partition_keys)

    @cached_property
    def bucket_keys(self) -> tuple[str, ...]:
        """The columns whose hash gives the bucket, in hash order; empty if there are no buckets."""
        return BUCKET_KEY.of(self.options) or self.trimmed_primary_keys

    @cached_property
    def bucket_fields(self) -> tuple[DataField, ...]:
        """The columns of the bucket key, in hash order."""
        return self.select(self.bucket_keys)

    @cached_property
    def bucket_count(self) -> int:
        """Fixed number of buckets; -1: dynamic or, without primary key, none; -2: postponed."""
        if BUCKET.key in self.options:
            return BUCKET.of(self.options)
        return 1 if self.version == 1 else UNAWARE_BUCKET

    @cached_property
    def has_blobs(self) -> bool:
        """Whether a column is a BLOB."""
        return any(column.type.root is TypeRoot.BLOB for column in self.fields)

    @property
    def has_dynamic_buckets(self) -> bool:
        """Whether a HASH index holds the bucket of each key; False if keys move between partitions."""
        has_key = bool(self.primary_keys) and set(self.primary_keys).issuperset(self.partition_keys)
        return has_key and self.bucket_count == UNAWARE_BUCKET

    @cached_property
    def bucket_function(self) -> BucketFunction:
        """How the bucket of a row is computed from its bucket key."""
        return BUCKET_FUNCTION.of(self.options)

    @cached_property
    def merge_engine(self) -> MergeEngine:
        """How several rows with one key are merged; without primary key the option has no effect, as in Flink."""
        return MERGE_ENGINE.of(self.options) if self.primary_keys else MergeEngine.DEDUPLICATE

    @cached_property
    def file_format(self) -> FileFormat:
        """The format of new data files."""
        if FILE_FORMAT.key not in self.options and self.version <= 2:
            return FileFormat.ORC
        return FILE_FORMAT.of(self.options)

    @cached_property
    def is_change_log(self) -> bool:
        """Whether this is a value-count table: it has no primary key, counts equal rows and takes deletes."""
        return is_change_log(self.options, has_key=bool(self.primary_keys))

    @cached_property
    def is_merged_at_write(self) -> bool:
        """Whether rows are merged when they are written: in logged tables that do not keep the last row."""
        return is_merged_at_write(self.options, has_key=bool(self.primary_keys))

    @cached_property
    def looks_up_old_rows(self) -> bool:
        """Whether each write looks up the rows that its keys have, for the log and for merging."""
        return looks_up_old_rows(self.options, has_key=bool(self.primary_keys))

    @cached_property
    def has_changelog_at_write(self) -> bool:
        """Whether each write of rows to the log writes the changes to changelog files too."""
        return has_changelog_at_write(self.options, has_key=bool(self.primary_keys))

    @cached_property
    def is_counted(self) -> bool:
        """Whether this is the schema of the files of a value-count table."""
        return is_counted(self.options)

    @property
    def file_formats(self) -> frozenset[FileFormat]:
        """The formats that new data files may have."""
        return frozenset({self.file_format, *(FILE_FORMAT_PER_LEVEL.of(self.options) or {}).values()})

    def field(self, name: str) -> DataField:
        """The column of a name. Raises InvalidRequestError, naming the columns."""
        for column in self.fields:
            if column.name == name:
                return column
        raise InvalidRequestError(f"column {name!r} does not exist; {known_columns(name, self.field_names)}")

    def select(self, names: Iterable[str]) -> tuple[DataField, ...]:
        """The columns of names, in the order of the names."""
        return tuple(self.field(name) for name in names)

    def chosen(self, columns: object) -> tuple[DataField, ...]:
        """The columns that a user's argument `columns` names: one name or several; None means all columns.

        Names are compared as in Spark. Raises InvalidRequestError.
        """
        return self.fields if columns is None else self.select(spelled(columns, self.field_names, what="columns"))

    def to_json(self, *, base: str | None = None) -> str:
        """The JSON of the schema file; `base` is the digest of the schema before, which the file also holds."""
        fields: dict[str, object] = {
            "version": self.version,
            "id": self.id,
            "fields": [field_to_json(column) for column in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            fields["comment"] = self.comment
        fields["timeMillis"] = self.time_millis
        if base is not None:
            fields[BASE_KEY] = base
        return json.dumps({DIGEST_KEY: json_digest(fields), **fields}, indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes, *, path: str) -> TableSchema:
        """Parse the schema file at `path`. Raises CorruptDataError, or UnsupportedError for a type lakelog lacks."""
        return parse_schema_file(text, path=path)[0]


def parse_schema_file(text: str | bytes, *, path: str) -> tuple[TableSchema, str, Any]:
    """The contents of the schema file at `path`: the schema as stored, its digest, and that of the schema before.

    Raises as `TableSchema.from_json`.
    """
    try:
        given = parse_object(text, values_max=_JSON_VALUES_MAX)
        named, digest = given.get(DIGEST_KEY), _digest(given)
        if named is not None and named != digest:
            raise ValueError(f"it names the digest {shown(named)}, its keys have {digest}")
        version, time_millis = (optional(whole, given, key) for key in ("version", "timeMillis"))
        schema = TableSchema(
            version=1 if version is None else version,
            id=whole(given, "id", COUNT),
            fields=parse_fields(items(given, "fields")),
            highest_field_id=whole(given, "highestFieldId", range(-1, INT.stop)),
            partition_keys=strings(given, "partitionKeys"),
            primary_keys=strings(given, "primaryKeys"),
            options=string_map(given, "options"),
            comment=optional(string, given, "comment"),
            time_millis=time_millis or 0,
        )
        for key in (*schema.partition_keys, *schema.primary_keys):
            schema.field(key)
        return schema, digest, given.get(BASE_KEY)  # of any type: it is only compared
    except UnsupportedError as error:
        raise UnsupportedError(f"schema file {path}: {error}") from error
    except (KeyError, ValueError, LakelogError) as error:
        raise damaged(path, f"it is not a readable schema: {cause(error)}") from error


def _digest(given: Mapping[str, object]) -> str:
    return json_digest({key: value for key, value in given.items() if key != DIGEST_KEY})
