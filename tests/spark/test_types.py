"""Schema mapping between tables and Spark, over all types."""

from __future__ import annotations

import pytest
from hypothesis import given
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import to_arrow_schema as arrow_schema_of_spark

from lakelog.common.errors import UnsupportedError
from lakelog.common.types import DataField, DataType, TypeRoot, parse_type
from lakelog.spark.types import (
    MICROS_PRECISION,
    from_spark_schema,
    spark_arrow_schema,
    to_spark_schema,
    to_spark_type,
)
from tests.support.tables.column_types import column_types


def has_nanos(kind: DataType) -> bool:
    """True when Spark cannot hold a part of the type."""
    parts = [kind.element, kind.key, kind.value, *(field.type for field in kind.fields)]
    if any(has_nanos(part) for part in parts if part is not None):
        return True
    timed = kind.root in (TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
    return timed and (kind.precision or 0) > MICROS_PRECISION


@given(kind=column_types)
def test_every_type_has_a_spark_type_or_a_clear_error(kind: DataType) -> None:
    if has_nanos(kind):
        with pytest.raises(UnsupportedError, match="has the type"):
            to_spark_type(kind, name="c")
        return

    mapped = to_spark_type(kind, name="c")

    (column,) = from_spark_schema(spark.StructType([spark.StructField("c", mapped)]))
    assert to_spark_type(column.type, name="c") == mapped


@given(kind=column_types)
def test_the_arrow_schema_is_the_one_that_spark_compares_with(kind: DataType) -> None:
    if has_nanos(kind):
        return
    schema = to_spark_schema([DataField(id=0, name="c", type=kind)])

    assert spark_arrow_schema(schema).equals(arrow_schema_of_spark(schema, timezone="UTC"))


def test_a_spark_schema_keeps_names_nullability_and_comments() -> None:
    fields = (
        DataField(id=0, name="a b", type=parse_type("BIGINT NOT NULL"), description="the key"),
        DataField(id=0, name="c", type=parse_type("DECIMAL(10, 2)")),
    )

    assert from_spark_schema(to_spark_schema(fields)) == fields


@pytest.mark.parametrize(
    "kind", [spark.VariantType(), spark.NullType(), spark.DayTimeIntervalType(), spark.CalendarIntervalType()]
)
def test_spark_types_that_the_format_lacks_are_refused_by_name(kind: spark.DataType) -> None:
    with pytest.raises(UnsupportedError, match=r"'a\.b' has the Spark type"):
        from_spark_schema(spark.StructType([spark.StructField("a", spark.StructType([spark.StructField("b", kind)]))]))
