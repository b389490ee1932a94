"""The tail of a log by its headers alone is the tail that all its records give."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from lakelog.common.errors import CorruptDataError
from lakelog.logstore.kafka.records import tail
from lakelog.logstore.kafka.records.consumer import PartitionConsumer
from lakelog.logstore.kafka.records.tail import Tail, read_tail
from tests.support.logs.log_topics import LogTopic, leave_open, log_topic, write

pytestmark = pytest.mark.integration

SIZES = (1, 2, 15, 16, 17, 18, 40, 400)


@pytest.fixture
def topic(bootstrap_servers: str) -> Iterator[LogTopic]:
    with log_topic(bootstrap_servers) as topic:
        yield topic


@pytest.fixture(autouse=True)
def _seeks_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_SEEK_RECORDS_MIN", 0)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The offsets of the records that consumers give."""
    offsets: list[int] = []
    read = PartitionConsumer.read

    def recording(consumer: PartitionConsumer, *args: int, **options: bool) -> Iterator[list[object]]:
        for messages in read(consumer, *args, **options):  # type: ignore[arg-type]  # as they were given
            offsets.extend(message.offset() or 0 for message in messages)
            yield messages  # type: ignore[misc]  # messages

    monkeypatch.setattr(PartitionConsumer, "read", recording)
    return offsets


def by_headers(topic: LogTopic, base: int) -> Tail:
    return read_tail(topic.partition(0), base, count_of=lambda _offset, header: int(header))


def write_history(topic: LogTopic, seed: int) -> list[int]:
    """Transactions of many sizes, some aborted; returns where the committed ones end."""
    rng, ends = random.Random(seed), [0]
    producer = topic.producer()
    for _ in range(25):
        count = rng.choice(SIZES)
        if rng.random() < 0.25:
            leave_open(producer, range(count), b"%d" % count)
            producer.close()
            producer = topic.producer()
        else:
            ends.append(write(producer, range(count), b"%d" % count))
    producer.close()
    return ends


@pytest.mark.parametrize("seed", range(3))
def test_the_headers_say_what_all_records_say(topic: LogTopic, given: list[int], seed: int) -> None:
    ends = write_history(topic, seed)
    for base in ends[::4]:
        given.clear()
        found = by_headers(topic, base)
        read_by_headers = len(given)
        whole = topic.tail(base)

        assert found.transactions == whole.transactions
        assert found.high_watermark <= whole.high_watermark  # the last marker may have come in between
        assert read_by_headers <= sum(1 if one.record_count > 16 else one.record_count for one in whole.transactions)


@pytest.mark.parametrize("said", [b"0", b"3", b"39", b"41", b"42", b"1000000000000"])
def test_where_a_header_is_wrong_all_records_are_counted(topic: LogTopic, said: bytes) -> None:
    with topic.producer() as producer:
        write(producer, range(20), b"20")
        write(producer, range(40), said)
        write(producer, range(30), b"30")

    found = by_headers(topic, 0)

    assert [one.record_count for one in found.transactions] == [20, 40, 30]
    assert found.transactions == topic.tail(0).transactions


def test_small_transactions_are_read_whole(topic: LogTopic, given: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_SEEK_RECORDS_MIN", 100)
    with topic.producer() as producer:
        for count in (400, 10, 10, 10, 10):
            write(producer, range(count), b"%d" % count)

    found = by_headers(topic, 0)

    assert [one.record_count for one in found.transactions] == [400, 10, 10, 10, 10]
    assert given[-440:] == [offset for one in found.transactions for offset in range(one.first_offset, one.end_offset)]


@pytest.mark.parametrize("said", [b"39", b"41"])
def test_the_last_header_is_held_against_the_end_of_the_log(topic: LogTopic, said: bytes) -> None:
    with topic.producer() as producer:
        write(producer, range(20), b"20")
        write(producer, range(40), said)

    assert [one.record_count for one in by_headers(topic, 0).transactions] == [20, 40]


def test_records_of_another_program_are_found(topic: LogTopic) -> None:
    with topic.producer() as producer:
        write(producer, range(20), b"20")
    stranger = Producer(dict(topic.client_config))
    stranger.produce(topic.name, b"x", partition=0)
    stranger.flush(10)
    with topic.producer() as producer:
        write(producer, range(30), b"30")

    found = by_headers(topic, 0)

    assert [one.record_count for one in found.transactions] == [21, 30]
    with pytest.raises(CorruptDataError, match="belongs to no transaction of lakelog"):
        by_headers(topic, 20)
