"""The records of a foreign topic, read from a real broker as Spark would ask for them."""

from __future__ import annotations

import time
from typing import Any  # Any: offsets are JSON objects

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import delete_records, delete_topic
from lakelog.spark.source.streams.kafka_records import KafkaRecords, RangePartition, RecordsReader
from tests.support.logs.foreign_topics import Record, fill, new_topic

pytestmark = pytest.mark.integration
ALL = ReadAllAvailable()


def reader_of(topic: KafkaTopic, **settings: Any) -> RecordsReader:
    return RecordsReader(KafkaRecords(client_config=topic.client_config, topic=topic.name, **settings))


def read(reader: RecordsReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[Any, ...]]:
    rows = []
    for partition in reader.partitions(start, end):
        for batch in reader.read(partition):
            columns = [batch.column(name).to_pylist() for name in ("partition", "offset", "key", "value")]
            rows += list(zip(*columns, strict=True))
    return rows


def records(count: int, first: int = 0) -> list[Record]:
    return [(b"k%d" % number, b"v%d" % number) for number in range(first, first + count)]


def test_a_stream_reads_every_record_once_in_batches(bootstrap_servers: str) -> None:
    topic = new_topic(bootstrap_servers, partitions=2)
    fill(topic, [*records(10), (None, None)], partition=0)
    fill(topic, records(4, first=50), partition=1)
    reader = reader_of(topic)
    reader.prepareForTriggerAvailableNow()
    fill(topic, records(1, first=99), partition=0)  # later than now

    begin = reader.initialOffset()
    start = reader.latestOffset(begin, ReadMaxRows(6))
    assert reader.partitions(begin, start) == []
    rows, offsets = [], start
    while (end := reader.latestOffset(offsets, ReadMaxRows(6))) != offsets:
        rows += read(reader, offsets, end)
        offsets = end

    expected = [(0, at, key, value) for at, (key, value) in enumerate([*records(10), (None, None)])]
    expected += [(1, at, key, value) for at, (key, value) in enumerate(records(4, first=50))]
    assert sorted(rows, key=lambda row: row[:2]) == expected


def test_a_stream_that_begins_with_the_latest_reads_what_comes_then(bootstrap_servers: str) -> None:
    topic = new_topic(bootstrap_servers)
    fill(topic, records(3))
    reader = reader_of(topic, starting_offsets="latest")

    start = reader.latestOffset(reader.initialOffset(), ALL)
    fill(topic, records(1, first=7))
    end = reader_of(topic).latestOffset(start, ALL)

    assert [row[3] for row in read(reader, start, end)] == [b"v7"]


def test_deleted_records_are_an_error_or_are_left_out(bootstrap_servers: str) -> None:
    topic = new_topic(bootstrap_servers)
    fill(topic, records(10))
    reader = reader_of(topic)
    start = reader.latestOffset(reader.initialOffset(), ALL)
    end = reader.latestOffset(start, ALL)
    delete_records(topic, {0: 4})

    with pytest.raises(LogTruncatedError, match="4 offsets were deleted before they were read"):
        reader.partitions(start, end)
    with pytest.raises(LogTruncatedError, match="begins at offset 4"):
        list(reader.read(RangePartition("id", 0, 0, 10)))
    assert [row[1] for row in read(reader_of(topic, fails_on_data_loss=False), start, end)] == [4, 5, 6, 7, 8, 9]


def look_until_it_is_deleted(topic: KafkaTopic, start: dict[str, Any]) -> None:
    """The broker may show a topic for a while after its answer."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        reader_of(topic).latestOffset(start, ALL)


def test_another_topic_of_the_name_is_refused(bootstrap_servers: str) -> None:
    topic = new_topic(bootstrap_servers)
    reader = reader_of(topic)
    start = reader.latestOffset(reader.initialOffset(), ALL)
    delete_topic(topic)
    with pytest.raises(NotFoundError):
        look_until_it_is_deleted(topic, start)
    new_topic(bootstrap_servers, name=topic.name)

    with pytest.raises(CorruptDataError, match="deleted and created again"):
        reader_of(topic).latestOffset(start, ALL)
