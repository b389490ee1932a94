"""Transactional producers against a real broker."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from lakelog.common.errors import (
    ConflictError,
    FencedError,
    InvalidRequestError,
    NotFoundError,
    OptionError,
    TransactionTimeoutError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.clients import transaction_timeout
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.offsets import high_watermarks, last_stable_offsets, log_start_offsets
from lakelog.logstore.kafka.clients.topic import create_topic, delete_topic, describe_topic
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.logstore.kafka.records.consumer import open_consumer
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.logstore.kafka.records.tail import read_tail
from tests.support.kills.frozen import frozen
from tests.support.logs.log_topics import FIELDS, LogTopic, leave_open, log_topic, records, topic_at, write

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[3]


def texts(values: list[str]) -> pa.ChunkedArray:
    return pa.chunked_array([values])


@pytest.fixture
def topic(bootstrap_servers: str) -> Iterator[LogTopic]:
    with log_topic(bootstrap_servers) as topic:
        yield topic


def test_a_committed_transaction_is_in_the_tail_with_its_header(topic: LogTopic) -> None:
    with topic.producer() as producer:
        end = write(producer, [1, 2, 3], b"the header")

    tail = topic.tail()
    (transaction,) = tail.transactions
    assert (transaction.header, transaction.first_offset, transaction.end_offset) == (b"the header", 0, end)
    assert transaction.record_count == 3


def test_the_end_offset_is_that_of_the_last_record_and_the_log_goes_one_further(topic: LogTopic) -> None:
    with topic.producer() as producer:
        ends = [write(producer, [1, 2, 3]), write(producer, [4])]

    assert ends == [3, 5]
    with topic.producer():  # the control record may come after the commit has returned, but not after the fence
        assert high_watermarks(topic, 2)[0].offset == 6


def test_several_calls_make_one_transaction_with_one_header(topic: LogTopic) -> None:
    with topic.producer() as producer:
        producer.begin()
        producer.produce(records([1, 2]), b"first")
        producer.produce(records([3]), b"")
        end = producer.commit()

    assert [(found.header, found.record_count) for found in topic.tail().transactions] == [(b"first", 3)]
    assert topic.ids(0, end) == [1, 2, 3]


def test_a_transaction_without_records_is_a_header_that_readers_pass(topic: LogTopic) -> None:
    with topic.producer() as producer:
        producer.begin()
        producer.produce(records([]), b"files alone")
        first_end = producer.commit()
        end = write(producer, [1])

    assert [(one.header, one.record_count) for one in topic.tail().transactions] == [
        (b"files alone", 1),
        (b"header", 1),
    ]
    assert topic.ids(0, first_end) == []
    assert topic.ids(0, end) == [1]
    with open_consumer(topic.partition(0)) as consumer:
        (message,) = (one for batch in consumer.read(0, first_end, 10.0) for one in batch)
        assert (message.key(), message.value()) == (None, None)


def test_many_records_arrive_in_order(topic: LogTopic) -> None:
    with topic.producer() as producer:
        end = write(producer, range(120_000))

    assert topic.ids(0, end) == list(range(120_000))
    assert topic.tail().transactions[0].record_count == 120_000


def test_an_older_producer_cannot_commit(topic: LogTopic) -> None:
    older = topic.producer()
    leave_open(older, [1, 2])
    younger = topic.producer()

    with pytest.raises(FencedError, match=f"topic {topic.name}, partition 0: committing as {topic.name}-owner"):
        older.commit()

    end = write(younger, [3])
    assert topic.ids(0, end) == [3]
    older.close()
    younger.close()


def test_an_older_producer_cannot_write_anew(topic: LogTopic) -> None:
    older, younger = topic.producer(), topic.producer()

    with pytest.raises(FencedError):
        write(older, [1])

    assert topic.tail().transactions == ()
    older.close()
    younger.close()


def produce_all(producer: TransactionalProducer) -> None:
    """Send records until the broker's answer to the first of them has come back."""
    for _ in range(1_000):
        producer.produce(records(range(100)), b"")
        producer.flush()


def fenced_with(topic: LogTopic, held: object) -> str:
    """What a task that holds something answers when it is fenced while it produces."""
    fenced = topic.producer()
    fenced.begin()
    topic.producer().close()
    fenced.produce(records([1]), b"h")
    try:
        fenced.flush()
    except FencedError as error:
        return f"{error}, {held!r}"
    finally:
        fenced.close()
    raise AssertionError("not fenced")


