"""Follows a topic: one consumer reads the committed records of some partitions as they come."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from lakelog.common.errors import LakelogError
from lakelog.logstore.kafka.clients.clients import ANSWER_SECONDS, close_consumer, make_client
from lakelog.logstore.kafka.clients.kafka_errors import kafka_error
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.offsets import high_watermark, log_start_offset
from lakelog.logstore.kafka.clients.rights import topic_right
from lakelog.logstore.kafka.records.consumer import CONSUMER_SETTINGS, OWN_CONSUMER_SETTINGS, commit_header, truncated

POLL_SECONDS = 0.5
_RECORDS_MAX = 10_000
_SETTINGS = CONSUMER_SETTINGS | {"queued.max.messages.kbytes": str(16 << 10), "fetch.wait.max.ms": "100"}
_OUT_OF_RANGE_CODES = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_PASSING_CODES = frozenset({KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecords:
    """Some records of a topic, column by column: all lists have the same length.

    `time_millis` is when the writer made a record, None where the topic does not have it. `headers` are the commit
    headers, None in records that begin no transaction.
    """

    partitions: list[int]
    offsets: list[int]
    time_millis: list[int | None]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[bytes | None]

    def __len__(self) -> int:
        return len(self.offsets)

    def take(self, places: Sequence[int]) -> LogRecords:
        """The records at these indexes."""
        return LogRecords(**{one.name: [getattr(self, one.name)[place] for place in places] for one in fields(self)})


def follow(topic: KafkaTopic, starts: Mapping[int, int], *, until_end: bool = False) -> Generator[LogRecords]:
    """The committed records from `starts` (partition -> offset) on, in log order in each partition.

    It gives no records after `POLL_SECONDS` without any, so that the caller can do something else. With `until_end` it
    ends with the records that are committed now; otherwise it continues through restarts of brokers. Raises
    LogTruncatedError, NotFoundError without the topic, and UnavailableError with `until_end`.
    """
    consumer = make_client(Consumer, _SETTINGS | {**topic.client_config}, OWN_CONSUMER_SETTINGS)
    try:
        consumer.assign([TopicPartition(topic.name, partition, at) for partition, at in sorted(starts.items())])
        unfinished = set(starts)
        heard = time.monotonic()
        while unfinished or not until_end:
            messages = _next(consumer, topic)
            if messages:
                heard = time.monotonic()
            elif until_end and time.monotonic() - heard > ANSWER_SECONDS:
                high_watermark(topic.partition(min(unfinished)))  # raises when Kafka does not answer
                heard = time.monotonic()
            yield _records(topic, messages, unfinished)
    finally:
        close_consumer(consumer)


def _next(consumer: Consumer, topic: KafkaTopic) -> list[Message]:
    try:
        messages = consumer.consume(_RECORDS_MAX, 0)
        if messages:
            return messages
        message = consumer.poll(POLL_SECONDS)
        return [] if message is None else [message, *consumer.consume(_RECORDS_MAX, 0)]
    except KafkaException as error:
        raise _error(error.args[0], topic) from error


def _records(topic: KafkaTopic, messages: Sequence[Message], unfinished: set[int]) -> LogRecords:
    """The records among the answers of a consumer; a partition that has come to its end leaves `unfinished`."""
    records = []
    for message in messages:
        error = message.error()
        if error is None:
            records.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            unfinished.discard(message.partition() or 0)
        elif error.code() in _OUT_OF_RANGE_CODES:
            partition = topic.partition(message.partition() or 0)
            start, end = log_start_offset(partition).offset, high_watermark(partition).offset
            raise truncated(partition, "the offset to start at", start, end, is_tail=False)
        elif error.code() not in _PASSING_CODES:
            raise _error(error, topic)
    times = [message.timestamp()[1] for message in records]
    return LogRecords(
        partitions=[message.partition() or 0 for message in records],
        offsets=[message.offset() or 0 for message in records],
        time_millis=[time if time >= 0 else None for time in times],
        keys=[message.key() for message in records],
        values=[message.value() for message in records],
        headers=[commit_header(message) for message in records],
    )


def _error(error: KafkaError, topic: KafkaTopic) -> LakelogError:
    right = topic_right("READ", topic.name)
    return kafka_error(error, f"reading topic {topic.name}", topic.client_config, right=right)
