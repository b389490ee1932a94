"""Tails and ranges of a log on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from lakelog.common.errors import CorruptDataError, StalledError
from lakelog.common.types import RowKind
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.logstore.kafka.records.reader import read_range
from tests.support.logs.log_topics import FIELDS, LogTopic, leave_open, log_topic, records, write

pytestmark = pytest.mark.integration


@pytest.fixture
def topic(bootstrap_servers: str) -> Iterator[LogTopic]:
    with log_topic(bootstrap_servers) as topic:
        yield topic
    close_idle_consumers()


def test_a_range_holds_rows_kinds_and_offsets_over_the_gaps_of_control_records(topic: LogTopic) -> None:
    with topic.producer() as producer:
        write(producer, [1, 2])
        producer.begin()
        kinds = [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]
        producer.produce(records([3, 3, 4], kinds), b"second")
        end = producer.commit()

    assert [(row["id"], row["_row_kind"], row["_offset"]) for row in topic.rows(0, end)] == [
        (1, 0, 0),
        (2, 0, 1),
        (3, 1, 3),
        (3, 2, 3),
        (4, 3, 4),
    ]


def test_ranges_that_meet_hold_every_record_once(topic: LogTopic) -> None:
    with topic.producer() as producer:
        ends = [write(producer, range(number * 10, number * 10 + number + 1)) for number in range(5)]
    after = ends[-1] + 1
    expected = topic.ids(0, after)

    assert len(expected) == 15
    for cut in range(after + 1):
        assert topic.ids(0, cut) + topic.ids(cut, after) == expected
    assert topic.ids(3, 3) == []


def test_a_range_may_be_read_as_soon_as_its_commit_has_returned(topic: LogTopic) -> None:
    with topic.producer() as producer:
        start = 0
        for number in range(25):  # the last stable offset lags in about every second look
            end = write(producer, [number])
            assert topic.ids(start, end) == [number]
            start = end


def test_aborted_records_are_never_seen(topic: LogTopic) -> None:
    expected = []
    end = 0
    for number in range(6):
        with topic.producer() as producer:
            if number % 2:
                leave_open(producer, [100 + number])
            else:
                end = write(producer, [number])
                expected.append(number)

    assert topic.ids(0, end) == expected
    assert [found.record_count for found in topic.tail().transactions] == [1, 1, 1]


def test_a_tail_begins_at_its_base_and_an_empty_one_is_empty(topic: LogTopic) -> None:
    with topic.producer() as producer:
        first_end = write(producer, [1], b"a")
        second_end = write(producer, [2, 3], b"b")

    tail = topic.tail(first_end)
    assert [(found.header, found.first_offset, found.end_offset) for found in tail.transactions] == [
        (b"b", 2, second_end)
    ]
    assert tail.high_watermark == second_end + 1
    assert tail.leader_epoch == 0
    for base in (second_end, second_end + 1):
        assert topic.tail(base).transactions == ()


def test_a_tail_behind_another_producers_open_transaction_stalls_by_name(topic: LogTopic) -> None:
    with topic.producer("foreign") as foreign, topic.producer() as producer:
        leave_open(foreign, [1])
        write(producer, [2])

        with pytest.raises(
            StalledError, match=f"topic {topic.name}, partition 0: nothing committed came after"
        ) as caught:
            topic.tail(timeout_seconds=1)
        assert "transaction.timeout.ms" in str(caught.value)
        with pytest.raises(StalledError):
            topic.ids(0, 2, timeout_seconds=1)

        foreign.commit()
        assert [found.header for found in topic.tail().transactions] == [b"open", b"header"]


def test_a_record_that_is_not_lakelogs_is_named(topic: LogTopic) -> None:
    producer = Producer({**topic.client_config})
    producer.produce(topic.name, b"{}", partition=0)
    producer.flush(10)

    with pytest.raises(CorruptDataError, match="partition 0: the record at offset 0 belongs to no transaction"):
        topic.tail()
    with pytest.raises(CorruptDataError, match=f"topic {topic.name}, partition 0, offset 0 has the op None"):
        topic.rows(0, 1)


def test_offsets_that_the_log_does_not_hold_are_named(topic: LogTopic) -> None:
    with topic.producer() as producer:
        end = write(producer, range(10))
    admin = AdminClient({**topic.client_config})
    for future in admin.delete_records([TopicPartition(topic.name, 0, 4)]).values():
        future.result(10)

    truncated = rf"topic {topic.name}, partition 0 does not hold offset 2, it holds \[4, {end + 1}\)"
    with pytest.raises(LogTruncatedError, match=truncated):
        topic.ids(2, end)
    with pytest.raises(LogTruncatedError, match=truncated):
        topic.tail(2)
    with pytest.raises(LogTruncatedError, match=f"does not hold offset {end + 9}"):
        topic.tail(end + 9)
    with pytest.raises(LogTruncatedError, match=rf"does not hold the records before offset {end + 9}, it holds \[4,"):
        topic.ids(5, end + 9, timeout_seconds=1)
    assert topic.ids(4, end) == list(range(4, 10))


def test_a_range_comes_in_batches_and_may_be_left_early(topic: LogTopic) -> None:
    with topic.producer() as producer:
        end = write(producer, range(50_000))

    with closing(read_range(topic.partition(0), FIELDS, start=0, end=end, batch_rows=1_000)) as batches:
        first = next(batches)

    assert 1_000 <= first.num_rows < 50_000
    assert first.schema.names == ["id", "_row_kind"]
    assert topic.ids(49_990, end) == list(range(49_990, 50_000))
