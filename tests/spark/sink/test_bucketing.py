"""The bucket column equals the file store's bucket on random keys."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import DataField, DataType, TypeRoot, parse_type
from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.filestore.options.layout import BucketFunction
from lakelog.filestore.schema.schema import TableSchema
from lakelog.spark.sink.bucketing import bucket_column_of, native_bucket_sql
from lakelog.spark.types import spark_arrow_schema, to_spark_schema
from lakelog.streams.reading.part_rows import conform
from tests.support.examples import rest_in_full

ROWS = 300
BUCKETS = 1_000_003  # so many that an equal bucket means an equal hash

NATIVE = (
    ("BOOLEAN",),
    ("TINYINT",),
    ("SMALLINT",),
    ("INT",),
    ("BIGINT",),
    ("DATE",),
    ("STRING",),
    ("BYTES",),
    ("DECIMAL(18, 2)",),
    ("DECIMAL(5, 0)",),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE",),
    ("TIMESTAMP(3) WITH LOCAL TIME ZONE",),
    ("TIMESTAMP(6) WITH LOCAL TIME ZONE", "STRING", "INT"),
    ("STRING", "STRING", "BIGINT", "STRING"),
    ("INT", "STRING", "DATE", "BYTES"),
    ("BIGINT",) * 57,
)
VECTORISED = (
    ("DOUBLE",),
    ("FLOAT",),
    ("DECIMAL(38, 10)",),
    ("TIMESTAMP(6)",),
    ("TIMESTAMP(3)",),
    ("TIME(3)",),
    ("STRING", "DOUBLE"),
)


def key_schema(types: Sequence[str], *, nullable: bool, options: dict[str, str] | None = None) -> TableSchema:
    fields = tuple(
        DataField(id=index, name=f"k `{index}", type=parse_type(text).with_nullable(nullable))
        for index, text in enumerate(types)
    )
    names = ",".join(field.name for field in fields)
    return TableSchema(
        id=0,
        fields=fields,
        highest_field_id=len(fields),
        options={"bucket": str(BUCKETS), "bucket-key": names} | (options or {}),
    )


def random_rows(schema: TableSchema, seed: int) -> pa.Table:
    rng = random.Random(seed)
    arrow_schema = to_arrow_schema(schema.fields)
    columns = [
        pa.array([random_value(rng, field.type) for _ in range(ROWS)], arrow.type)
        for field, arrow in zip(schema.fields, arrow_schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=arrow_schema)


def random_value(rng: random.Random, kind: DataType) -> object:
    if kind.nullable and rng.random() < 0.3:
        return None
    match kind.root:
        case TypeRoot.BOOLEAN:
            return rng.random() < 0.5
        case TypeRoot.VARCHAR:
            return "".join(rng.choice("aZ 09ü€😀") for _ in range(rng.choice((0, 1, 3, 6, 7, 8, 9, 15, 40))))
        case TypeRoot.VARBINARY:
            return rng.randbytes(rng.choice((0, 1, 6, 7, 8, 9, 16, 33)))
        case TypeRoot.DECIMAL:
            assert kind.precision is not None
            unscaled = rng.randrange(-(10**kind.precision) + 1, 10**kind.precision)
            return Decimal(f"{unscaled}E-{kind.scale}")
        case TypeRoot.DOUBLE | TypeRoot.FLOAT:
            return rng.choice((0.0, -0.0, 1.5, -3.25e10, float("nan"), float("inf"), float(rng.randrange(-99, 99))))
        case TypeRoot.DATE:
            return rng.randrange(-700_000, 2_900_000)
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return rng.randrange(-(10**10), 10**11) * 10 ** ((kind.precision or 0) - 1) // 100
        case TypeRoot.TIME:
            return rng.randrange(86_400_000)
        case root:
            bits = {TypeRoot.TINYINT: 8, TypeRoot.SMALLINT: 16, TypeRoot.INT: 32, TypeRoot.BIGINT: 64}[root]
            return rng.choice((0, -1, -(1 << bits - 1), (1 << bits - 1) - 1, rng.getrandbits(bits - 1)))


def check_buckets(spark: SparkSession, schema: TableSchema, seed: int = 0) -> None:
    rows = random_rows(schema, seed)
    spark_schema = to_spark_schema(schema.fields)
    arrow_schema = spark_arrow_schema(spark_schema)
    given = pa.Table.from_batches([conform(batch, arrow_schema) for batch in rows.to_batches()], arrow_schema)
    frame = spark.createDataFrame(given, schema=spark_schema).coalesce(1)

    found = frame.select(bucket_column_of(schema).alias("bucket")).toArrow()["bucket"].to_pylist()

    assert found == bucket_of(rows, schema.bucket_fields, BUCKETS, schema.bucket_function).tolist()


@pytest.mark.parametrize("types", rest_in_full(NATIVE, 8), ids=lambda types: "+".join(types[:4]))
def test_the_native_bucket_is_the_bucket_of_the_file_store(types: Sequence[str], spark: SparkSession) -> None:
    schema = key_schema(types, nullable=True)

    assert native_bucket_sql(schema) is not None
    check_buckets(spark, schema)


@pytest.mark.parametrize("types", [("BIGINT",), ("STRING", "STRING", "BIGINT", "STRING")], ids="+".join)
def test_keys_without_nulls_have_the_same_bucket_by_a_shorter_way(types: Sequence[str], spark: SparkSession) -> None:
    required, nullable = (key_schema(types, nullable=nullable) for nullable in (False, True))

    assert len(native_bucket_sql(required) or "") < len(native_bucket_sql(nullable) or "")
    check_buckets(spark, required)


@pytest.mark.parametrize("types", VECTORISED, ids="+".join)
def test_other_key_types_take_the_file_stores_own_function(types: Sequence[str], spark: SparkSession) -> None:
    schema = key_schema(types, nullable=True)

    assert native_bucket_sql(schema) is None
    check_buckets(spark, schema)


@pytest.mark.parametrize("function", [BucketFunction.MOD, BucketFunction.HIVE])
def test_other_bucket_functions_are_kept(function: BucketFunction, spark: SparkSession) -> None:
    schema = key_schema(["BIGINT"], nullable=False, options={"bucket-function.type": function.value})

    check_buckets(spark, schema)


def test_a_table_without_fixed_buckets_has_no_bucket_column() -> None:
    schema = key_schema(["BIGINT"], nullable=False, options={"bucket": "-1"})

    with pytest.raises(InvalidRequestError, match="bucket=-1"):
        bucket_column_of(schema)
