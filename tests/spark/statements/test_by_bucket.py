"""Tasks work out merges and updates, each for buckets of its own; the driver sees no row."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.write import changing, merge_statement
from lakelog.spark import attach, detach, merge
from lakelog.spark.statements.by_bucket import Changes
from lakelog.spark.statements.frame_merge import FrameMerge

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
Rows = dict[int, str]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of 40 rows in 8 buckets."""
    made = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["k"], options={"bucket": "8"})
    made.write(pa.table({"k": range(40), "v": [f"old {key}" for key in range(40)]}, schema=SCHEMA))
    return made


def rows_in(table: Table) -> Rows:
    found = table.to_arrow().to_pylist()
    rows = {row["k"]: row["v"] for row in found}
    assert len(rows) == len(found)
    return rows


def source(spark: SparkSession, start: int, end: int) -> DataFrame:
    return spark.range(start, end).select(sf.col("id").alias("k"), sf.concat(sf.lit("new "), "id").alias("v"))


def refuse_rows_in_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of frames, and those of the table, fail in this process; tasks have processes of their own."""
    read = changing.rows_of

    def refused(table: object, snapshot: Snapshot | None, **which: object) -> pa.Table:
        assert snapshot is None, "the driver reads the rows of the table"
        return read(table, snapshot, **which)  # type: ignore[arg-type]  # as it was called

    def fail(_frame: DataFrame) -> pa.Table:
        raise AssertionError("the rows come to the driver")

    monkeypatch.setattr(merge_statement, "rows_of", refused)
    monkeypatch.setattr("pyspark.sql.classic.dataframe.DataFrame.toArrow", fail)


def test_a_merge_brings_no_row_to_the_driver(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    clauses = merge(source(spark, 30, 50), table).when_matched_delete("source.k = 31").when_matched_update_all()
    clauses = clauses.when_not_matched_insert_all("source.k <> 45").when_not_matched_by_source_delete("k < 10")
    refuse_rows_in_the_driver(monkeypatch)
    snapshot = clauses.execute()

    assert snapshot is not None
    old, new = ({key: f"{of} {key}" for key in range(50)} for of in ("old", "new"))
    kept = {key: old[key] for key in range(10, 30)}
    assert rows_in(table) == kept | {key: new[key] for key in range(30, 50) if key not in (31, 45)}


def test_a_merge_without_source_rows_still_sees_the_rows_that_nothing_matches(
    spark: SparkSession, table: Table
) -> None:
    merge(source(spark, 0, 0), table).when_not_matched_by_source_delete("k <> 7").execute()

    assert rows_in(table) == {7: "old 7"}


def test_a_merge_that_changes_nothing_makes_no_snapshot(spark: SparkSession, table: Table) -> None:
    assert merge(source(spark, 90, 99), table).when_matched_delete().execute() is None


def test_the_driver_works_out_rows_that_change_their_bucket(spark: SparkSession, table: Table) -> None:
    moved = {"k": pl.sql_expr("source.k + 100"), "v": pl.sql_expr("source.v")}
    merge(source(spark, 38, 44), table).when_not_matched_insert(moved).execute()

    assert rows_in(table).keys() == set(range(40)) | set(range(140, 144))


def test_the_driver_works_out_matches_by_other_columns(spark: SparkSession, table: Table) -> None:
    same = spark.createDataFrame([("old 3",), ("old 4",)], "v STRING")
    merge(same, table, on="v").when_matched_delete().execute()

    assert rows_in(table).keys() == set(range(40)) - {3, 4}


def test_a_merge_is_worked_out_again_after_another_commit(
    spark: SparkSession, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, bases = FrameMerge._plan, []

    def planned(self: FrameMerge, base: Snapshot | None) -> tuple[DataFrame, Changes]:
        bases.append(base)
        if len(bases) == 1:  # a writer that comes first
            table.write(pa.table({"k": [45], "v": ["other"]}, schema=SCHEMA))
        return plan(self, base)

    monkeypatch.setattr(FrameMerge, "_plan", planned)
    insert = merge(source(spark, 44, 47), table).when_not_matched_insert_all()
    insert.execute()

    assert len(bases) == 2
    assert {key: row for key, row in rows_in(table).items() if key >= 40} == {44: "new 44", 45: "other", 46: "new 46"}


def test_a_refused_merge_leaves_no_file(spark: SparkSession, table: Table, tmp_path: Path) -> None:
    twice = source(spark, 0, 8).union(source(spark, 5, 6))
    before = sorted(tmp_path.rglob("bucket-*/*"))

    with pytest.raises(InvalidRequestError, match="several rows of the merge match one row"):
        merge(twice, table).when_matched_update_all().execute()
    assert sorted(tmp_path.rglob("bucket-*/*")) == before


def test_statements_of_sql_bring_no_row_to_the_driver(
    spark: SparkSession, table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_rows_in_the_driver(monkeypatch)
    attach(spark, "by_bucket", tmp_path)
    try:
        spark.sql("UPDATE by_bucket.db.t SET v = concat(v, '!') WHERE k % 2 = 0 AND k < 10")
        spark.sql("DELETE FROM by_bucket.db.t WHERE k % 2 = 1 AND k > 10")
        spark.sql(
            "MERGE INTO by_bucket.db.t AS t USING (SELECT id AS k, 'new' AS v FROM range(38, 41)) AS s ON t.k = s.k"
            " WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
        )
    finally:
        detach(spark, "by_bucket")

    even = {key: f"old {key}!" if key < 10 else f"old {key}" for key in range(0, 38, 2)}
    odd = {key: f"old {key}" for key in range(1, 11, 2)}
    assert rows_in(table) == even | odd | {38: "new", 39: "new", 40: "new"}
