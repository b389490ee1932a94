"""A broker that stops for a while and starts again costs a stream time, and nothing else."""

from __future__ import annotations

import logging
import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any  # Any: Spark takes tuples and batches

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import NotFoundError, UnavailableError
from lakelog.common.patience import Patience
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.kafka.clients import clients
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import delete_topic
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.protocol.access.table_log import TableLog, await_topic, kafka_topic
from lakelog.protocol.state.steps import Step
from lakelog.spark import write_stream
from lakelog.spark.data_source import LakelogDataSource
from lakelog.spark.options import parse_read_options
from lakelog.streams.planner import StreamPlanner
from lakelog.streams.reading.admission import NO_LIMITS
from lakelog.streams.reading.offsets import LogOffset, StartOffset
from tests.support.logs.changes import TABLE_SCHEMA, make_history
from tests.support.logs.local_writer import LocalWriter, log_target
from tests.support.logs.log_records import log_of_table
from tests.support.logs.promises import check_log_equals_files, fold_read_batches
from tests.support.streams.streams import changes_in, feed, keep_batch

pytestmark = pytest.mark.integration

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False)])
OPTIONS = {"bucket": "1", "log.system": "kafka", "log.changelog-mode": "all"}


SILENT = {"bootstrap.servers": "127.0.0.1:9"}


@pytest.fixture(autouse=True)
def short_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give brokers two seconds for an answer."""
    for module in ("clients.clients", "clients.offsets", "producers.writer", "records.consumer"):
        monkeypatch.setattr(f"lakelog.logstore.kafka.{module}.ANSWER_SECONDS", 2.0)
    yield
    close_idle_consumers()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(tmp_path / "kafka")
    yield broker
    broker.stop()


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    return table_of(tmp_path, bootstrap_servers)


def table_of(folder: Path, bootstrap_servers: str) -> Table:
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    return catalog.create_table("db.t", schema=COLUMNS, primary_keys=["id"], options=OPTIONS)


def write(writer: LocalWriter, identifier: int) -> None:
    schema = to_arrow_schema(writer.table.schema.fields)
    writer.write(identifier, pa.table({"id": [identifier]}, schema=schema), pa.array([0], pa.int8()))


def test_a_writer_rides_out_a_broker_that_restarts(tmp_path: Path, broker: EmbeddedBroker) -> None:
    table = table_of(tmp_path, broker.start().bootstrap_servers)
    fences = Counter[int]()

    def start_at_the_second_fence(step: Step, _user: str, identifier: int, _bucket: int | None) -> None:
        fences[identifier] += step is Step.FENCE
        if identifier == 1 and fences[1] == 2:
            broker.start()

    writer = LocalWriter(table, "a", observe=start_at_the_second_fence)
    write(writer, 0)
    broker.stop()
    write(writer, 1)

    assert fences[1] >= 2
    assert sorted(table.to_arrow()["id"].to_pylist()) == [0, 1]


class StartAtTheFirstWarning(logging.Handler):
    """Starts a broker when a stream says for the first time that it waits for it."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        super().__init__(logging.WARNING)
        self.broker = broker
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.warnings.append(record.getMessage())
        if len(self.warnings) == 1:
            self.broker.start()


@pytest.mark.full
def test_streams_start_while_their_broker_is_away(
    spark: SparkSession, tmp_path: Path, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.logstore.kafka.clients.topic.ask", partial(clients.ask, seconds=2.0))
    table = table_of(tmp_path, broker.start().bootstrap_servers)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0").write_text('{"id": 1}')
    running = broker.status()
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)
    starter = StartAtTheFirstWarning(broker)
    logger = logging.getLogger("lakelog.log")
    logger.addHandler(starter)
    try:
        rows = spark.readStream.schema("id BIGINT").json(str(tmp_path / "in"))
        source = LakelogDataSource({"path": table.path})
        reader = source.streamReader(source.schema())
        start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
        assert reader.latestOffset(start, limit) == start
        query = write_stream(rows, table, checkpoint_location=tmp_path / "c", available_now=True)
        query.awaitTermination()
    finally:
        logger.removeHandler(starter)

    (warning,) = starter.warnings
    assert "is retried for 300 s: " in warning
    assert table.to_arrow()["id"].to_pylist() == [1]
    parts = reader.partitions(start, reader.latestOffset(start, limit))
    batches: list[Any] = [batch for part in parts for batch in reader.read(part)]
    assert [batch["id"].to_pylist() for batch in batches] == [[1]]


