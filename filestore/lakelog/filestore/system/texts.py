"""Partitions, keys and statistics as strings, as Paimon's system tables print them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakelog.common.arrow import to_arrow_type
from lakelog.common.types import DataField, DataType
from lakelog.filestore.encoding.binary_row import StoredValue, deserialize_row, from_scalar, read_slot, to_scalar
from lakelog.filestore.encoding.java_strings import is_blank
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.layout import PARTITION_DEFAULT_NAME
from lakelog.filestore.schema.evolution import cast_values
from lakelog.filestore.schema.paths import value_text
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.stored_schema import stored_schema

_NULL = "null"
_Places = dict[int, tuple[int, DataField | None]]


def row_text(fields: Sequence[DataField], row: bytes) -> str:
    """A serialized partition, such as `{2026-01-31, eu}`: each value as the cast to STRING shows it."""
    kinds = [field.type for field in fields]
    values = zip(kinds, deserialize_row(kinds, row), strict=True)
    return f"{{{', '.join(_NULL if one is None else value_text(kind, one, is_legacy=False) for kind, one in values)}}}"


def partition_name(schema: TableSchema, row: bytes) -> str:
    """A serialized partition, such as `day=2026-01-31/region=eu`; the default name stands for null and blank values."""
    fields = schema.partition_fields
    default = PARTITION_DEFAULT_NAME.of(schema.options)
    parts = []
    for field, value in zip(fields, deserialize_row([field.type for field in fields], row), strict=True):
        has_value = value is not None and not (isinstance(value, str) and is_blank(value))
        parts.append(f"{field.name}={value_text(field.type, value, is_legacy=False) if has_value else default}")
    return "/".join(parts)


def key_text(kinds: Sequence[DataType], row: bytes) -> str | None:
    """A serialized key, such as `[7, a]`; None for rows without a key."""
    if not kinds or int.from_bytes(row[:4], "big") == 0:
        return None
    return f"[{', '.join(map(_plain, kinds, deserialize_row(kinds, row)))}]"


def _plain(kind: DataType, value: StoredValue) -> str:
    return _NULL if value is None else value_text(kind, value, is_legacy=True)


class FileTexts:
    """The strings of files' keys and statistics, of a file's own schema as the table's schema shows them."""

    def __init__(self, table: TableStore) -> None:
        self._table = table
        self._schemas: dict[int, TableSchema] = {}
        self._known: dict[tuple[int, tuple[str, ...] | None], _Places] = {}
        self._fields = sorted(table.schema.fields, key=lambda field: field.name)

    def key(self, schema_id: int, row: bytes) -> str | None:
        """The first or last key of a file of a schema."""
        schema = self._schema(schema_id)
        return key_text([field.type for field in schema.key_fields], row) if schema.primary_keys else None

    def null_counts(
        self, schema_id: int, covered: Sequence[str] | None, counts: Sequence[int | None] | None, row_count: int
    ) -> str:
        """The nulls by column, such as `{id=0, name=2}`; a column that the file lacks is null in each row."""
        places = self._places(schema_id, covered)
        found = []
        for field in self._fields:
            at, stored = places[field.id]
            known = counts[at] if counts is not None and 0 <= at < len(counts) else None
            nulls = row_count if stored is None else known
            found.append(f"{field.name}={_NULL if nulls is None else nulls}")
        return f"{{{', '.join(found)}}}"

    def bounds(self, schema_id: int, covered: Sequence[str] | None, row: bytes) -> str:
        """The smallest or largest values by column, such as `{id=1, name=a}`."""
        places = self._places(schema_id, covered)
        arity = int.from_bytes(row[:4], "big")
        found = []
        for field in self._fields:
            at, stored = places[field.id]
            value = None
            if stored is not None and 0 <= at < arity:
                value = _as(field.type, stored.type, read_slot(stored.type, row, at))
            found.append(f"{field.name}={_plain(field.type, value)}")
        return f"{{{', '.join(found)}}}"

    def _places(self, schema_id: int, covered: Sequence[str] | None) -> _Places:
        """For each column its position in the statistics and the file's column (-1 and None without)."""
        key = (schema_id, None if covered is None else tuple(covered))
        if key in self._known:
            return self._known[key]
        schema = self._schema(schema_id)
        names = list(schema.field_names if covered is None else covered)
        places = {name: at for at, name in enumerate(names)}
        stored = {field.id: field for field in schema.fields}
        found = self._known[key] = {}
        for field in self._fields:
            column = stored.get(field.id)
            found[field.id] = (-1 if column is None else places.get(column.name, -1), column)
        return found

    def _schema(self, schema_id: int) -> TableSchema:
        if schema_id not in self._schemas:
            table = self._table
            is_same = schema_id == table.schema.id
            shown = table.schema if is_same else stored_schema(table.schemas.get_beside(schema_id, table.schema))
            self._schemas[schema_id] = shown
        return self._schemas[schema_id]


def _as(wanted: DataType, found: DataType, value: StoredValue) -> StoredValue:
    """A value of a column whose type has changed since."""
    if value is None or wanted.with_nullable(True) == found.with_nullable(True):
        return value
    cast = cast_values(pa.array([to_scalar(found, value)], to_arrow_type(found)), found, wanted)
    return from_scalar(wanted, cast[0])