def test_what_a_fenced_task_has_held_is_let_go(topic: LogTopic) -> None:
    """confluent-kafka keeps each fatal error for ever: a worker that is fenced often had all rows of its tasks."""
    for _ in range(3):
        held = frozenset({7})
        left = weakref.ref(held)
        fenced_with(topic, held)
        del held
        gc.collect()
        assert left() is None


def test_a_producer_fenced_while_it_produces_gets_an_error_with_the_other_one(topic: LogTopic) -> None:
    older = topic.producer()
    leave_open(older, [1, 2])
    younger = topic.producer()

    older.produce(records([3]), b"")
    ends = [write(younger, [number]) for number in range(4, 8)]  # meanwhile the broker refuses the record 3
    with pytest.raises(FencedError, match=r"producing as .* a younger producer with the same transactional id"):
        produce_all(older)
    with pytest.raises(FencedError, match=r"(producing|committing) as"):
        older.commit()
    with pytest.raises(FencedError, match="beginning a transaction as"):
        older.begin()

    assert topic.ids(0, ends[-1]) == [4, 5, 6, 7]
    older.close()
    younger.close()


class Confused:
    """A client that met a fatal error and then logged a line: Python finds a result with an exception set."""

    def __init__(self, client: Producer) -> None:
        self.client = client

    def __getattr__(self, name: str) -> object:
        return getattr(self.client, name)

    def __len__(self) -> int:
        return 1

    def poll(self, seconds: float) -> int:
        raise SystemError("returned a result with an exception set")

    def purge(self) -> None:
        raise SystemError("returned a result with an exception set")


def test_a_client_that_fails_while_it_logs_is_an_error_of_ours(topic: LogTopic) -> None:
    fenced, other = topic.producer(), topic.producer("other")
    leave_open(fenced, [1])
    younger = topic.producer()
    with pytest.raises(FencedError):
        fenced.commit()
    other.begin()
    for producer, kind in ((fenced, FencedError), (other, UnknownOutcomeError)):
        producer._producer = Confused(producer._client)  # type: ignore[assignment]  # which stands in for one
        with pytest.raises(kind):
            producer.flush()
        producer.close()
    younger.close()


def wait_until_aborted(topic: LogTopic) -> None:
    """Wait for the broker to end the open transaction in partition 0."""
    while True:
        ends = [ask(topic, 1)[0].offset for ask in (last_stable_offsets, high_watermarks)]
        if ends[0] == ends[1]:
            return


def test_what_another_producer_aborted_between_two_transactions_is_nothing_and_what_it_committed_stops_the_commit(
    topic: LogTopic,
) -> None:
    with topic.producer() as producer, topic.producer("other") as other:
        write(producer, [1])
        leave_open(other, [2])
        other.close()  # which aborts: nobody sees the record, nor the marker, as a coordinator repeats one
        wait_until_aborted(topic)
        end = write(producer, [3])
        assert topic.ids(0, end) == [1, 3]

    with topic.producer() as producer, topic.producer("other") as other:
        write(producer, [4])
        write(other, [5])
        producer.begin()
        producer.produce(records([6]), b"header")
        with pytest.raises(UnknownOutcomeError, match="are not of this producer, and nothing was committed"):
            producer.commit()


@pytest.mark.parametrize("goes_on", [False, True], ids=["commits", "produces"])
def test_a_transaction_that_was_open_for_too_long_is_distinguished_from_a_fenced_one(
    topic: LogTopic, goes_on: bool
) -> None:
    slow = topic.producer(transaction_timeout_ms="1000")
    leave_open(slow, [1, 2])
    wait_until_aborted(topic)

    with pytest.raises(
        TransactionTimeoutError, match=r"open for \d+ s, longer than its transaction.timeout.ms of 1000"
    ):
        produce_all(slow) if goes_on else slow.commit()

    assert topic.tail().transactions == ()
    slow.close()


def test_a_producer_asks_for_a_time_out_that_fits_what_it_sends(topic: LogTopic) -> None:
    with topic.producer() as small, topic.producer("large", size_bytes=1 << 30) as large:
        assert (small.timeout_millis, large.timeout_millis) == (60_000, 900_000)


def test_a_closed_producers_transaction_is_aborted_at_once(topic: LogTopic) -> None:
    producer = topic.producer()
    leave_open(producer, [1, 2])
    producer.close()
    producer.close()

    with topic.producer("another") as other:  # which fences no producer of this test
        end = write(other, [3])
    assert topic.ids(0, end) == [3]


