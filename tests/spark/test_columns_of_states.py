"""Every read of Spark shows a named state in its own columns; streams have the newest ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # Any: options and keywords

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lakelog.spark
from lakelog.catalog import AddColumn, Catalog, DropColumn, RenameColumn, Table, UpdateColumnType
from lakelog.lineage import fields
from lakelog.spark import attach, detach

THEN = ["id", "a", "v"]
ROWS = [(1, 10, "one"), (2, 20, "two")]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Snapshot 1 has the tag `then`; later `v` was dropped and added as a number, and `a` renamed and widened."""
    catalog = Catalog(tmp_path / "lake")
    made = catalog.create_table("db.t", schema="id INT NOT NULL, a INT, v STRING", primary_keys="id")
    made.write(pa.table({"id": pa.array([1, 2], pa.int32()), "a": pa.array([10, 20], pa.int32()), "v": ["one", "two"]}))
    made.tags.create("then")
    for change in (DropColumn("v"), RenameColumn("a", "b"), UpdateColumnType("b", "BIGINT"), AddColumn("v", "INT")):
        made = made.alter(change)
    made.write(pa.table({"id": pa.array([3], pa.int32()), "b": [5_000_000_000], "v": [7]}))
    return catalog.load_table("db.t")


def shown(frame: DataFrame) -> tuple[list[str], list[tuple[Any, ...]]]:
    return frame.columns, sorted(tuple(row) for row in frame.collect())


def test_each_door_shows_a_state_in_its_columns(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    session = spark.newSession()
    attach(session, "lake", tmp_path / "lake")
    first = table.snapshot(tag="then")
    assert first is not None

    def load(**options: Any) -> DataFrame:
        return session.read.format("lakelog").options(**options).load(table.path)

    frames = {
        "load tag": load(tag="then"),
        "load snapshot": load(**{"scan.snapshot-id": first.id}),
        "load time": load(**{"scan.timestamp-millis": first.time_millis}),
        "load version": load(version="then"),
        "read": lakelog.spark.read(session, table, tag="then"),
        "AS OF version": session.sql("SELECT * FROM lake.db.t VERSION AS OF 1"),
        "AS OF tag": session.sql("SELECT * FROM lake.db.t VERSION AS OF 'then'"),
        "AS OF time": session.sql(f"SELECT * FROM lake.db.t TIMESTAMP AS OF timestamp_millis({first.time_millis})"),
        "WITH": session.sql("SELECT * FROM lake.db.t WITH (`scan.tag-name` = 'then')"),
        "system table": session.read.format("lakelog").option("tag", "then").load(f"{table.path}$ro"),
    }
    try:
        for name, frame in frames.items():
            if name != "system table":  # of which reads show what is compacted
                assert shown(frame) == (THEN, ROWS), name
            assert frame.columns == THEN, name
        assert shown(load(tag="then", columns="v,id", where="v = 'two'")) == (["v", "id"], [("two", 2)])
        assert shown(session.sql("SELECT v FROM lake.db.t VERSION AS OF 1 WHERE v > 'p' AND a = 20"))[1] == [("two",)]
        assert shown(session.sql("SELECT max(a), min(v), count(*) FROM lake.db.t VERSION AS OF 1"))[1] == [
            (20, "one", 2)
        ]
        joined = "SELECT t.v, o.v FROM lake.db.t t JOIN lake.db.t VERSION AS OF 1 o ON t.id = o.id WHERE t.id = 1"
        assert shown(session.sql(joined))[1] == [(None, "one")]
        assert shown(session.sql("SELECT * FROM lake.db.t")) == (
            ["id", "b", "v"],
            [(1, 10, None), (2, 20, None), (3, 5_000_000_000, 7)],
        )
    finally:
        detach(session, "lake")


@pytest.mark.full
def test_a_stream_from_a_state_has_the_newest_columns_or_says_how(
    spark: SparkSession, tmp_path: Path, table: Table
) -> None:
    found: list[Any] = []

    def run(frame: DataFrame, name: str) -> None:
        query = frame.writeStream.foreachBatch(lambda batch, _: found.extend(map(tuple, batch.collect())))
        query.option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True).start().awaitTermination()

    reader = spark.readStream.format("lakelog").option("tag", "then")
    with pytest.raises(Exception, match=r"newest columns.*\.schema\(spark\.read\.format"):
        run(reader.load(table.path), "refused")
    newest = spark.read.format("lakelog").load(table.path).schema
    run(reader.schema(newest).load(table.path), "given")
    assert sorted(found) == [(1, 10, None), (2, 20, None), (3, 5_000_000_000, 7)]
    with pytest.raises(Exception, match=r"newest columns.*\$audit_log'\)\.schema"):
        run(spark.readStream.format("lakelog").option("tag", "then").load(f"{table.path}$audit_log"), "audit")
    found.clear()
    run(reader.option("maxRowsPerTrigger", "100").load(table.path), "known as a stream")
    assert sorted(found) == [(1, 10, None), (2, 20, None), (3, 5_000_000_000, 7)]


def test_the_lineage_of_columns_names_those_of_the_state(spark: SparkSession, tmp_path: Path, table: Table) -> None:
    catalog = Catalog(tmp_path / "lake")
    target = catalog.create_table("db.target", schema="id INT NOT NULL, w STRING", primary_keys="id")
    rows = spark.read.format("lakelog").option("tag", "then").load(table.path).selectExpr("id", "v AS w")
    lakelog.spark.write(rows, target)
    named = fields(catalog, "db.target", "w").edges["source_field"].to_pylist()
    assert named == ["v (dropped, number 2)"]  # not the column that has this name now
