"""Tables without primary key and tables with merge engines, written and read by Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

import lakelog.spark
from lakelog.catalog import Catalog, Table
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.spark import write_stream
from tests.support.tables.paimon_branches import take_as_branch
from tests.support.tables.paimon_tables import expected, unpack

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("day", pa.string()), pa.field("amount", pa.int64())])
DDL = "id BIGINT, day STRING, amount BIGINT"
Rows = list[tuple[int, str, int | None]]
FIRST: Rows = [(1, "a", 5), (1, "a", 5), (2, "b", None), (3, "a", 1)]
SECOND: Rows = [(1, "a", 7), (4, "b", 2), (2, "b", 10)]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


def multiset(rows: DataFrame) -> Counter[Row]:
    return Counter(rows.collect())


def as_multiset(rows: Rows) -> Counter[Row]:
    return Counter(Row(id=key, day=day, amount=amount) for key, day, amount in rows)


def stream_in(spark: SparkSession, folder: Path, *batches: Rows) -> DataFrame:
    """A stream of files, each a batch."""
    folder.mkdir()
    for number, rows in enumerate(batches):
        columns = [list(column) for column in zip(*rows, strict=True)]
        pq.write_table(pa.table(columns, schema=SCHEMA), folder / f"{number}.parquet")
    return spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).parquet(str(folder))


def append_table(catalog: Catalog) -> Table:
    return catalog.create_table("db.events", schema=SCHEMA, partition_keys=["day"], options={"bucket": "-1"})


def test_rows_without_a_key_are_appended_by_batches_and_streams(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    table = append_table(catalog)
    spark.createDataFrame(FIRST, DDL).write.format("lakelog").mode("append").save(table.path)
    rows = stream_in(spark, tmp_path / "in", SECOND, FIRST)
    write_stream(rows, table, checkpoint_location=tmp_path / "ck", available_now=True).awaitTermination()
    assert multiset(lakelog.spark.read(spark, table)) == as_multiset([*FIRST, *SECOND, *FIRST])
    found = lakelog.spark.read(spark, table, columns=["id"], where="day = 'b' and amount > 1")
    assert sorted(row["id"] for row in found.collect()) == [2, 4]
    spark.createDataFrame(SECOND, DDL).write.format("lakelog").mode("overwrite").save(table.path)
    assert multiset(lakelog.spark.read(spark, table)) == as_multiset(SECOND)


@pytest.mark.full
def test_a_stream_of_rows_without_a_key_is_followed(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    source, sink = append_table(catalog), catalog.create_table("db.copy", schema=SCHEMA, options={"bucket": "-1"})

    def copy() -> None:
        rows = spark.readStream.format("lakelog").load(source.path)
        write_stream(rows, sink, checkpoint_location=tmp_path / "ck", available_now=True).awaitTermination()

    for rows in (FIRST, SECOND):
        spark.createDataFrame(rows, DDL).write.format("lakelog").mode("append").save(source.path)
        copy()
    assert multiset(lakelog.spark.read(spark, sink)) == as_multiset([*FIRST, *SECOND])


def test_a_delete_without_a_key_fails_the_batch(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    table = append_table(catalog)
    rows = stream_in(spark, tmp_path / "in", FIRST).withColumn("_row_kind", sf.lit("-D"))
    query = write_stream(rows, table, checkpoint_location=tmp_path / "ck", available_now=True)
    with pytest.raises(Exception, match="has no primary key and takes inserts only, found a -D"):
        query.awaitTermination()
    assert table.store.snapshots.latest() is None


def test_a_stream_adds_up_where_the_table_aggregates(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    options = {"merge-engine": "aggregation", "fields.amount.aggregate-function": "sum"}
    table = catalog.create_table("db.sums", schema=SCHEMA, primary_keys=["id"], options=options)
    rows = stream_in(spark, tmp_path / "in", FIRST, SECOND, FIRST)
    write_stream(rows, table, checkpoint_location=tmp_path / "ck", available_now=True).awaitTermination()
    assert multiset(lakelog.spark.read(spark, table)) == as_multiset(
        [(1, "a", 27), (2, "b", 10), (3, "a", 2), (4, "b", 2)]
    )


def test_parts_of_rows_are_not_followed(spark: SparkSession, catalog: Catalog) -> None:
    options = {"merge-engine": "partial-update"}
    table = catalog.create_table("db.parts", schema=SCHEMA, primary_keys=["id"], options=options)
    with pytest.raises(Exception, match="its files hold parts of rows"):
        spark.readStream.format("lakelog").load(table.path).writeStream.format("noop").start().processAllAvailable()


@pytest.mark.parametrize(
    ("case", "name"),
    [("deletion_vectors", "dv"), ("merge_engines", "partial_agg"), ("append_only", "append_bucketed")],
)
def test_tables_of_flink_are_read_by_spark(spark: SparkSession, tmp_path: Path, case: str, name: str) -> None:
    path = unpack(case, tmp_path) / "db.db" / name
    rows = lakelog.spark.read(spark, str(path))
    found = Counter(tuple(row.asDict().values()) for row in rows.collect())
    assert found == Counter(tuple(row.values()) for row in expected(case, name, "latest"))


def test_branches_and_their_tags_are_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = str(unpack("tags_branches", tmp_path) / "db.db" / "forwarded")
    source = spark.read.format("lakelog").option("path", path)

    def multiset_of(rows: DataFrame) -> Counter[tuple[object, ...]]:
        return Counter(tuple(row.asDict().values()) for row in rows.collect())

    dev = Counter(tuple(row.values()) for row in expected("tags_branches", "forwarded", "branch-dev"))
    base = Counter(tuple(row.values()) for row in expected("tags_branches", "forwarded", "tag-base"))
    rows = lakelog.spark.read(spark, path, branch="dev")
    assert multiset_of(rows) == dev
    assert multiset_of(source.option("branch", "dev").load()) == dev
    assert multiset_of(spark.read.format("lakelog").option("tag", "base").load(path)) == base
    with pytest.raises(Exception, match="has no branch 'dove'; its branches are main, dev"):
        lakelog.spark.read(spark, path, branch="dove")


def test_columns_in_any_case_are_read_by_spark(spark: SparkSession, catalog: Catalog) -> None:
    table = catalog.create_table("db.cases", schema=SCHEMA, primary_keys="ID")
    table.write(pa.table({"id": [1], "day": ["x"], "amount": [5]}).cast(SCHEMA))
    assert lakelog.spark.read(spark, table, columns="DAY").collect() == [("x",)]
    load = spark.read.format("lakelog").option("columns", "AMOUNT, Id").load(table.path)
    assert (load.columns, load.collect()) == (["amount", "id"], [(5, 1)])


def test_partitions_of_a_fallback_branch_are_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    schema = pa.schema([pa.field("day", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])
    options = {"scan.fallback-branch": "old", "bucket": "1"}
    made = build_schema(schema, primary_keys=["day", "id"], partition_keys=["day"], options=options)
    table = FileStoreTable.create(tmp_path / "db.db" / "t", made)
    old = FileStoreTable.create(tmp_path / "db.db" / "old", build_schema(schema, partition_keys=["day"]))
    table.write(pa.Table.from_pylist([{"day": "b", "id": 1}], schema=schema))
    table.compact(full=True)
    old.write(pa.Table.from_pylist([{"day": "a", "id": 2}, {"day": "b", "id": 3}], schema=schema))
    take_as_branch(table, old, "old")
    for rows in (
        lakelog.spark.read(spark, table.path),
        spark.read.format("lakelog").option("path", table.path).load(),
    ):
        assert sorted(tuple(row) for row in rows.collect()) == [("a", 2), ("b", 1)]


def test_a_column_holds_the_row_kinds_in_spark(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    table = catalog.create_table("db.kinds", schema=SCHEMA, primary_keys=["id"], options={"rowkind.field": "day"})
    rows: Rows = [(1, "+I", 5), (2, "+I", 6), (3, "+I", 7)]
    spark.createDataFrame(rows, DDL).write.format("lakelog").mode("append").save(table.path)
    stream = stream_in(spark, tmp_path / "in", [(1, "-D", None), (2, "-U", 6), (2, "+U", 9)])
    write_stream(stream, table, checkpoint_location=tmp_path / "ck", available_now=True).awaitTermination()
    wanted = as_multiset([(2, "+U", 9), (3, "+I", 7)])
    assert multiset(lakelog.spark.read(spark, table)) == wanted
    with pytest.raises(Exception, match=r"column 'day' must be one of \+I, -U, \+U, -D, found 'x'"):
        spark.createDataFrame([(1, "x", 5)], DDL).write.format("lakelog").mode("append").save(table.path)
    twice = spark.createDataFrame(rows, DDL).withColumn("_row_kind", sf.lit("+I"))
    with pytest.raises(Exception, match="without kinds, and without a column _row_kind"):
        twice.write.format("lakelog").mode("append").save(table.path)
    assert multiset(lakelog.spark.read(spark, table)) == wanted
