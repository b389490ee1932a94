"""A topic beside the logs: records for other programs, appended at least once, outside of the commit protocol."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from lakelog.common.errors import ConflictError, InvalidRequestError, LakelogError, NotFoundError, UnavailableError
from lakelog.logstore.kafka.clients.clients import (
    ANSWER_SECONDS,
    ClientPool,
    close_consumer,
    config_key,
    connect,
    make_client,
)
from lakelog.logstore.kafka.clients.kafka_errors import kafka_error, servers_of
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.offsets import high_watermark, log_start_offset
from lakelog.logstore.kafka.clients.rights import topic_right
from lakelog.logstore.kafka.clients.topic import create_topic, describe_topic
from lakelog.logstore.kafka.records.consumer import CONSUMER_SETTINGS, OWN_CONSUMER_SETTINGS

_SETTINGS: Mapping[str, str] = {"enable.idempotence": "true", "linger.ms": "0", "message.timeout.ms": "10000"}
_PARTITION = 0

_producers: ClientPool[Producer] = ClientPool(2, close=lambda _producer: None)


def ensure_side_topic(topic: KafkaTopic) -> None:
    """Create the topic with one partition unless it exists.

    Raises InvalidRequestError for a topic with more partitions, whose records have no common order.
    """
    try:
        found = describe_topic(topic)
    except NotFoundError:
        try:
            create_topic(topic, 1)
        except ConflictError:  # another writer has created it meanwhile
            found = describe_topic(topic)
        else:
            return
    if found.partition_count != 1:
        raise InvalidRequestError(
            f"topic {topic.name} at {servers_of(topic.client_config)} has {found.partition_count} partitions, and"
            " records of several have no common order; name a topic of one partition, or a new one"
        )


def append_records(topic: KafkaTopic, records: Sequence[tuple[bytes, bytes]]) -> None:
    """Append (key, value) records in order, and wait until all in-sync replicas have them.

    Raises MissingRightError and UnavailableError; then some of the records may be in the topic, but none without those
    before it.
    """
    key = config_key(topic.client_config)
    producer = _producers.take(key)
    if producer is None:
        producer = make_client(Producer, topic.client_config, _SETTINGS)
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    try:
        connect(producer, ANSWER_SECONDS, topic=topic.name)
        for record_key, value in records:
            producer.produce(topic.name, value, record_key, _PARTITION, on_delivery=delivered)
            producer.poll(0)
        left = producer.flush(ANSWER_SECONDS)
    except KafkaException as error:
        raise _error(error.args[0], topic) from error
    if failed:
        raise _error(failed[0], topic)
    if left:
        raise UnavailableError(
            f"writing to topic {topic.name}: Kafka at {servers_of(topic.client_config)} did not take {left} records in"
            f" {ANSWER_SECONDS:.0f} s"
        )
    _producers.put(key, producer)


def last_records(topic: KafkaTopic, count_max: int) -> list[tuple[bytes | None, bytes | None]]:
    """The keys and values of the newest records, oldest first; at most `count_max` of them.

    Raises NotFoundError without the topic, UnavailableError.
    """
    partition = topic.partition(_PARTITION)
    end, oldest = high_watermark(partition).offset, log_start_offset(partition).offset
    start = max(oldest, end - count_max)
    if start >= end:
        return []
    consumer = make_client(Consumer, CONSUMER_SETTINGS | {**topic.client_config}, OWN_CONSUMER_SETTINGS)
    found: list[tuple[bytes | None, bytes | None]] = []
    try:
        consumer.assign([TopicPartition(topic.name, _PARTITION, start)])
        heard = time.monotonic()
        while time.monotonic() - heard < ANSWER_SECONDS:
            for message in consumer.consume(count_max, 0) or consumer.consume(1, 1.0):
                heard = time.monotonic()
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return found
                if error is not None:
                    raise _error(error, topic)
                found.append((message.key(), message.value()))
    except KafkaException as error:
        raise _error(error.args[0], topic) from error
    finally:
        close_consumer(consumer)
    raise UnavailableError(
        f"reading topic {topic.name}: Kafka at {servers_of(topic.client_config)} gave no record in"
        f" {ANSWER_SECONDS:.0f} s"
    )


def _error(error: KafkaError, topic: KafkaTopic) -> LakelogError:
    doing = f"writing to topic {topic.name}"
    return kafka_error(error, doing, topic.client_config, right=topic_right("WRITE", topic.name))
