"""The system tables of lineage beside a stream of Spark: fed before its snapshots expire, joined in SQL."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lakelog.spark
from lakelog.catalog import Catalog
from lakelog.lineage import feed, known_edges
from lakelog.spark import write_stream
from tests.support.lineage.lineage_records import LINEAGE_ON

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])
BATCHES = 4


@pytest.mark.full
def test_the_lineage_of_a_stream_is_fed_before_its_snapshots_expire(spark: SparkSession, tmp_path: Path) -> None:
    catalog = Catalog(tmp_path / "lake", options=LINEAGE_ON)
    source = catalog.create_table("db.a", schema=SCHEMA, primary_keys=["id"], options={"write-only": "true"})
    retained = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    sink = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=retained)
    feed(catalog)
    for value in range(BATCHES):
        source.write(pa.table({"id": [1, 2], "v": [value] * 2}, schema=SCHEMA))
        rows = spark.readStream.format("lakelog").load(source.path)
        query = write_stream(rows, sink, checkpoint_location=tmp_path / "checkpoint", available_now=True, job="copy")
        query.awaitTermination()
    assert sink.snapshots().__next__().id > 1, "nothing has expired"

    found = known_edges(catalog)

    assert sorted(found["barrier_id"].to_pylist()) == list(range(BATCHES))
    assert sorted(found["source_to"].to_pylist()) == [1, 2, 3, 4]
    feed(catalog)
    for name in ("source_snapshot_lineage", "sink_snapshot_lineage"):
        lakelog.spark.read(spark, f"sys.{name}", catalog=catalog).createOrReplaceTempView(name)
    joined = spark.sql(
        "SELECT s.table, s.snapshot_id, k.table FROM sink_snapshot_lineage k JOIN source_snapshot_lineage s "
        "ON s.job = k.job AND s.barrier_id = k.barrier_id WHERE s.snapshot_id = 3"
    )
    assert [tuple(row) for row in joined.collect()] == [("a", 3, "t")]
