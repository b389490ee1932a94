"""Lineage in `foreachBatch`: the plan of a micro-batch is one leaf of rows, which stands for the streaming plan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from lakelog.lineage.columns.field_operations import FieldLineage
from lakelog.spark.capture.field_capture import BatchStitch, fields_of, stitch_of_query

Program = Callable[[DataFrame], DataFrame]


def stitch_of(rows: DataFrame) -> BatchStitch:
    """The stitch of the query that is started from these rows."""
    query = SimpleNamespace(logicalPlan=rows._jdf.queryExecution().analyzed)
    return stitch_of_query(query, rows.sparkSession._jvm)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream over a folder of JSON, with columns made from it."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text('{"id": 1, "a": 2, "b": 3, "f": 4}\n')
    rows = spark.readStream.schema("id INT, a INT, b INT, f INT").json(str(folder))
    return rows.where("f > 0").select("id", (f.col("a") + f.col("b")).alias("s"))


def in_batch(stream: DataFrame, tmp_path: Path, program: Program) -> FieldLineage:
    """The lineage of what a program makes of a micro-batch."""
    stitch = stitch_of(stream)
    found: list[FieldLineage] = []

    def write(batch: DataFrame, _: int) -> None:
        rows = program(batch)
        found.append(fields_of(rows, stitch=stitch))
        batch.write.format("noop").mode("append").save()

    writer = stream.writeStream.foreachBatch(write).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(60)
    return found[-1]


def edges(lineage: FieldLineage) -> set[tuple[str, str, str]]:
    """From, to and subtype; the columns of the source by their names."""
    to_fields = {(edge.source.name, one.name, edge.kind.subtype) for one in lineage.fields for edge in one.edges}
    return to_fields | {(edge.source.name, "*", edge.kind.subtype) for edge in lineage.dataset}


SUM = {("a", "s", "TRANSFORMATION"), ("b", "s", "TRANSFORMATION")}
FILTERED = {("f", "*", "FILTER")}


def on_a_view(batch: DataFrame) -> DataFrame:
    batch.createOrReplaceTempView("batch")
    return batch.sparkSession.sql("SELECT id, s FROM batch")


def joined_with_itself(batch: DataFrame) -> DataFrame:
    return batch.alias("x").join(batch.alias("y"), f.expr("x.id = y.id")).selectExpr("x.id AS id", "y.s AS s")


@pytest.mark.parametrize(
    ("program", "more"),
    [
        (lambda batch: batch, set()),
        (lambda batch: batch.where("s > 1"), {("a", "*", "FILTER"), ("b", "*", "FILTER")}),
        (on_a_view, set()),
        (lambda batch: batch.cache(), set()),
        (lambda batch: batch.localCheckpoint(), set()),
        (joined_with_itself, {("id", "*", "JOIN")}),
    ],
    ids=["as it is", "filtered", "view", "cached", "checkpoint", "self join"],
)
def test_a_batch_comes_from_the_sources_of_the_stream(
    program: Program, more: set[tuple[str, str, str]], stream: DataFrame, tmp_path: Path
) -> None:
    found = in_batch(stream, tmp_path, program)
    assert edges(found) == {("id", "id", "IDENTITY")} | SUM | FILTERED | more
    assert [one.name for one in found.fields if one.is_opaque] == []
    assert {dataset.namespace for dataset in found.sources()} == {"file"}


def of_python_rows(batch: DataFrame) -> DataFrame:
    return batch.sparkSession.createDataFrame(batch.collect(), batch.schema)


def test_rows_that_the_program_makes_are_opaque_and_come_from_the_whole_batch(
    stream: DataFrame, tmp_path: Path
) -> None:
    found = in_batch(stream, tmp_path, of_python_rows)
    inputs = {(start, end, "TRANSFORMATION") for start in ("id", "a", "b") for end in ("id", "s")}
    assert edges(found) == inputs | FILTERED
    assert [one.name for one in found.fields if one.is_opaque] == ["id", "s"]


def test_a_stateful_stream_is_followed(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text('{"ts": "2026-01-01T00:00:00Z", "k": "x", "a": 2}\n')
    rows = spark.readStream.schema("ts TIMESTAMP, k STRING, a INT").json(str(folder))
    counted = rows.withWatermark("ts", "1 minute").groupBy("k").agg(f.sum("a").alias("s"))
    writer = counted.writeStream.outputMode("update")
    stitch = stitch_of(counted)
    found: list[FieldLineage] = []

    def write(batch: DataFrame, _: int) -> None:
        found.append(fields_of(batch.withColumn("t", f.col("s") * 2), stitch=stitch))
        batch.write.format("noop").mode("append").save()

    query = writer.foreachBatch(write).trigger(availableNow=True)
    assert query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(60)
    assert edges(found[-1]) == {
        ("k", "k", "IDENTITY"),
        ("a", "s", "AGGREGATION"),
        ("a", "t", "AGGREGATION"),
        ("k", "*", "GROUP_BY"),
    }