def test_an_impatient_stream_does_not_start_while_its_broker_is_away(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_of_table(table)
    asked: list[str] = []

    def never(topic: KafkaTopic) -> None:
        asked.append(topic.name)
        raise UnavailableError("no broker answers")

    monkeypatch.setattr("lakelog.logstore.kafka.clients.topic.describe_topic", never)
    log.unavailable_seconds = 0
    with pytest.raises(UnavailableError, match="no broker answers"):
        await_topic(log)
    assert asked == [log.topic]


def test_a_reader_asks_a_silent_broker_again_as_long_as_it_has_patience(table: Table) -> None:
    waits: list[float] = []
    clock = iter(range(0, 1_000, 10))
    log = log_of_table(table)
    patience = Patience(15, clock=lambda: next(clock), wait=waits.append)
    partition = KafkaTopic(client_config=SILENT, name=log.topic).partition(0)

    with pytest.raises(UnavailableError):
        list(read_range(partition, table.schema.fields, start=0, end=1, timeout_seconds=0.5, patience=patience))
    assert len(waits) == 2


def test_a_stream_has_nothing_to_read_while_its_broker_is_away_and_fails_in_the_end(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(LocalWriter(table, "a"), 0)
    options = parse_read_options({}, table)
    target = log_target(table)
    first = StreamPlanner(table.store, target, options).end_of_batch(StartOffset(start="full"), NO_LIMITS)
    assert isinstance(first, LogOffset)
    monkeypatch.setattr("lakelog.streams.phases.stream_head.last_stable_offsets", silent)

    assert StreamPlanner(table.store, target, options).end_of_batch(first, NO_LIMITS) == first
    impatient = StreamPlanner(table.store, replace(target, unavailable_seconds=0), options)
    with pytest.raises(UnavailableError):
        impatient.end_of_batch(first, NO_LIMITS)


def silent(*_asked: object) -> None:
    raise UnavailableError("no broker answers")


def check_until_it_fails(log: TableLog) -> None:
    while True:  # brokers hear of it a little later
        log.check_topic()


def test_the_error_of_a_deleted_topic_says_what_to_do(table: Table) -> None:
    log = log_of_table(table)
    delete_topic(kafka_topic(log))

    advice = r"names the right Kafka.*batch reads still show the snapshots.*lakelog log renew TABLE"
    with pytest.raises(NotFoundError, match=advice):
        check_until_it_fails(log)
    with pytest.raises(NotFoundError, match=advice):
        write(LocalWriter(table, "a"), 0)


@pytest.mark.full
def test_streams_ride_out_a_broker_that_is_away_for_longer_than_a_request_may_take(
    spark: SparkSession, tmp_path: Path
) -> None:
    broker = EmbeddedBroker(tmp_path / "kafka")
    try:
        catalog = Catalog(tmp_path / "lake", bootstrap_servers=broker.start().bootstrap_servers)
        table = catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=OPTIONS)
        history = make_history(3, files=4, changes_per_file=150, keys=60)
        feed(tmp_path, history, range(2))
        sink = write_stream(changes_in(spark, tmp_path), table, checkpoint_location=tmp_path / "job")
        sink.processAllAvailable()
        (tmp_path / "out").mkdir()
        rows = spark.readStream.format("lakelog").option("row-kind", "true").load(table.path)
        writer = rows.writeStream.foreachBatch(partial(keep_batch, tmp_path / "out"))
        source = writer.option("checkpointLocation", str(tmp_path / "reader")).start()
        source.processAllAvailable()

        broker.stop()
        feed(tmp_path, history, range(2, 4))
        assert not sink.awaitTermination(20)
        assert not source.awaitTermination(20)
        broker.start()

        sink.processAllAvailable()
        source.processAllAvailable()
        assert fold_read_batches(tmp_path / "out") == Counter(history.truths[-1])
        sink.stop()
        source.stop()
        check_log_equals_files(table)
    finally:
        broker.stop()
