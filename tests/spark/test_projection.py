"""Rows are checked and converted by Spark SQL before anything is written."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.types import DataField, array_of, parse_type, row_of
from lakelog.filestore.schema.schema import TableSchema
from lakelog.spark.projection import Projector, check_is_projected, check_schema, refused_row_error


def schema_of(**columns: str) -> TableSchema:
    fields = tuple(
        DataField(id=at, name=name, type=parse_type(text)) for at, (name, text) in enumerate(columns.items())
    )
    return TableSchema(id=0, fields=fields, highest_field_id=len(fields), primary_keys=(fields[0].name,))


def project(spark: SparkSession, value: object, ddl: str, kind: str) -> object:
    """The value of a column of Spark type `ddl`, as a table whose column has the type `kind` takes it."""
    rows = spark.createDataFrame([(1, value)], f"k INT NOT NULL, `v w` {ddl}")
    table = schema_of(k="INT NOT NULL", **{"v w": kind})
    check_schema(rows.schema, table, table_name="db.t")
    return Projector().project(rows, table, table_name="db.t").collect()[0][1]


@pytest.mark.parametrize(
    ("value", "ddl", "kind", "expected"),
    [
        (5, "BIGINT", "TINYINT", 5),
        (None, "BIGINT", "TINYINT", None),
        (5, "INT", "DECIMAL(5, 2)", Decimal("5.00")),
        (Decimal("1.500"), "DECIMAL(6, 3)", "DECIMAL(4, 2)", Decimal("1.50")),
        (0.5, "FLOAT", "DOUBLE", 0.5),
        ("abc", "STRING", "VARCHAR(3)", "abc"),
        (
            datetime(1960, 1, 1, 0, 0, 0, 123_000),
            "TIMESTAMP_NTZ",
            "TIMESTAMP(3)",
            datetime(1960, 1, 1, 0, 0, 0, 123_000),
        ),
    ],
)
def test_a_value_that_fits_is_converted(
    spark: SparkSession, value: object, ddl: str, kind: str, expected: object
) -> None:
    assert project(spark, value, ddl, kind) == expected


@pytest.mark.parametrize(
    ("value", "ddl", "kind", "message"),
    [
        (200, "BIGINT", "TINYINT", "is TINYINT, which cannot hold 200"),
        (1000, "INT", "DECIMAL(5, 2)", r"is DECIMAL\(5, 2\), which cannot hold 1000"),
        (Decimal("1.005"), "DECIMAL(6, 3)", "DECIMAL(5, 2)", r"cannot hold 1\.005"),
        (None, "INT", "BIGINT NOT NULL", "is NOT NULL, but a row has a null"),
        ("üüüü", "STRING", "VARCHAR(3)", r"is VARCHAR\(3\), but a row has 4 characters"),
        (bytearray(b"1234"), "BINARY", "VARBINARY(3)", "has 4 bytes"),
        (datetime(1960, 1, 1, 0, 0, 0, 1), "TIMESTAMP", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "cannot hold 1960"),
        (datetime(1960, 1, 1, 0, 0, 0, 1000), "TIMESTAMP_NTZ", "TIMESTAMP(0)", "cannot hold 1960"),
    ],
)
@pytest.mark.full
def test_a_value_that_does_not_fit_is_named(
    spark: SparkSession, value: object, ddl: str, kind: str, message: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        project(spark, value, ddl, kind)

    refused = refused_row_error(caught.value)
    assert isinstance(refused, InvalidRequestError)
    assert refused.args[0].startswith("table db.t, column 'v w' ")
    with pytest.raises(InvalidRequestError, match=message):
        raise refused


@pytest.mark.parametrize(
    ("ddl", "message"),
    [
        ("v STRING", r"lack column\(s\) k"),
        ("k INT, V STRING, v STRING", r"repeat column\(s\) V, v"),
        ("k INT, v STRING, w INT", r"have unknown column\(s\) w"),
        ("k INT, v TIMESTAMP_NTZ", "'v': expected STRING"),
        ("k INT, v VARIANT", "'v' has the Spark type variant"),
        ("k INT, v STRING, _row_kind INT", "column '_row_kind' has the type int, expected a string"),
    ],
)
def test_other_columns_are_refused_without_running_anything(spark: SparkSession, ddl: str, message: str) -> None:
    rows = spark_types.StructType.fromDDL(ddl)
    assert isinstance(rows, spark_types.StructType)

    with pytest.raises(Exception, match=message):
        check_schema(rows, schema_of(k="INT NOT NULL", v="STRING"), table_name="db.t")


@pytest.mark.full
def test_rows_that_lack_a_nullable_column_have_null_and_names_are_found_in_any_case(spark: SparkSession) -> None:
    table = schema_of(k="INT NOT NULL", Name="VARCHAR(3)", at="TIMESTAMP(3)")
    rows = spark.createDataFrame([("abc", 1, "-D")], "name STRING, K INT, _row_kind STRING")
    check_schema(rows.schema, table, table_name="db.t")
    found = Projector().project(rows, table, table_name="db.t")
    assert found.columns == ["k", "Name", "at", "_row_kind"]
    assert [tuple(row) for row in found.collect()] == [(1, "abc", None, 3)]
    with pytest.raises(InvalidRequestError, match=r"lack column\(s\) k"):
        check_schema(rows.schema, table, table_name="db.t", is_case_sensitive=True)


def test_a_null_key_is_named_by_its_row(spark: SparkSession) -> None:
    """The row's other columns say which it is; of a wide row the first."""
    types = {"k": "INT NOT NULL", "name": "STRING", "at": "TIMESTAMP(3)"} | {f"c{n}": "INT" for n in range(40)}
    table = replace(schema_of(**types), primary_keys=("k",))
    rows = spark.createDataFrame([(1, "a", 1), (None, "b\n", 7)], "K INT, name STRING, c0 INT")
    with pytest.raises(Exception, match="refuses the batch") as caught:
        Projector().project(rows, table, table_name="db.t").collect()
    refused = refused_row_error(caught.value)
    assert str(refused).endswith("""but a row has a null; the row begins with {"k":null,"name":"b\\n","c0":"7"}""")


