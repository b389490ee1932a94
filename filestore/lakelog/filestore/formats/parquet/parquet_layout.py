"""The types of columns in Parquet data files.

| type | Parquet |
|---|---|
| TINYINT, SMALLINT | INT32 with INT(8), INT(16) |
| DATE, TIME | INT32 DATE, INT32 TIME(MILLIS, utc) |
| DECIMAL to 9, to 18, more digits | INT32, INT64, FIXED_LEN_BYTE_ARRAY |
| TIMESTAMP, TIMESTAMP_LTZ to 3, to 6, more digits | INT64 MILLIS, INT64 MICROS, INT96 |

The others are Parquet's own. NOT NULL is `required`. Source: Paimon spec, "Data files"; `ParquetSchemaConverter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from lakelog.common.arrow import to_arrow_type
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore.formats.blocks.field_ids import element_id, key_id

_COUNT = DataType(root=TypeRoot.INT, nullable=False)
_ID_KEY = b"PARQUET:field_id"


def parquet_schema(fields: Sequence[DataField]) -> pa.Schema:
    """The Arrow schema that is written for columns: their types in the file, with field ids."""
    return _schema_of(tuple(fields))


@lru_cache(256)
def _schema_of(fields: tuple[DataField, ...]) -> pa.Schema:
    layout = _Layout(in_micros=has_nanos(fields))
    return pa.schema([layout.field(column.name, column.type, column.id, column.id, 0) for column in fields])


def stored_type(kind: DataType) -> pa.DataType:
    """The type of a column in a file without INT96."""
    return _Layout(in_micros=False).type(kind, 0, 0)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Arrow types as Arrow writes them to Parquet.

    `in_micros`: the file's timestamps are INT96, which Arrow writes for all columns or none. Then timestamps of fewer
    digits are written as microseconds, which have INT96's range of days.
    """

    in_micros: bool

    def field(self, name: str, kind: DataType, own_id: int, column_id: int, depth: int) -> pa.Field:
        """A field; the ids of array elements and map entries come from their column's id and their depth."""
        arrow_type = self.type(kind, column_id, depth)
        return pa.field(name, arrow_type, kind.nullable, metadata={_ID_KEY: str(own_id).encode()})

    def type(self, kind: DataType, column_id: int, depth: int) -> pa.DataType:
        """The type; `column_id` is that of the innermost column or ROW member around it."""
        inner, keys = element_id(column_id, depth), key_id(column_id, depth)
        match kind.root:
            case TypeRoot.ARRAY:
                assert kind.element is not None
                return pa.list_(self.field("element", kind.element, inner, column_id, depth + 1))
            case TypeRoot.MAP:
                assert kind.key is not None
                assert kind.value is not None
                return pa.map_(
                    self.field("key", kind.key.with_nullable(False), keys, column_id, depth + 1),
                    self.field("value", kind.value, inner, column_id, depth + 1),
                )
            case TypeRoot.MULTISET:
                assert kind.element is not None
                return pa.map_(
                    self.field("key", kind.element.with_nullable(False), keys, column_id, depth + 1),
                    self.field("value", _COUNT, inner, column_id, depth + 1),
                )
            case TypeRoot.ROW:
                return pa.struct([self.field(part.name, part.type, part.id, part.id, 0) for part in kind.fields])
            case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
                wanted = to_arrow_type(kind)
                unit = "us" if self.in_micros and wanted.unit != "ns" else "ms" if wanted.unit == "s" else wanted.unit
                return pa.timestamp(unit, tz=wanted.tz)
            case TypeRoot.TIME:
                return pa.time32("ms")
            case _:
                return to_arrow_type(kind)


def has_nanos(fields: Sequence[DataField]) -> bool:
    """Whether columns hold timestamps of more than 6 digits."""
    return any(type_has_nanos(column.type) for column in fields)


def type_has_nanos(kind: DataType) -> bool:
    """Whether a type holds timestamps of more than 6 digits."""
    if kind.root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return (kind.precision or 0) > 6
    inner = [part for part in (kind.element, kind.key, kind.value) if part is not None]
    return any(type_has_nanos(part) for part in inner) or has_nanos(kind.fields)
