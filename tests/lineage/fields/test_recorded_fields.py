"""What commits record of the lineage of fields: by sinks, batch writes and statements of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from lakelog.catalog import Catalog, SetOption, Table
from lakelog.filestore.metadata.origins.record import batches_of
from lakelog.lineage import Dataset, OperationKind, fields, made_from
from lakelog.lineage.columns.field_documents import FieldDocument
from lakelog.lineage.columns.field_store import find_document
from lakelog.lineage.columns.plans.plan_fields import PlanFields
from lakelog.spark import LakelogSink, attach, detach, merge, write, write_stream
from lakelog.spark.capture import batch_fields
from lakelog.spark.capture.field_capture import BatchStitch, plan_fields_of

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("a", pa.int64()), ("s", pa.string())])


@pytest.fixture
def catalog(spark: SparkSession, tmp_path: Path) -> Iterator[Catalog]:
    catalog = Catalog(tmp_path / "lake")
    for name in ("db.source", "db.target"):
        catalog.create_table(name, schema=SCHEMA, primary_keys=["id"])
    catalog.load_table("db.source").write(pa.table({"id": [1, 2], "a": [3, 4], "s": ["x", "y"]}))
    attach(spark, "lk", catalog)
    yield catalog
    detach(spark, "lk")


def documents(table: Table) -> list[FieldDocument | None]:
    """The documents that the newest snapshot with a batch names."""
    snapshots = [table.store.snapshots.get(number) for number in reversed(table.store.snapshots.ids())]
    batches = next(found for one in snapshots if (found := batches_of(one)))
    return [find_document(table.store, one) for batch in batches for one in batch.lineage.fields]


def edges(document: FieldDocument | None) -> set[tuple[str, str, str]]:
    assert document is not None
    lineage = document.lineage
    found = {
        (f"{edge.source.dataset.name}.{edge.source.name}", one.name, edge.kind.subtype)
        for one in lineage.fields
        for edge in one.edges
    }
    return found | {
        (f"{edge.source.dataset.name}.{edge.source.name}", "*", edge.kind.subtype) for edge in lineage.dataset
    }


DOUBLED = {
    ("source.id", "id", "IDENTITY"),
    ("source.a", "a", "TRANSFORMATION"),
    ("source.s", "s", "IDENTITY"),
    ("source.a", "*", "FILTER"),
}


def doubled(rows: DataFrame) -> DataFrame:
    return rows.where("a > 0").select("id", (f.col("a") * 2).alias("a"), "s")


def by_stream(spark: SparkSession, catalog: Catalog, target: Table, checkpoint: str) -> None:
    rows = spark.readStream.format("lakelog").load(catalog.load_table("db.source").path)
    query = write_stream(doubled(rows), target, checkpoint_location=checkpoint, available_now=True)
    assert query.awaitTermination(120)


def by_function(spark: SparkSession, catalog: Catalog, target: Table, checkpoint: str) -> None:
    rows = spark.readStream.format("lakelog").load(catalog.load_table("db.source").path)
    sink = LakelogSink(target)
    stream = rows.writeStream.foreachBatch(lambda batch, number: sink(doubled(batch), number))
    assert stream.trigger(availableNow=True).option("checkpointLocation", checkpoint).start().awaitTermination(120)


def by_batch(spark: SparkSession, catalog: Catalog, target: Table, checkpoint: str) -> None:
    write(doubled(spark.table("lk.db.source")), target)


def by_insert(spark: SparkSession, catalog: Catalog, target: Table, checkpoint: str) -> None:
    spark.sql("INSERT INTO lk.db.target SELECT id, a * 2, s FROM lk.db.source WHERE a > 0")


def by_write_to(spark: SparkSession, catalog: Catalog, target: Table, checkpoint: str) -> None:
    doubled(spark.table("lk.db.source")).writeTo("lk.db.target").append()


@pytest.mark.parametrize("way", [by_stream, by_function, by_batch, by_insert, by_write_to])
def test_a_commit_names_the_lineage_of_its_fields(
    way: Callable[[SparkSession, Catalog, Table, str], None], spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    target = catalog.load_table("db.target")
    way(spark, catalog, target, str(tmp_path / "checkpoint"))
    (document,) = documents(target)
    assert edges(document) == DOUBLED
    assert document is not None
    assert document.ids == {"id": 0, "a": 1, "s": 2}
    (source,) = document.sources
    assert source.uuid == catalog.load_table("db.source").store.uuid
    assert [(one.name, one.id) for one in source.columns] == [("id", 0), ("a", 1), ("s", 2)]


def test_a_changed_program_is_seen_from_its_first_batch_on(
    spark: SparkSession, catalog: Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed: list[DataFrame] = []

    def noted(rows: DataFrame, *, stitch: BatchStitch | None = None) -> PlanFields:
        analysed.append(rows)
        return plan_fields_of(rows, stitch=stitch)

    monkeypatch.setattr(batch_fields, "plan_fields_of", noted)
    source, target = (catalog.load_table(name) for name in ("db.source", "db.target"))
    sink = LakelogSink(target)
    expressions = ["a * 2", "a * 2", "id + a", "id + a"]

    def function(batch: DataFrame, number: int) -> None:
        sink(batch.selectExpr("id", f"{expressions[number]} AS a", "s"), number)

    rows = spark.readStream.format("lakelog").load(source.path)
    query = rows.writeStream.foreachBatch(function).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    inputs: list[set[str]] = []
    for number in range(len(expressions)):
        if number:
            source.write(pa.table({"id": [number], "a": [number], "s": ["z"]}))
        query.processAllAvailable()
        (document,) = documents(target)
        inputs.append({start for start, end, _ in edges(document) if end == "a"})
    query.stop()
    assert inputs == [{"source.a"}, {"source.a"}, {"source.id", "source.a"}, {"source.id", "source.a"}]
    assert len(analysed) == 2  # once for each program


def test_an_update_and_a_merge_name_what_they_assign(spark: SparkSession, catalog: Catalog) -> None:
    target = catalog.load_table("db.target")
    target.write(pa.table({"id": [1], "a": [0], "s": ["-"]}))
    spark.sql("UPDATE lk.db.target SET a = id + 1 WHERE s = '-'")
    (document,) = documents(target)
    assert edges(document) == {("target.id", "a", "TRANSFORMATION"), ("target.s", "*", "FILTER")}
    spark.sql(
        "MERGE INTO lk.db.target t USING lk.db.source s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET a = s.a WHEN NOT MATCHED THEN INSERT *"
    )
    (document,) = documents(target)
    assert edges(document) == {
        ("source.id", "id", "IDENTITY"),
        ("source.a", "a", "IDENTITY"),
        ("source.s", "s", "IDENTITY"),
        ("source.id", "*", "JOIN"),
        ("target.id", "*", "JOIN"),
    }


def test_what_is_declared_stands_in_place_of_the_plan(spark: SparkSession, catalog: Catalog, tmp_path: Path) -> None:
    target = catalog.load_table("db.target")
    declared = made_from(target, "db.source@1", fields={"a": "db.source.id"})
    expected = {("source.id", "a", "TRANSFORMATION")}
    write(doubled(spark.table("lk.db.source")), declared)
    assert [edges(one) for one in documents(target)] == [expected]
    by_stream(spark, catalog, declared, str(tmp_path / "checkpoint"))
    assert [edges(one) for one in documents(target)] == [expected]
    by_batch(spark, catalog, made_from(target, "db.source@1"), "")  # what is only taken to be so does not
    assert [edges(one) for one in documents(target)] == [DOUBLED]


def test_a_write_by_the_format_takes_columns_of_one_name_and_says_so(
    spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    source, target = catalog.load_table("db.source"), catalog.load_table("db.target")
    same = {(f"source.{name}", name, "TRANSFORMATION") for name in ("id", "a", "s")}
    rows = spark.read.format("lakelog").load(source.path)
    rows.write.format("lakelog").mode("append").option("lineage.sources", "db.source@1").save(target.path)
    (document,) = documents(target)
    assert edges(document) == same
    assert document is not None
    assert document.is_approximate
    write(spark.createDataFrame([(1, 2, "x")], "id BIGINT, a BIGINT, s STRING"), target, sources=["db.source@1"])
    assert [edges(one) for one in documents(target)] == [same]
    stream = spark.readStream.format("lakelog").load(source.path).writeStream.format("lakelog")
    query = stream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "c")).start(target.path)
    assert query.awaitTermination(120)
    assert [edges(one) for one in documents(target)] == [same]


def test_a_merge_of_a_dataframe_follows_its_rows(spark: SparkSession, catalog: Catalog) -> None:
    target = catalog.load_table("db.target")
    target.write(pa.table({"id": [1], "a": [0], "s": ["-"]}))
    merge(doubled(spark.table("lk.db.source")), target).when_matched_update({"a": pl.sql_expr("source.a")}).execute()
    (document,) = documents(target)
    assert edges(document) == {
        ("source.a", "a", "TRANSFORMATION"),
        ("source.a", "*", "FILTER"),
        ("source.id", "*", "JOIN"),
        ("target.id", "*", "JOIN"),
    }


@pytest.mark.parametrize("is_stream", [False, True])
def test_rows_that_are_counted_keep_an_edge_to_their_dataset(
    is_stream: bool, spark: SparkSession, catalog: Catalog, tmp_path: Path
) -> None:
    target = catalog.load_table("db.target")
    if is_stream:
        rows = spark.readStream.format("lakelog").load(catalog.load_table("db.source").path)
        counted = rows.selectExpr("1L AS one").groupBy().count().selectExpr("1L AS id", "count AS a", "'-' AS s")
        query = write_stream(
            counted, target, checkpoint_location=tmp_path / "c", available_now=True, output_mode="update"
        )
        assert query.awaitTermination(120)
    else:
        spark.sql("INSERT INTO lk.db.target SELECT 1, count(*), '-' FROM lk.db.source")
    (document,) = documents(target)
    assert document is not None
    assert edges(document) == set()
    assert document.reads == (Dataset("db", "source"),)
    (read, *_, written) = document.operations
    assert (read.kind, read.dataset, written.kind) == (OperationKind.READ, Dataset("db", "source"), OperationKind.WRITE)
    rows_found = fields(catalog, "db.target").to_arrow().to_pylist()
    assert [(row["source_dataset"], row["source_field"], row["kinds"]) for row in rows_found] == [
        ("source", "*", ["ROWS"])
    ]


def test_statements_that_differ_in_constants_have_one_lineage(spark: SparkSession, catalog: Catalog) -> None:
    target = catalog.load_table("db.target")
    found: list[tuple[str, str]] = []
    for day in (1, 2, 3, 1):
        spark.sql(f"INSERT INTO lk.db.target SELECT id, a + {day}, concat(s, 'it''s {day}') FROM lk.db.source")
        (document,) = documents(target)
        assert document is not None
        texts = {one.name: one.description for one in document.lineage.fields}
        found.append((texts["a"], texts["s"]))
    first = ("(a + CAST(1 AS LONG))", "concat(s, 'it''s 1')")
    assert found == [first, *[("(a + CAST(? AS LONG))", "concat(s, ?)")] * 2, first]
    assert len(list((Path(target.path) / "lakelog" / "fields").iterdir())) == 2


@pytest.mark.parametrize("key", ["'abcdefghijklmnop'", "concat('abcdefgh', 'ijklmnop')"])
def test_keys_in_a_statement_are_not_in_its_lineage(key: str, spark: SparkSession, catalog: Catalog) -> None:
    target = catalog.load_table("db.target")
    spark.sql(f"INSERT INTO lk.db.target SELECT id, a, base64(aes_encrypt(s, {key})) FROM lk.db.source")
    (document,) = documents(target)
    assert document is not None
    (text,) = (one.description for one in document.lineage.fields if one.name == "s")
    assert text.startswith("base64(aes_encrypt(CAST(s AS BINARY), CAST(")
    for path in (Path(target.path) / "lakelog" / "fields").iterdir():
        assert "abcdefgh" not in path.read_text()
        assert "ijklmnop" not in path.read_text()


def test_a_table_may_record_no_fields(spark: SparkSession, catalog: Catalog) -> None:
    catalog.load_table("db.target").alter(SetOption("lineage.fields", "false"))
    target = catalog.load_table("db.target")
    write(doubled(spark.table("lk.db.source")), target)
    assert documents(target) == []
    assert not (Path(target.path) / "lakelog" / "fields").exists()
