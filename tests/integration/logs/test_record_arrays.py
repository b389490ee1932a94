"""Both ways to give records to the Kafka client, with a real broker: the same records, the same errors."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.logstore.kafka.producers import writer
from lakelog.logstore.kafka.producers.record_arrays import BatchFunction, batch_function, produce_objects
from lakelog.logstore.kafka.records.consumer import open_consumer
from tests.support.logs.log_topics import LogTopic, log_topic

pytestmark = pytest.mark.integration

WAYS: dict[str, Callable[[], BatchFunction]] = {"arrays": batch_function, "objects": lambda: produce_objects}


@pytest.fixture
def topic(bootstrap_servers: str) -> Iterator[LogTopic]:
    with log_topic(bootstrap_servers) as topic:
        yield topic


@pytest.fixture(params=list(WAYS))
def way(request: pytest.FixtureRequest) -> Callable[[], BatchFunction]:
    return WAYS[request.param]


def binaries(count: int, *, with_nulls: bool) -> pa.ChunkedArray:
    """Values of all sizes, in several pieces of memory."""
    rng = random.Random(count)
    sizes = [0, 1, 11, 12, 13, 100, 3000]
    made = [None if with_nulls and rng.random() < 0.2 else rng.randbytes(rng.choice(sizes)) for _ in range(count)]
    half = count // 2
    return pa.chunked_array([made[:half], made[half:]], pa.large_binary())


@pytest.mark.parametrize("has_keys", [True, False])
def test_records_of_all_sizes_arrive_as_they_are(
    topic: LogTopic, way: Callable[[], BatchFunction], monkeypatch: pytest.MonkeyPatch, has_keys: bool
) -> None:
    monkeypatch.setattr(writer, "batch_function", way)
    keys = binaries(25_000, with_nulls=True) if has_keys else None
    values = binaries(25_001, with_nulls=False)[1:]
    records = EncodedRecords.of(keys, values, row_count=len(values))
    with topic.producer() as producer:
        producer.begin()
        producer.produce(records, b"header")
        end = producer.commit()

    with open_consumer(topic.partition(0)) as consumer:
        found = [(one.key(), one.value()) for batch in consumer.read(0, end, 30.0) for one in batch]
    assert [value for _, value in found] == values.to_pylist()
    # An empty key comes back as none from the client, for both ways.
    assert [key or None for key, _ in found] == [key or None for key in records.keys]


def test_several_threads_send_to_their_own_partitions(bootstrap_servers: str, topic: LogTopic) -> None:
    def send(number: int) -> list[bytes | None]:
        with topic.producer(f"owner-{number}", number) as producer:
            for part in range(5):
                texts = [f"{number}-{part}-{place}" for place in range(20_000)]
                column = pa.chunked_array([texts]).cast(pa.large_binary())
                producer.begin()
                producer.produce(EncodedRecords.of(column, column, row_count=len(column)), b"header")
                end = producer.commit()
        with open_consumer(topic.partition(number)) as consumer:
            return [one.value() for batch in consumer.read(0, end, 30.0) for one in batch]

    with ThreadPoolExecutor(2) as pool:
        for number, found in enumerate(pool.map(send, range(2))):
            assert found == [f"{number}-{part}-{place}".encode() for part in range(5) for place in range(20_000)]


def test_a_record_that_the_client_refuses_is_an_error_with_its_code(
    topic: LogTopic, way: Callable[[], BatchFunction]
) -> None:
    producer = Producer({**topic.client_config, "message.max.bytes": 2_000})
    values = pa.chunked_array([[b"small", b"x" * 5_000, b"small"]], pa.large_binary())

    with pytest.raises(KafkaException) as refused:
        way()(producer, topic.name, 0, None, values)

    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    producer.purge()


def test_a_full_queue_is_an_error_with_its_code(topic: LogTopic, way: Callable[[], BatchFunction]) -> None:
    producer = Producer({**topic.client_config, "queue.buffering.max.messages": 10, "linger.ms": 60_000})
    values = pa.chunked_array([[b"value"] * 50], pa.large_binary())

    with pytest.raises(KafkaException) as refused:
        way()(producer, topic.name, 0, None, values)

    assert refused.value.args[0].code() == KafkaError._QUEUE_FULL
    assert len(producer) == 10
    producer.purge()
