"""System tables in Spark: by the format and by the helper."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.catalog import Catalog, Table

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())])


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path)


@pytest.fixture
def table(catalog: Catalog) -> Table:
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"bucket": "2"})
    made.write(pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}, schema=SCHEMA))
    made.delete("id = 2")
    return made


def test_the_format_reads_system_tables_by_folder_and_by_name(
    spark: SparkSession, catalog: Catalog, table: Table
) -> None:
    expected = table.system_table("files").to_arrow(columns=["file_path", "record_count"]).to_pylist()
    by_path = spark.read.format("lakelog").load(f"{table.path}$files")
    by_name = spark.read.format("lakelog").option("warehouse", catalog.warehouse).load("db.t$files")
    for found in (by_path, by_name):
        assert [row.asDict() for row in found.select("file_path", "record_count").collect()] == expected
    older = spark.read.format("lakelog").option("snapshot_id", "1").load(f"{table.path}$files")
    assert older.count() == table.system_table("files", snapshot_id=1).to_arrow().num_rows


def test_the_format_reads_the_changes_of_a_range(spark: SparkSession, table: Table) -> None:
    changes = spark.read.format("lakelog").option("incremental-between", "1,2").load(f"{table.path}$audit_log")
    assert [tuple(row) for row in changes.collect()] == [("-D", 2, "b")]


def test_the_helper_reads_system_tables_of_a_table_and_of_the_warehouse(
    spark: SparkSession, catalog: Catalog, table: Table
) -> None:
    found = lakelog.spark.read(spark, "db.t$snapshots", catalog=catalog, columns=["snapshot_id", "commit_time"])
    assert [row["snapshot_id"] for row in found.collect()] == [1, 2]
    tables = spark.read.format("lakelog").options(warehouse=catalog.warehouse, table="sys.tables").load()
    assert [(row["database_name"], row["table_name"]) for row in tables.collect()] == [(table.name.split(".")[0], "t")]


def test_an_unknown_system_table_is_an_error_at_load(spark: SparkSession, catalog: Catalog, table: Table) -> None:
    with pytest.raises(PySparkException, match="did you mean 'files'"):
        spark.read.format("lakelog").option("warehouse", catalog.warehouse).load(f"{table.name}$fils")