@pytest.mark.parametrize(
    ("ddl", "is_copied"),
    [
        ("k INT, v STRING, at TIMESTAMP", False),
        ("K INT, v STRING, at TIMESTAMP", True),
        ("v STRING, k INT, at TIMESTAMP", True),
        ("k SMALLINT, v STRING, at TIMESTAMP", True),
        ("k INT, v STRING, at TIMESTAMP, _row_kind STRING", True),
    ],
)
def test_rows_in_the_form_of_the_table_are_not_copied(spark: SparkSession, ddl: str, is_copied: bool) -> None:
    table = schema_of(k="INT NOT NULL", v="STRING", at="TIMESTAMP(6) WITH LOCAL TIME ZONE")
    rows = spark.createDataFrame([], ddl)
    assert (Projector().project(rows, table, table_name="db.t") is not rows) == is_copied


@pytest.mark.parametrize("kind", ["VARCHAR(3)", "CHAR(3)", "VARBINARY(3)"])
def test_rows_whose_values_have_rules_are_looked_at(spark: SparkSession, kind: str) -> None:
    table = schema_of(k="INT NOT NULL", v=kind)
    rows = spark.createDataFrame([], f"k INT, v {'BINARY' if 'BINARY' in kind else 'STRING'}")
    assert Projector().project(rows, table, table_name="db.t") is not rows


def test_a_projector_makes_new_expressions_for_other_columns(spark: SparkSession) -> None:
    table = schema_of(k="INT NOT NULL", v="BIGINT")
    projector = Projector()
    for ddl, expected in (("k INT, v INT", 1), ("k INT, v INT", 1), ("v INT, k INT", 2), ("k INT, v BIGINT", 1)):
        rows = spark.createDataFrame([(1, 2)], ddl)
        assert projector.project(rows, table, table_name="db.t").collect()[0][0] == expected


def test_another_error_is_not_mistaken_for_a_refused_row() -> None:
    assert refused_row_error(RuntimeError("something else")) is None


@pytest.mark.parametrize("kind", ["TIMESTAMP(9)", "TIMESTAMP(7) WITH LOCAL TIME ZONE", "ARRAY<TIMESTAMP(9)>"])
def test_a_type_that_spark_cannot_hold_is_refused_before_a_batch_fails(kind: str) -> None:
    nested = array_of(parse_type("TIMESTAMP(9)")) if kind.startswith("ARRAY") else parse_type(kind)
    fields = (DataField(id=0, name="id", type=parse_type("INT NOT NULL")), DataField(id=1, name="at", type=nested))
    table = TableSchema(id=0, fields=fields, highest_field_id=1, primary_keys=("id",))
    with pytest.raises(UnsupportedError, match=r"table db.t, column 'at' has the type .*which Spark cannot hold"):
        check_is_projected(table, table_name="db.t")


@pytest.mark.parametrize("ddl", ["ARRAY<STRUCT<b: INT, a: INT>>", "ARRAY<STRUCT<B: INT, a: INT>>"])
def test_structs_whose_fields_spark_would_swap_are_refused(spark: SparkSession, ddl: str) -> None:
    """Spark casts structs by the places of their fields."""
    kind = row_of([DataField(id=0, name=name, type=parse_type("INT")) for name in ("a", "b")])
    table = schema_of(k="INT NOT NULL")
    table = replace(table, fields=(*table.fields, DataField(id=1, name="v", type=array_of(kind))))
    swapped = spark_types.StructType.fromDDL(f"k INT NOT NULL, v {ddl}")
    assert isinstance(swapped, spark_types.StructType)
    with pytest.raises(InvalidRequestError, match=r"column 'v': the fields of .* are in another order"):
        check_schema(swapped, table, table_name="db.t")
    named = spark_types.StructType.fromDDL("k INT NOT NULL, v ARRAY<STRUCT<A: INT, b: INT>>")
    assert isinstance(named, spark_types.StructType)
    check_schema(named, table, table_name="db.t")
