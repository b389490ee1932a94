"""The end of a stream's query, as listeners and an OpenLineage receiver are told of it."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.lineage.openlineage import OpenLineageEmitter
from lakelog.spark import write_stream
from lakelog.spark.failures import BatchStoppedError, stopping_quietly
from tests.support.examples import rest_in_full
from tests.support.lineage.openlineage_schema import errors_of
from tests.support.servers.openlineage_receiver import running_receiver
from tests.support.servers.spark_cluster import wait_for

pytestmark = pytest.mark.integration

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())])


class Ended:
    def __init__(self, *, fails: bool = False) -> None:
        self.ends: list[BaseException | None] = []
        self._fails = fails

    def notify_commit_complete(self, identifier: int, snapshot_id: int, kind: str) -> None:
        pass

    def notify_end(self, error: BaseException | None) -> None:
        self.ends.append(error)
        if self._fails:
            raise RuntimeError("the listener is broken")


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Table, Table]:
    catalog = Catalog(tmp_path / "lake")
    options = {"write-only": "true", "bucket": "1"}
    source, sink = (
        catalog.create_table(f"db.{name}", schema=SCHEMA, primary_keys="id", options=options) for name in ("a", "t")
    )
    source.write(pa.table({"id": [1], "v": [7]}, schema=SCHEMA))
    return source, sink


def test_each_end_is_told_once_even_where_a_listener_is_broken(
    spark: SparkSession, tables: tuple[Table, Table], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, sink = tables
    rows = spark.readStream.format("lakelog").load(source.path)
    broken, told = Ended(fails=True), Ended()

    query = write_stream(rows, sink, checkpoint_location=tmp_path / "c", available_now=True, listeners=[broken, told])
    query.awaitTermination()
    query = write_stream(rows, sink, checkpoint_location=tmp_path / "c", listeners=[told])
    query.stop()

    assert (broken.ends, told.ends) == ([None], [None, None])
    assert [record.getMessage() for record in caplog.records if record.name == "lakelog.spark"][-1] == (
        "a listener of the commits of table db.t failed at the end of its query"
    )


@pytest.mark.parametrize(
    "passes_java_errors", rest_in_full([False, True], 1), ids=["plain session", "attached warehouse"]
)
def test_a_query_that_is_stopped_in_a_batch_has_not_failed(
    spark: SparkSession,
    tables: tuple[Table, Table],
    tmp_path: Path,
    passes_java_errors: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`attach` lets Py4J pass Java's exceptions on. Spark logs an error, at length, for each query that has failed."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    source, sink = tables
    rows = spark.readStream.format("lakelog").load(source.path)
    has_begun, told = tmp_path / "begun", Ended()

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        has_begun.touch()
        threading.Event().wait(60)
        yield from batches

    slowly = rows.select("id", "v").mapInArrow(slow, "id BIGINT, v BIGINT")
    query = write_stream(slowly, sink, checkpoint_location=tmp_path / "c", listeners=[told])
    monkeypatch.setattr(gateway.python_parameters, "propagate_java_exceptions", passes_java_errors)
    wait_for(has_begun.exists, 60)
    query.stop()

    assert query.exception() is None
    assert told.ends == [None]


def test_spark_takes_the_words_of_a_stopped_batch_for_an_interruption(spark: SparkSession) -> None:
    jvm, gateway = spark._jvm, spark.sparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    with pytest.raises(BatchStoppedError) as stopped, stopping_quietly():
        raise RuntimeError("An error occurred while calling o1.collect.\n: java.lang.InterruptedException\n\tat java")
    words = "An exception was raised by the Python Proxy. Return Message: " + "".join(
        traceback.format_exception(stopped.value)
    )
    judge = jvm.org.apache.spark.sql.execution.streaming.runtime.StreamExecution.isInterruptionException

    assert judge(jvm.py4j.Py4JException(words), spark._jsc.sc())
    assert not judge(jvm.py4j.Py4JException("Return Message: something else"), spark._jsc.sc())


def test_openlineage_gets_the_start_and_the_failure_of_a_query(
    spark: SparkSession, tables: tuple[Table, Table], tmp_path: Path
) -> None:
    source, sink = tables
    rows = spark.readStream.format("lakelog").load(source.path)
    with running_receiver() as receiver:
        emitter = OpenLineageEmitter(sink, config={"transport": {"type": "http", "url": receiver.url}})
        guarded = rows.where("v < 8 OR raise_error('no') IS NULL")
        query = write_stream(guarded, sink, checkpoint_location=tmp_path / "c", listeners=[emitter])
        query.processAllAvailable()
        source.write(pa.table({"id": [2], "v": [8]}, schema=SCHEMA))
        with pytest.raises(StreamingQueryException):
            query.awaitTermination()

    assert [event["eventType"] for event in receiver.events] == ["START", "FAIL"]
    assert [errors_of(event) for event in receiver.events] == [[], []]
    start, fail = receiver.events
    read = [(found["name"], found["facets"]["version"]["datasetVersion"]) for found in start["inputs"]]
    assert read == [(source.path, "1")]
    assert fail["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 1
    assert "USER_RAISED_EXCEPTION" in fail["run"]["facets"]["errorMessage"]["message"]