def test_a_record_too_large_is_known_before_the_transaction(topic: LogTopic) -> None:
    large = EncodedRecords.of(texts(['{"id":1}', '{"id":2}']), texts(["x", "x" * 2_000_000]), row_count=2)
    with topic.producer() as producer:
        producer.limit.check(records([1, 2]))

        with pytest.raises(InvalidRequestError) as caught:
            producer.limit.check(large)

    assert topic.name in str(caught.value)
    assert 'the record with key {"id":2} has 2000008 bytes, the topic takes 1048204' in str(caught.value)


def test_a_record_too_large_aborts_its_transaction(topic: LogTopic) -> None:
    large = EncodedRecords.of(texts(["1", "2", "3"]), texts(["x", "x" * 2_000_000, "x"]), row_count=3)
    producer = topic.producer()
    producer.begin()

    with pytest.raises(InvalidRequestError, match="the record with key 2 has 2000001 bytes"):
        producer.produce(large, b"header")

    assert topic.tail().transactions == ()


def test_the_largest_record_leaves_room_for_a_header_and_a_header_takes_what_is_left(topic: LogTopic) -> None:
    with topic.producer() as producer:
        limit = producer.limit
        key = "1"
        full = EncodedRecords.of(texts([key]), texts(["x" * (limit.record_bytes - len(key))]), row_count=1)
        limit.check(full)
        for one in (full, records([1])):
            producer.begin()
            producer.produce(one, b"h" * limit.header_room(one))
            producer.commit()

    small, large = (len(found.header) for found in topic.tail().transactions)
    assert 200 <= small < large


def test_a_partition_that_the_topic_lacks_is_not_fenced(topic: LogTopic) -> None:
    with pytest.raises(InvalidRequestError, match="partition 7: the topic has 2 partitions only"):
        TransactionalProducer(topic.partition(7), "b" + topic.name)


def test_a_topic_that_is_not_there_is_named(bootstrap_servers: str) -> None:
    missing = topic_at(bootstrap_servers, "no-such-topic")

    for call in (
        lambda: TransactionalProducer(missing.partition(0), "x"),
        lambda: read_tail(missing.partition(0), 0),
        lambda: high_watermarks(missing, 1),
    ):
        with pytest.raises(NotFoundError, match=f"topic no-such-topic: Kafka at {bootstrap_servers} has no such topic"):
            call()


def test_a_topic_made_again_has_another_id(topic: LogTopic) -> None:
    before = describe_topic(topic)
    with pytest.raises(ConflictError, match=f"creating topic {topic.name}: .* has the topic already"):
        create_topic(topic, 2)

    delete_topic(topic)
    delete_topic(topic)
    again = create_topic(topic, 3, config={"max.message.bytes": "2000000"})

    after = describe_topic(topic)
    assert before.topic_id != again == after.topic_id
    assert (after.partition_count, after.max_message_bytes) == (3, 2_000_000)


def test_positions_count_open_transactions_or_stop_before_them(topic: LogTopic) -> None:
    with topic.producer() as producer:
        write(producer, [1])
        leave_open(producer, [2, 3])

        places = [
            [position.offset for position in ask(topic, 2).values()]
            for ask in (log_start_offsets, last_stable_offsets, high_watermarks)
        ]

    assert places == [[0, 0], [2, 0], [4, 0]]
    assert high_watermarks(topic, 1)[0].leader_epoch == 0


def _start_producer(topic: LogTopic, how: str) -> subprocess.Popen[str]:
    servers = topic.client_config["bootstrap.servers"]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.kills.killed_producer", servers, topic.name, f"{topic.name}-owner", how],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_producer_killed_in_its_transaction_leaves_a_whole_tail_to_the_next_owner(topic: LogTopic) -> None:
    with _start_producer(topic, "open") as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "open\n"
        killed.send_signal(signal.SIGKILL)

    with topic.producer() as next_owner:
        tail = topic.tail()
        end = write(next_owner, [6], b"1")

    assert [(found.header, found.record_count) for found in tail.transactions] == [(b"3", 3)]
    assert topic.ids(0, end) == [1, 2, 3, 6]


