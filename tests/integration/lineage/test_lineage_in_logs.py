"""Lineage in a log: the header of a batch has it, and a writer that takes the batch in keeps it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import UnavailableError
from lakelog.filestore.metadata.origins.record import TableSource, batches_of
from lakelog.lineage.columns.field_store import find_document
from lakelog.lineage.records.sources import version_of
from lakelog.protocol.state.steps import Step
from lakelog.spark import write_stream
from lakelog.spark.sink import batch_write
from tests.support.lineage.living_edges import edges_of
from tests.support.logs.promises import read_headers

pytestmark = [pytest.mark.integration, pytest.mark.full]

SCHEMA = pa.schema([pa.field("job", pa.string(), nullable=False), pa.field("id", pa.int64(), nullable=False)])


def make(catalog: Catalog, name: str) -> Table:
    options = {"bucket": "2", "log.system": "kafka", "write-only": "true"}
    return catalog.create_table(f"db.{name}", schema=SCHEMA, primary_keys=["job", "id"], options=options)


def run(spark: SparkSession, source: Table, sink: Table, folder: Path, job: str) -> None:
    rows = spark.readStream.format("lakelog").load(source.path).withColumn("job", sf.lit(job))
    query = write_stream(rows, sink, checkpoint_location=folder / job, available_now=True, job=job)
    query.awaitTermination()


def test_a_batch_that_another_writer_takes_in_keeps_what_its_header_says(
    spark: SparkSession, tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    source, sink = make(catalog, "source"), make(catalog, "sink")
    source.write(pa.table({"job": ["s"] * 20, "id": list(range(20))}, schema=SCHEMA))
    run(spark, source, sink, tmp_path, "one")
    source.write(pa.table({"job": ["s"] * 20, "id": list(range(20, 40))}, schema=SCHEMA))

    def fail(found: Step, user: str, identifier: int, bucket: int | None) -> None:
        if found is Step.BEFORE_SNAPSHOT:
            raise UnavailableError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(batch_write, "process_observer", lambda: fail)
        with pytest.raises(StreamingQueryException, match="killed"):
            run(spark, source, sink, tmp_path, "one")  # its records are in the log, and no snapshot has them
    run(spark, source, sink, tmp_path, "two")
    run(spark, source, sink, tmp_path, "one")

    batches = [(snapshot.id, batch) for snapshot in sink.snapshots() for batch in batches_of(snapshot)]
    taken = [batch for snapshot_id, batch in batches if snapshot_id == 2 and batch.lineage.job == "one"]
    (left,) = taken  # with the batch of the other writer, in its snapshot
    (read,) = left.lineage.sources
    assert isinstance(read, TableSource)
    assert (read.table, read.start, read.end, read.is_exact) == ("db.source", one(source, 1), one(source, 2), True)
    headers = [header for _, header in read_headers(sink) if (header.user, header.identifier) == (left.user, 1)]
    assert {header.lineage["job"] for header in headers} == {"one"}
    assert [header.lineage["sources"] for header in headers] == [[read.to_json()]] * len(headers)
    (checksum,) = left.lineage.fields
    assert [header.lineage["fields"] for header in headers] == [[checksum]] * len(headers)
    document = find_document(sink.store, checksum)
    assert document is not None
    assert {field.name: len(field.edges) for field in document.lineage.fields} == {"job": 0, "id": 1}
    edges = [(edge["job"], edge["barrier_id"], edge["source_to"]) for edge in edges_of(sink).to_pylist()]
    assert sorted(edges) == [("one", 0, 1), ("one", 1, 2), ("two", 0, 2)]


def one(table: Table, number: int) -> object:
    """A snapshot as a record names it."""
    (found,) = [snapshot for snapshot in table.snapshots() if snapshot.id == number]
    return version_of(found)
