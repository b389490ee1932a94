"""A log that was cut and went on with other records is noticed by its leader epochs, by writers and by readers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.arrow import to_arrow_schema
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.errors import LogRewrittenError
from lakelog.logstore.kafka.clients.offsets import Position, high_watermark
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.logstore.kafka.records.epochs import check_not_rewritten
from lakelog.logstore.kafka.records.tail import read_tail
from lakelog.protocol.state.state import LogPosition
from lakelog.protocol.stores.table_states import read_state
from lakelog.protocol.upkeep.log_check import repair_log
from lakelog.spark.options import parse_read_options
from lakelog.spark.source.reading.input_partitions import TableRows
from lakelog.spark.source.reading.read_schema import read_schema
from lakelog.spark.tables import find_older_topic
from lakelog.streams.planner import StreamPlanner
from lakelog.streams.reading.admission import NO_LIMITS
from lakelog.streams.reading.offsets import LogOffset, Offset
from tests.support.logs.local_writer import LocalWriter, log_target
from tests.support.logs.log_records import lose_records
from tests.support.logs.log_topics import LogTopic, log_topic
from tests.support.logs.log_topics import write as write_ids

pytestmark = pytest.mark.integration

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False)])
OPTIONS = {"bucket": "1", "log.system": "kafka", "log.changelog-mode": "all", "changelog-producer": "lookup"}
ADVICE = r"unclean election.*lakelog log renew TABLE.*start writers and streams again with their checkpoints"


@pytest.fixture(autouse=True)
def no_idle_consumers() -> Iterator[None]:
    yield
    close_idle_consumers()


def table_of(folder: Path, bootstrap_servers: str) -> Table:
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    return catalog.create_table("db.t", schema=COLUMNS, primary_keys=["id"], options=OPTIONS)


def write(writer: LocalWriter, identifier: int, *ids: int) -> None:
    schema = to_arrow_schema(writer.table.schema.fields)
    writer.write(identifier, pa.table({"id": list(ids)}, schema=schema), pa.array([0] * len(ids), pa.int8()))


def position(table: Table) -> LogPosition:
    store = table.store
    return read_state(store, store.snapshots.latest(), topic_id=log_target(table).topic_id).logged.position(0)


def ids_behind(table: Table, offset: Offset) -> list[int]:
    """What a stream that starts again at an offset reads, to the end."""
    options = parse_read_options({}, table)
    find_topic = partial(find_older_topic, table)
    planner = StreamPlanner(table.store, log_target(table), options, find_topic=find_topic)
    schema = read_schema(table.schema, options, table_name=table.name)
    rows = TableRows.of(table.store, log_target(table), schema, options)
    found: list[int] = []
    while (end := planner.end_of_batch(offset, NO_LIMITS)) != offset:
        for part in planner.parts(offset, end):
            found += [one for batch in rows.rows(part) for one in batch.column("id").to_pylist()]
        offset = end
    return sorted(found)


def planner_of(table: Table) -> StreamPlanner:
    return StreamPlanner(table.store, log_target(table), parse_read_options({}, table))


def test_a_log_is_the_same_up_to_the_end_of_an_epoch_and_not_behind_it(bootstrap_servers: str) -> None:
    with log_topic(bootstrap_servers) as topic, topic.producer() as producer:
        write_ids(producer, [1, 2, 3])
        end = high_watermark(topic.partition(0))
        for offset in (0, 1, end.offset):
            check(topic, Position(offset=offset, leader_epoch=end.leader_epoch))
        check(topic, Position(offset=end.offset + 9, leader_epoch=None))

        with pytest.raises(LogRewrittenError, match=ADVICE):
            check(topic, Position(offset=end.offset + 9, leader_epoch=end.leader_epoch))
        with pytest.raises(LogRewrittenError, match=ADVICE):
            read_tail(topic.partition(0), 3, known=Position(offset=3, leader_epoch=7))


def check(topic: LogTopic, known: Position) -> None:
    check_not_rewritten(topic.partition(0), known)


def test_a_position_holds_the_epoch_of_its_log(tmp_path: Path, bootstrap_servers: str) -> None:
    table = table_of(tmp_path, bootstrap_servers)
    write(LocalWriter(table, "a"), 0, 1)
    write(LocalWriter(table, "b"), 0, 2)  # a new process: it asks where the log is

    at = position(table)
    assert (at.leader_epoch, at.epoch_offset) == (0, 2)


def test_a_reader_asks_when_another_leader_has_taken_over(tmp_path: Path, bootstrap_servers: str) -> None:
    table = table_of(tmp_path, bootstrap_servers)
    writer = LocalWriter(table, "a")
    write(writer, 0, 1)
    first = planner_of(table).end_of_batch(planner_of(table).initial(), NO_LIMITS)
    assert isinstance(first, LogOffset)
    write(writer, 1, 2)
    second = planner_of(table).end_of_batch(first, NO_LIMITS)
    assert isinstance(second, LogOffset)
    assert second.epochs == {0: 0}

    lost = LogOffset(
        topic_id=second.topic_id, offsets=second.offsets, counts=second.counts, consumed=2, epochs={0: 7}
    )  # of a leader that is no longer known
    with pytest.raises(LogRewrittenError, match=ADVICE):
        planner_of(table).end_of_batch(lost, NO_LIMITS)


def test_an_epoch_whose_records_are_deleted_is_no_error(bootstrap_servers: str, tmp_path: Path) -> None:
    table = table_of(tmp_path, bootstrap_servers)
    write(LocalWriter(table, "a"), 0, 1, 2)
    target = log_target(table)
    lose_records(table)

    check_not_rewritten(target.topic.partition(0), Position(offset=2, leader_epoch=0))


@pytest.mark.full
def test_a_restart_of_the_broker_is_no_alarm_and_a_log_that_was_cut_is_one(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "kafka")
    try:
        table = table_of(tmp_path, broker.start().bootstrap_servers)
        write(LocalWriter(table, "a"), 0, 1)
        broker.stop()
        [data] = (tmp_path / "kafka").rglob(f"{log_target(table).topic.name}-0")
        shutil.copytree(data, tmp_path / "older")
        broker.start()
        write(LocalWriter(table, "b"), 0, *range(10, 20))  # in another epoch, which is no alarm
        write(LocalWriter(table, "c"), 0, 20)
        planner = planner_of(table)
        first = planner.end_of_batch(planner.initial(), NO_LIMITS)
        write(LocalWriter(table, "d"), 0, 21)
        read = planner_of(table).end_of_batch(first, NO_LIMITS)

        broker.stop()  # a leader without the newest records takes over, and others are written in their place
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "older", data)
        broker.start()
        target = log_target(table)
        topic = LogTopic(client_config=target.topic.client_config, name=target.topic.name)
        with topic.producer() as producer:
            write_ids(producer, range(100))

        with pytest.raises(LogRewrittenError, match=ADVICE):
            write(LocalWriter(table, "d"), 1, 22)
        with pytest.raises(LogRewrittenError, match=ADVICE):
            planner_of(table).end_of_batch(read, NO_LIMITS)
        assert table.log is not None
        [bucket] = repair_log(table.store, table.log).left
        assert "lakelog log renew" in (bucket.problem or "")

        renewed = open_table(table.path).log_store.renew(keep_topic=True, force=True)
        write(LocalWriter(renewed, "e"), 0, 23)
        assert ids_behind(renewed, first) == [21, 23]
        assert ids_behind(renewed, read) == [23]
    finally:
        broker.stop()
