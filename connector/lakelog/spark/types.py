"""Columns as Spark types, and back; and the Arrow types that Spark requires.

| Paimon | Spark |
|---|---|
| CHAR, VARCHAR, STRING | STRING (the length is the table's business) |
| BINARY(n), VARBINARY, BYTES | BINARY |
| TIME(p), p <= 6 | TIME(p) |
| TIMESTAMP(p), p <= 6 | TIMESTAMP_NTZ |
| TIMESTAMP_LTZ(p), p <= 6 | TIMESTAMP |
| MULTISET<t> | MAP<t, INT> |

Nanoseconds, intervals, variants and spatial types exist on one side only: UnsupportedError.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import types as spark

from lakelog.catalog.columns.spark_json import columns_of_struct
from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataField, DataType, TypeRoot

MICROS_PRECISION = 6

_PLAIN: dict[TypeRoot, spark.DataType] = {
    TypeRoot.BOOLEAN: spark.BooleanType(),
    TypeRoot.TINYINT: spark.ByteType(),
    TypeRoot.SMALLINT: spark.ShortType(),
    TypeRoot.INT: spark.IntegerType(),
    TypeRoot.BIGINT: spark.LongType(),
    TypeRoot.FLOAT: spark.FloatType(),
    TypeRoot.DOUBLE: spark.DoubleType(),
    TypeRoot.CHAR: spark.StringType(),
    TypeRoot.VARCHAR: spark.StringType(),
    TypeRoot.BINARY: spark.BinaryType(),
    TypeRoot.VARBINARY: spark.BinaryType(),
    TypeRoot.BLOB: spark.BinaryType(),
    TypeRoot.DATE: spark.DateType(),
}
_MICROS = {
    TypeRoot.TIMESTAMP: spark.TimestampNTZType(),
    TypeRoot.TIMESTAMP_LTZ: spark.TimestampType(),
}


def to_spark_type(kind: DataType, *, name: str) -> spark.DataType:
    """The Spark type that holds every value of `kind`. Raises UnsupportedError, naming the column `name`."""
    if kind.root in _PLAIN:
        return _PLAIN[kind.root]
    if kind.root in (*_MICROS, TypeRoot.TIME) and (kind.precision or 0) > MICROS_PRECISION:
        raise UnsupportedError(
            f"column {name!r} has the type {kind}; Spark ends at microseconds: read the other columns, "
            "or read the table without Spark"
        )
    match kind.root:
        case TypeRoot.DECIMAL:
            return spark.DecimalType(kind.precision or 10, kind.scale or 0)
        case TypeRoot.TIME:
            return spark.TimeType(kind.precision or 0)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _MICROS[kind.root]
        case TypeRoot.ARRAY:
            assert kind.element is not None
            return spark.ArrayType(to_spark_type(kind.element, name=f"{name}.element"), kind.element.nullable)
        case TypeRoot.MULTISET:
            assert kind.element is not None
            return spark.MapType(to_spark_type(kind.element, name=f"{name}.element"), spark.IntegerType(), False)
        case TypeRoot.MAP:
            assert kind.key is not None
            assert kind.value is not None
            key, value = to_spark_type(kind.key, name=f"{name}.key"), to_spark_type(kind.value, name=f"{name}.value")
            return spark.MapType(key, value, kind.value.nullable)
        case TypeRoot.ROW:
            return spark.StructType([_spark_field(field, f"{name}.{field.name}") for field in kind.fields])
        case _:
            raise UnsupportedError(f"column {name!r} has the type {kind}, which Spark lacks")


def to_spark_schema(fields: Sequence[DataField]) -> spark.StructType:
    """The Spark schema of columns, in their order. Raises UnsupportedError."""
    return spark.StructType([_spark_field(field, field.name) for field in fields])


def _spark_field(field: DataField, path: str) -> spark.StructField:
    metadata = {"comment": field.description} if field.description else None
    return spark.StructField(field.name, to_spark_type(field.type, name=path), field.type.nullable, metadata)


def from_spark_schema(schema: spark.StructType) -> tuple[DataField, ...]:
    """The columns of a Spark schema, with ids 0. Raises UnsupportedError."""
    return columns_of_struct(schema.jsonValue())


def spark_arrow_type(kind: spark.DataType) -> pa.DataType:
    """The Arrow type in which Spark takes values of `kind` from Python: it accepts no other, not even a wider one."""
    match kind:
        case spark.TimestampType():
            return pa.timestamp("us", tz="UTC")
        case spark.TimestampNTZType():
            return pa.timestamp("us")
        case spark.TimeType():
            return pa.time64("ns")
        case spark.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case spark.ArrayType():
            return pa.list_(pa.field("element", spark_arrow_type(kind.elementType), kind.containsNull))
        case spark.MapType():
            value = pa.field("value", spark_arrow_type(kind.valueType), kind.valueContainsNull)
            return pa.map_(pa.field("key", spark_arrow_type(kind.keyType), False), value)
        case spark.StructType():
            return pa.struct(_arrow_fields(kind))
        case _:
            return _ARROW_PLAIN[type(kind)]


_ARROW_PLAIN: dict[type[spark.DataType], pa.DataType] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.CharType: pa.string(),
    spark.VarcharType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
}


def spark_arrow_schema(schema: spark.StructType) -> pa.Schema:
    """The Arrow schema in which Spark takes rows of `schema` from Python."""
    return pa.schema(_arrow_fields(schema))


def _arrow_fields(schema: spark.StructType) -> list[pa.Field]:
    return [pa.field(field.name, spark_arrow_type(field.dataType), field.nullable) for field in schema.fields]
