"""The lineage of DataFrames: code of users, sources of all kinds, and what the job sees of a failure."""

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any  # Any: what Spark gives to functions of users

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType

from lakelog.catalog import Catalog
from lakelog.common.errors import InvalidRequestError
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_edges import Dataset
from lakelog.lineage.columns.field_operations import FieldLineage
from lakelog.spark import attach, declare_inputs, detach
from lakelog.spark.capture import field_capture, leaf_datasets
from lakelog.spark.capture.field_capture import fields_of
from lakelog.spark.capture.leaf_datasets import LeafRead

ALL = {"id", "a", "g"}


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Rows of a Parquet file."""
    path = str(tmp_path / "rows")
    spark.range(1).selectExpr("id", "1 AS a", "'x' AS g").write.parquet(path)
    return spark.read.parquet(path)


def inputs(lineage: FieldLineage) -> dict[str, set[str]]:
    """The columns that each column is made from."""
    return {one.name: {edge.source.name for edge in one.edges} for one in lineage.fields}


def opaque(lineage: FieldLineage) -> list[str]:
    return [one.name for one in lineage.fields if one.is_opaque]


def arrow_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def pandas_frames(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield from frames


def pandas_group(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


negated = f.udf(operator.neg, IntegerType())


@f.pandas_udf(LongType())  # type: ignore[attr-defined, untyped-decorator]  # Spark's stubs do not have it
def total(values: pd.Series) -> int:
    return int(values.sum())


def test_a_function_of_a_user_has_its_arguments_as_inputs(rows: DataFrame) -> None:
    found = fields_of(rows.select("id", negated("a").alias("b")))
    assert inputs(found) == {"id": {"id"}, "b": {"a"}}
    assert opaque(found) == []
    assert found.fields[1].description == "neg(a)"


def test_an_aggregate_function_of_a_user_has_its_arguments_as_inputs(rows: DataFrame) -> None:
    found = fields_of(rows.groupBy("g").agg(total("a").alias("t")))
    assert {edge.kind.subtype for edge in found.fields[1].edges} == {"AGGREGATION"}
    assert inputs(found) == {"g": {"g"}, "t": {"a"}}


@pytest.mark.parametrize("name", ["mapInArrow", "mapInPandas", "applyInPandas", "cogroup", "rdd"])
def test_code_over_whole_rows_is_opaque(name: str, rows: DataFrame, spark: SparkSession) -> None:
    made = {
        "mapInArrow": lambda: rows.mapInArrow(arrow_batches, "x LONG, y INT"),
        "mapInPandas": lambda: rows.mapInPandas(pandas_frames, "x LONG, y INT"),
        "applyInPandas": lambda: rows.groupBy("g").applyInPandas(pandas_group, "x LONG, y INT"),
        "cogroup": lambda: (
            rows.groupBy("g").cogroup(rows.groupBy("g")).applyInPandas(lambda one, _: one, "x LONG, y INT")
        ),
        "rdd": lambda: spark.createDataFrame(rows.select("id", "a").rdd, "x LONG, y INT"),
    }
    found = fields_of(made[name]().select("y", (f.col("x") + 1).alias("z")))
    assert opaque(found) == ["y", "z"]
    expected = set() if name == "rdd" else ALL
    assert inputs(found) == {"y": expected, "z": expected}


def test_what_is_beside_opaque_code_is_exact(rows: DataFrame) -> None:
    made = rows.mapInArrow(arrow_batches, "k LONG")
    found = fields_of(rows.join(made, rows["id"] == made["k"]).select("a", "k"))
    assert inputs(found) == {"a": {"a"}, "k": ALL}
    assert opaque(found) == ["k"]


def test_struct_fields_are_followed_through_changes(rows: DataFrame) -> None:
    built = rows.select(f.struct("id", f.struct("a", "g").alias("in")).alias("s"))
    found = fields_of(built.select("s.in.a", "s.in", "s.id"))
    assert inputs(found) == {"a": {"a"}, "in": {"a", "g"}, "id": {"id"}}
    changed = built.select(f.col("s").withField("more", f.col("s.in.g")).dropFields("id").alias("s"))
    assert inputs(fields_of(changed.select("s.more", "s.in.a"))) == {"more": {"g"}, "a": {"a"}}


def test_paths_of_source_structs_are_kept_through_changes(rows: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    rows.select(f.struct("id", f.struct("a", "g").alias("in")).alias("s")).write.parquet(str(tmp_path / "structs"))
    read = spark.read.parquet(str(tmp_path / "structs"))
    assert inputs(fields_of(read.select("s.*", "s.in.g"))) == {"id": {"s.id"}, "in": {"s.in"}, "g": {"s.in.g"}}
    changed = read.select(f.col("s").withField("more", f.lit(1)).alias("s"))
    assert inputs(fields_of(changed.select("s.more", "s.id", "s.in.a"))) == {
        "more": set(),
        "id": {"s.id"},
        "a": {"s.in.a"},
    }


VERBS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "windows of time": lambda rows: rows.groupBy(f.window(f.current_timestamp(), "2 days", "1 day"), "g").agg(
        f.sum("a")
    ),
    "unpivot": lambda rows: rows.unpivot("g", ["id", "a"], "name", "value"),
    "fill": lambda rows: rows.na.fill(0),
    "drop": lambda rows: rows.na.drop(),
    "replace": lambda rows: rows.na.replace([1], [2]),
    "observe": lambda rows: rows.observe("seen", f.count("*").alias("n")),
    "layout": lambda rows: rows.hint("broadcast").repartition(2, "a").sortWithinPartitions("g").coalesce(1),
    "parts": lambda rows: rows.sample(0.5).offset(1).limit(2),
    "as of": lambda rows: rows._joinAsOf(rows.alias("x"), leftAsOfColumn=rows["id"], rightAsOfColumn=f.col("x.id")),
    "numbers": lambda rows: rows.zipWithIndex(),
    "describe": lambda rows: rows.select("a").describe(),
    "crosstab": lambda rows: rows.crosstab("a", "g"),
    "missing columns": lambda rows: rows.select("id").unionByName(rows.select("a"), allowMissingColumns=True),
    "all": lambda rows: rows.select("id").intersectAll(rows.select("id")).exceptAll(rows.select("id")),
    "numbers of rows": lambda rows: rows.withColumn("n", f.monotonically_increasing_id()),
    "metadata": lambda rows: rows.select("a", "_metadata.file_path"),
    "names": lambda rows: rows.withColumnRenamed("a", "b").drop("g").toDF("x", "y"),
}


@pytest.mark.parametrize("name", VERBS)
def test_the_verbs_of_dataframes_are_known(name: str, rows: DataFrame) -> None:
    made = VERBS[name](rows)
    found = fields_of(made)
    assert opaque(found) == []
    assert [one.name for one in found.fields] == made.columns


def test_functions_in_sql_are_known(rows: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.read.parquet(str(tmp_path / "rows")).createOrReplaceTempView("field_rows")
    session.sql("CREATE OR REPLACE TEMPORARY FUNCTION add_one(x INT) RETURNS INT RETURN x + 1")
    session.sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION same(k INT) RETURNS TABLE (x STRING) "
        "RETURN SELECT g FROM field_rows WHERE a = k"
    )
    found = fields_of(session.sql("SELECT add_one(r.a) AS b, s.x FROM field_rows r, LATERAL same(r.a) s"))
    assert opaque(found) == []
    assert inputs(found) == {"b": {"a"}, "x": {"g"}}


def test_a_declaration_says_what_code_of_users_makes_of_its_rows(rows: DataFrame) -> None:
    made = rows.mapInArrow(arrow_batches, "id long, a int, g string")
    declared = declare_inputs(made, {"a": "id", "g": ["A", "g"]})
    assert declared.columns == made.columns
    assert declared.schema == made.schema
    found = fields_of(declared.withColumn("b", f.col("a") + 1))
    assert inputs(found) == {"id": ALL, "a": {"id"}, "g": {"a", "g"}, "b": {"id"}}
    assert opaque(found) == ["id"]
    assert [row.asDict() for row in declared.collect()] == [{"id": 0, "a": 1, "g": "x"}]


def test_a_declaration_of_a_column_that_is_not_given_leaves_it_opaque(rows: DataFrame) -> None:
    made = rows.mapInArrow(arrow_batches, "id long, a int, g string")
    found = fields_of(declare_inputs(made, {"a": "nothing"}))
    assert inputs(found)["a"] == ALL
    assert opaque(found) == ["id", "a", "g"]
    with pytest.raises(InvalidRequestError, match="no column 'z': their columns are id, a, g"):
        declare_inputs(made, {"z": "id"})
    with pytest.raises(InvalidRequestError, match="'a' is declared without inputs"):
        declare_inputs(made, {"a": []})


def test_datasets_are_named_by_what_spark_reads(rows: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path)
    rows.write.csv(f"{folder}/csv")
    rows.write.json(f"{folder}/json")
    (tmp_path / "in").mkdir()
    named = {
        Dataset("file", f"{folder}/rows"): rows,
        Dataset("file", f"{folder}/csv"): spark.read.csv(f"{folder}/csv"),
        Dataset("file", f"{folder}/json"): spark.read.json(f"{folder}/json"),
        Dataset("rate", "rate"): spark.readStream.format("rate").load(),
        Dataset("file", f"{folder}/in"): spark.readStream.text(f"{folder}/in"),
    }
    assert {dataset: fields_of(frame).sources() for dataset, frame in named.items()} == {one: [one] for one in named}


def test_a_view_is_what_it_is_made_from(rows: DataFrame, spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.read.parquet(str(tmp_path / "rows")).createOrReplaceTempView("field_view")
    assert fields_of(session.sql("SELECT id FROM field_view")).sources() == [Dataset("file", f"{tmp_path}/rows")]


def test_each_way_to_a_table_of_ours_gives_its_name(spark: SparkSession, tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "lake")
    table = catalog.create_table("db.t", schema=pa.schema([("id", pa.int64()), ("a", pa.int32())]))
    table.write(pa.table({"id": [1], "a": pa.array([2], pa.int32())}))
    attach(spark, "fieldlake", catalog)
    try:
        ways: list[DataFrame] = [
            spark.table("fieldlake.db.t"),
            spark.sql("SELECT * FROM fieldlake.db.t WHERE id > 0"),
            spark.read.format("lakelog").load(table.path),
            spark.readStream.format("lakelog").load(table.path),
            spark.readStream.table("fieldlake.db.t"),
        ]
        found = [fields_of(way) for way in ways]
    finally:
        detach(spark, "fieldlake")
    assert [one.sources() for one in found] == [[Dataset("db", "t")]] * len(ways)
    assert [inputs(one) for one in found] == [{"id": {"id"}, "a": {"a"}}] * len(ways)


def test_a_failed_analysis_gives_opaque_fields_and_a_warning(
    rows: DataFrame, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError("no JSON")

    monkeypatch.setattr(field_capture, "fields_of_plan", failing)
    found = fields_of(rows)
    assert opaque(found) == ["id", "a", "g"]
    assert "the lineage of fields is not known: RuntimeError('no JSON')" in caplog.text


def test_a_leaf_that_cannot_be_named_costs_its_columns_alone(
    rows: DataFrame, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    named = leaf_datasets.read_of

    def failing(leaf: Any, jvm: Any) -> LeafRead | None:
        if leaf.getClass().getSimpleName() == "StreamingRelationV2":
            raise RuntimeError("unknown")
        return named(leaf, jvm)

    monkeypatch.setattr(field_capture, "read_of", failing)
    stream = spark.readStream.format("rate").load()
    found = fields_of(stream.join(rows, stream["value"] == rows["id"]).select("a", "timestamp"))
    assert inputs(found) == {"a": {"a"}, "timestamp": set()}
    assert opaque(found) == ["timestamp"]
    assert "what StreamingRelationV2 reads is not known" in caplog.text


def test_the_same_program_has_the_same_checksum_each_time(rows: DataFrame) -> None:
    found = [fields_of(rows.where("a > 0").groupBy("g").agg(f.sum(negated("a")).alias("s"))) for _ in range(2)]
    sums = {FieldDocument(lineage=one).checksum for one in found}
    assert len(sums) == 1
