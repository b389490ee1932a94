"""System tables in Spark: by the format and by the helper."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # Any: values of a test

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.source.streams.source import LakelogStreamReader

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
    expected = table.system.table("files").to_arrow(columns=["file_path", "record_count"]).to_pylist()
    by_path = spark.read.format("lakelog").load(f"{table.path}$files")
    by_name = spark.read.format("lakelog").option("warehouse", catalog.warehouse).load("db.t$files")
    for found in (by_path, by_name):
        assert [row.asDict() for row in found.select("file_path", "record_count").collect()] == expected
    older = spark.read.format("lakelog").option("snapshot_id", "1").load(f"{table.path}$files")
    assert older.count() == table.system.table("files", snapshot_id=1).to_arrow().num_rows


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


def streamed(spark: SparkSession, table: Table, name: str, folder: Path, **options: str) -> list[tuple[Any, ...]]:
    """What one run of a stream gives, in the order of ids; a second run goes on behind it."""
    rows = spark.readStream.format("lakelog").options(**options).load(f"{table.path}${name}")
    found: list[tuple[Any, ...]] = []
    query = rows.writeStream.foreachBatch(lambda batch, _: found.extend(tuple(row) for row in batch.collect()))
    query = query.option("checkpointLocation", str(folder / name)).trigger(availableNow=True)
    query.start().awaitTermination()
    return sorted(found, key=str)


@pytest.fixture
def logged_table(catalog: Catalog) -> Table:
    """A table with a changelog."""
    options = {"bucket": "1", "changelog-producer": "lookup"}
    made = catalog.create_table("db.c", schema=SCHEMA, primary_keys=["id"], options=options)
    made.write(pa.table({"id": [1, 2], "v": ["a", "b"]}, schema=SCHEMA))
    return made


def changed(table: Table) -> None:
    table.write(pa.table({"id": [1], "v": ["z"]}, schema=SCHEMA))
    table.delete("id = 2")


@pytest.mark.full
def test_the_audit_log_is_followed_with_the_kind_of_each_row(
    spark: SparkSession, logged_table: Table, tmp_path: Path
) -> None:
    assert streamed(spark, logged_table, "audit_log", tmp_path) == [("+I", 1, "a"), ("+I", 2, "b")]
    changed(logged_table)
    expected = [("+U", 1, "z"), ("-D", 2, "b"), ("-U", 1, "a")]
    assert streamed(spark, logged_table, "audit_log", tmp_path) == expected


@pytest.mark.full
def test_the_binlog_is_followed_with_both_values_of_an_update(
    spark: SparkSession, logged_table: Table, tmp_path: Path
) -> None:
    assert streamed(spark, logged_table, "binlog", tmp_path) == [("+I", [1], ["a"]), ("+I", [2], ["b"])]
    changed(logged_table)
    assert streamed(spark, logged_table, "binlog", tmp_path, columns="rowkind,v") == [
        ("+U", ["a", "z"]),
        ("-D", ["b"]),
    ]


def test_only_system_tables_of_changes_are_followed(table: Table) -> None:
    files = LakelogDataSource({"path": f"{table.path}$files"})
    with pytest.raises(InvalidRequestError, match="has no changes to follow: read it with spark"):
        files.streamReader(files.schema())


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"where": "id = 1"}, "where filters rows, and .* has lists"),
        ({"metadata-columns": "bucket"}, "metadata-columns is an option of tables"),
        ({"incremental-between": "1,2"}, "a stream has no end"),
    ],
)
def test_a_stream_of_a_system_table_takes_no_such_option(table: Table, option: dict[str, str], message: str) -> None:
    binlog = LakelogDataSource({"path": f"{table.path}$binlog", **option})
    with pytest.raises(InvalidRequestError, match=message):
        binlog.streamReader(binlog.schema())


def test_a_batch_read_of_a_system_table_takes_no_option_of_streams(spark: SparkSession, table: Table) -> None:
    rows = spark.read.format("lakelog").option("maxRowsPerTrigger", "5").load(f"{table.path}$audit_log")
    with pytest.raises(PySparkException, match="unknown option 'maxrowspertrigger'"):
        rows.collect()


def test_a_stream_of_a_system_table_is_named_in_a_warehouse_and_in_a_branch(catalog: Catalog, table: Table) -> None:
    table.branches.create("b")
    names = {
        "db.t$audit_log": {"warehouse": catalog.warehouse, "path": "db.t$audit_log"},
        "the option table": {"warehouse": catalog.warehouse, "table": "db.t$audit_log"},
        "a branch": {"path": f"{table.path}$branch_b$audit_log"},
    }
    branches = {}
    for name, options in names.items():
        source = LakelogDataSource(options)
        reader = source.streamReader(source.schema())
        assert isinstance(reader, LakelogStreamReader)
        branches[name] = reader.planner._table.branch
    assert branches == {"db.t$audit_log": "main", "the option table": "main", "a branch": "b"}