@pytest.mark.parametrize("commits", [1, 23])
def test_a_producer_killed_anywhere_leaves_whole_transactions_and_all_that_it_committed(
    topic: LogTopic, commits: int
) -> None:
    with _start_producer(topic, "endless") as killed:
        assert killed.stdout is not None
        ends = [int(killed.stdout.readline()) for _ in range(commits)]
        killed.send_signal(signal.SIGKILL)
        ends += [int(line) for line in killed.stdout.read().splitlines()]

    with topic.producer():
        tail = topic.tail()

    assert [found.end_offset for found in tail.transactions][: len(ends)] == ends
    assert len(tail.transactions) <= len(ends) + 1
    assert all(found.record_count == int(found.header) for found in tail.transactions)


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    broker = EmbeddedBroker(tmp_path)
    yield broker
    broker.stop()


def test_a_broker_that_freezes_makes_outcomes_unknown_and_the_tail_shows_them(
    own_broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.logstore.kafka.producers.writer.ANSWER_SECONDS", 2.0)
    info = own_broker.start()
    with log_topic(info.bootstrap_servers) as topic:
        producer = topic.producer()
        first_end = write(producer, [1])
        producer.begin()
        producer.produce(records([2, 3]), b"unknown")
        producer.flush()
        with frozen(info.pid):
            with pytest.raises(UnknownOutcomeError, match=r"committing as .*; the transaction may or may not be in"):
                producer.commit()
            producer.close()

        with topic.producer():
            tail = topic.tail(first_end)

        seen = [(found.header, found.record_count) for found in tail.transactions]
        assert seen in ([], [(b"unknown", 2)])
        assert topic.ids(0, tail.high_watermark) == ([1, 2, 3] if seen else [1])


def test_a_time_out_that_the_broker_refuses_is_halved_until_it_fits(
    topic: LogTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_timeout, "_STEPS_MILLIS", (60_000, 3_200_000))
    monkeypatch.setattr(transaction_timeout, "_refused", {})

    for _ in range(2):
        with topic.producer(size_bytes=1 << 30) as producer:
            assert producer.timeout_millis == 800_000
    assert list(transaction_timeout._refused.values()) == [1_600_000]


@pytest.mark.full
def test_clients_that_are_open_serve_again_after_the_broker_was_killed(own_broker: EmbeddedBroker) -> None:
    info = own_broker.start()
    with log_topic(info.bootstrap_servers) as topic:
        producer = topic.producer()
        first_end = write(producer, [1])
        assert topic.ids(0, first_end) == [1]
        os.kill(info.pid, signal.SIGKILL)
        assert own_broker.start().bootstrap_servers == info.bootstrap_servers

        assert topic.ids(0, first_end) == [1]
        end = write(producer, [2])
        assert [found.end_offset for found in topic.tail().transactions] == [first_end, end]
        assert topic.ids(0, end) == [1, 2]
        producer.close()


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A port that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_broker_that_does_not_answer_is_named_in_about_ten_seconds(silent_server: str, topic: LogTopic) -> None:
    secret = "hunter2"
    silent = topic_at(silent_server, topic.name, sasl_password=secret, sasl_username="somebody")
    calls: list[Callable[[], object]] = [
        lambda: TransactionalProducer(silent.partition(0), "x"),
        lambda: read_tail(silent.partition(0), 0),
        lambda: list(read_range(silent.partition(0), FIELDS, start=0, end=1)),
        lambda: create_topic(replace(silent, name="some-topic"), 1),
        lambda: describe_topic(silent),
        lambda: high_watermarks(silent, 2),
    ]

    def fail(call: Callable[[], object]) -> tuple[str, float]:
        start = time.monotonic()
        with pytest.raises(UnavailableError) as caught:
            call()
        return str(caught.value), time.monotonic() - start

    with ThreadPoolExecutor(len(calls)) as threads:
        failures = list(threads.map(fail, calls))

    for message, seconds in failures:
        assert silent_server in message
        assert secret not in message
        assert seconds < 14


def test_a_configuration_that_the_client_refuses_is_an_error_without_secrets(bootstrap_servers: str) -> None:
    secret = "hunter2"
    refused = topic_at(bootstrap_servers, "t", sasl_password=secret, security_protocol=secret)

    with pytest.raises(OptionError, match="the Kafka client refuses its configuration") as caught:
        describe_topic(refused)

    assert secret not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(OptionError, match=r"'log.kafka.bootstrap.servers' is not set"):
        describe_topic(KafkaTopic(client_config={}, name="t"))
