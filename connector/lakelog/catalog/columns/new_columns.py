"""The columns of a new table, from a schema, from DDL, or from rows."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any  # Any: objects of libraries that may not be installed

import polars as pl
import pyarrow as pa

from lakelog.catalog.columns.ddl import parse_ddl
from lakelog.catalog.columns.spark_json import columns_of_struct
from lakelog.common.arrow import from_arrow_field, from_arrow_schema
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import cause, cut
from lakelog.common.types import DataField
from lakelog.filestore.schema import TableSchema
from lakelog.filestore.write import arrow_of_polars

_EXPECTED = (
    "expected a pyarrow schema, columns as DDL such as 'id BIGINT NOT NULL, name STRING', a polars schema, a Spark "
    "StructType, or a DataFrame of pandas, polars or Spark"
)


_NO_ARROW = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)


def columns_of(schema: object) -> tuple[DataField, ...]:
    """The columns of `schema`, with ids 0 and their comments. Reads no rows except those of a pandas frame.

    Raises InvalidRequestError for other objects, and UnsupportedError for a type that the format lacks.
    """
    if isinstance(schema, str):
        return parse_ddl(schema)
    if isinstance(schema, TableSchema):
        return schema.fields
    if isinstance(schema, pa.Schema):
        return _of_arrow(schema)
    if isinstance(schema, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return _of_arrow(schema.schema)
    for of_library in (_of_polars, _of_spark, _of_pandas):
        found = of_library(schema)
        if found is not None:
            return found
    if isinstance(schema, Sequence) and not isinstance(schema, bytes):
        return tuple(_column(one) for one in schema)
    if hasattr(schema, "__arrow_c_schema__"):
        return _of_arrow(pa.schema(schema))
    raise InvalidRequestError(f"schema is {_kind_of(schema)}; {_EXPECTED}")


def _of_arrow(schema: pa.Schema) -> tuple[DataField, ...]:
    return from_arrow_schema(schema)


def _column(given: object) -> DataField:
    if isinstance(given, DataField):
        return given
    if isinstance(given, pa.Field):
        return from_arrow_field(given)
    raise InvalidRequestError(f"schema holds {_kind_of(given)} as a column, expected a pyarrow field; {_EXPECTED}")


def _of_polars(schema: object) -> tuple[DataField, ...] | None:
    if isinstance(schema, pl.LazyFrame):
        schema = schema.collect_schema()
    if isinstance(schema, pl.DataFrame):
        schema = schema.schema
    if not isinstance(schema, Mapping):
        return None
    types: dict[str, Any] = {}
    for name, kind in schema.items():
        is_type = isinstance(kind, pl.DataType) or (isinstance(kind, type) and issubclass(kind, pl.DataType))
        if not isinstance(name, str) or not is_type:
            raise InvalidRequestError(
                f"schema has {_kind_of(kind)} as the type of column {name!r}, expected a polars type such as pl.Int64"
            )
        types[name] = kind
    return _of_arrow(arrow_of_polars(pl.DataFrame(schema=types)).schema)


def _of_spark(schema: object) -> tuple[DataField, ...] | None:
    """The columns of a StructType or a DataFrame, neither of which can exist before Spark's modules are imported."""
    sql, types = (sys.modules.get(name) for name in ("pyspark.sql", "pyspark.sql.types"))
    if sql is not None and isinstance(schema, sql.DataFrame):
        schema = schema.schema
    if types is None or not isinstance(schema, types.StructType):
        return None
    return columns_of_struct(schema.jsonValue())


def _of_pandas(schema: object) -> tuple[DataField, ...] | None:
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(schema, pandas.DataFrame):
        return None
    try:
        return _of_arrow(pa.Schema.from_pandas(schema, preserve_index=False))
    except _NO_ARROW as error:
        mixed = ", ".join(repr(name) for name, values in schema.items() if not _is_arrow(values))
        raise InvalidRequestError(
            f"schema is a pandas DataFrame with values that are not of one type, in column(s) {mixed}: {cause(error)}; "
            "give a pyarrow schema or DDL"
        ) from error


def _is_arrow(values: Any) -> bool:
    try:
        pa.array(values, from_pandas=True)
    except _NO_ARROW:
        return False
    return True


def _kind_of(given: object) -> str:
    kind = type(given)
    return f"{cut(repr(given))} of type {kind.__module__}.{kind.__qualname__}"
