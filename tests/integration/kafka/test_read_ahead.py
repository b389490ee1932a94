"""The first records of several partitions, read at once from a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lakelog.logstore.kafka.clients.offsets import last_stable_offsets
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.logstore.kafka.records.read_ahead import Ahead, close_idle_topic_consumers, read_ahead
from lakelog.logstore.kafka.records.reader import read_range
from tests.support.logs.kafka_clients import count_consumers
from tests.support.logs.log_topics import FIELDS, LogTopic, leave_open, log_topic, topic_at, write

pytestmark = pytest.mark.integration


@pytest.fixture
def topic(bootstrap_servers: str) -> Iterator[LogTopic]:
    with log_topic(bootstrap_servers) as topic:
        yield topic
    close_idle_consumers()
    close_idle_topic_consumers()


def fill(topic: LogTopic, *, transactions: int = 2, records: int = 3) -> dict[int, tuple[int, int]]:
    """Records with ids of their own in both partitions; the ranges that have them, up to the last stable offset."""
    for number in (0, 1):
        with topic.producer(f"owner-{number}", number) as producer:
            for at in range(transactions):
                write(producer, [number * 1_000 + at * records + record for record in range(records)])
    last = transactions * (records + 1)  # with a marker behind each transaction
    ends = last_stable_offsets(topic, 2)
    while min(at.offset for at in ends.values()) < last:  # the last stable offset may lag behind the commit
        ends = last_stable_offsets(topic, 2)
    return {number: (0, at.offset) for number, at in ends.items()}


def ids(topic: LogTopic, ranges: dict[int, tuple[int, int]], ahead: dict[int, Ahead]) -> list[int]:
    """What a task reads of the ranges, one after the other."""
    return [
        row["id"]
        for number, (start, end) in ranges.items()
        for batch in read_range(
            topic.partition(number), FIELDS, start=start, end=end, ahead=ahead.get(number), timeout_seconds=2
        )
        for row in batch.to_pylist()
    ]


def test_small_ranges_are_read_by_one_consumer_which_stays_open(
    topic: LogTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = fill(topic)
    with count_consumers(monkeypatch) as made:
        for _ in range(3):
            ahead = read_ahead(topic, ranges)
            assert ids(topic, ranges, ahead) == [*range(6), *range(1_000, 1_006)]

    assert len(made) == 1


@pytest.mark.parametrize("records_max", [1, 4, 7])
def test_what_is_too_much_to_hold_is_read_behind_it(topic: LogTopic, records_max: int) -> None:
    ranges = fill(topic)

    ahead = read_ahead(topic, ranges, records_max=records_max)

    assert ids(topic, ranges, ahead) == [*range(6), *range(1_000, 1_006)]


def test_every_cut_of_the_ranges_gives_every_record_once(topic: LogTopic) -> None:
    ranges = fill(topic, transactions=3, records=1)
    end = ranges[0][1]

    for cut in range(end + 1):
        first = {number: (0, min(cut, stop)) for number, (_, stop) in ranges.items()}
        rest = {number: (min(cut, stop), stop) for number, (_, stop) in ranges.items()}
        found = [row for part in (first, rest) for row in ids(topic, part, read_ahead(topic, part))]
        assert sorted(found) == [0, 1, 2, 1_000, 1_001, 1_002]


def test_an_open_transaction_and_deleted_records_are_left_to_the_reader_of_one_partition(topic: LogTopic) -> None:
    ranges = fill(topic)
    admin = AdminClient({**topic.client_config})
    for future in admin.delete_records([TopicPartition(topic.name, 1, 2)]).values():
        future.result(10)
    with topic.producer("owner-0", 0) as producer:
        leave_open(producer, [77])
        open_range = {0: (0, ranges[0][1] + 1), 1: ranges[1]}
        ahead = read_ahead(topic, open_range)

    assert [message.offset() for message in ahead[0].messages] == [0, 1, 2, 4, 5, 6]
    assert ahead[0].position <= ranges[0][1]
    assert ahead[1] == Ahead(position=0)


def test_a_broker_that_does_not_answer_leaves_everything_to_the_reader_of_one_partition() -> None:
    nowhere = topic_at("127.0.0.1:1", "t")

    assert read_ahead(nowhere, {0: (0, 5), 1: (3, 4)}) == {0: Ahead(position=0), 1: Ahead(position=3)}
    close_idle_topic_consumers()
