"""The first records of several partitions of a topic, read at once.

A task that reads several buckets reads one after the other, each with a consumer of its own, and waits for each. One
consumer for all of them fetches from all in one request: a small batch of many buckets costs one wait. It stays open in
this process for the next batch. Anything unusual (deleted offsets, an open transaction, an error of a partition), and
what is too much to hold, is left to the reader of one partition, which continues where this consumer stopped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from lakelog.common.errors import UnavailableError
from lakelog.logstore.kafka.clients.clients import ClientPool, close_consumer, config_key, make_client
from lakelog.logstore.kafka.clients.kafka_errors import kafka_error
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.records.consumer import CONSUMER_SETTINGS, OWN_CONSUMER_SETTINGS

_CONSUME_RECORDS = 10_000
_POLL_SECONDS = 0.5
_OPEN_MAX = 4
_WAIT_SECONDS = 0.5  # for the next piece; committed records arrive within some milliseconds
AHEAD_RECORDS_MAX = 65_536

logger = logging.getLogger("lakelog.logstore")

Range = tuple[int, int]  # [start, end)


@dataclass(slots=True)
class Ahead:
    """The committed records of a partition up to `position`, exclusive."""

    position: int
    messages: list[Message] = field(default_factory=list)


def read_ahead(
    topic: KafkaTopic, ranges: Mapping[int, Range], *, records_max: int = AHEAD_RECORDS_MAX
) -> dict[int, Ahead]:
    """Partition -> its records from the start of its range on, about `records_max` in total.

    Never raises for a broker that does not answer: then fewer records, or none, are read ahead.
    """
    found = {number: Ahead(position=start) for number, (start, _) in ranges.items()}
    count = 0
    try:
        with open_topic_consumer(topic) as consumer:
            for number, messages, position in consumer.read(ranges, _WAIT_SECONDS):
                found[number].messages += messages
                found[number].position = position
                count += len(messages)
                if count >= records_max:
                    break
    except UnavailableError as error:
        logger.info("nothing is read ahead of %s: %s", topic.name, error)
    return found


class TopicConsumer:
    """Reads ranges of one topic."""

    def __init__(self, topic: KafkaTopic) -> None:
        """Create the client; it connects with the first read."""
        self._topic = topic
        self._consumer = make_client(Consumer, CONSUMER_SETTINGS | {**topic.client_config}, OWN_CONSUMER_SETTINGS)

    def read(self, ranges: Mapping[int, Range], timeout_seconds: float) -> Iterator[tuple[int, list[Message], int]]:
        """The committed records of the ranges, as (partition, records, position behind them), in the order of the log.

        The position may have passed offsets without a record. The read ends early if nothing comes for
        `timeout_seconds`. Raises UnavailableError.
        """
        reading = {number: one for number, one in ranges.items() if one[0] < one[1]}
        self._consumer.assign([self._at(number, start) for number, (start, _) in reading.items()])
        moved_at = time.monotonic()
        while reading and time.monotonic() - moved_at < timeout_seconds:
            for number, messages in _by_partition(self._fetch(min(_POLL_SECONDS, timeout_seconds))):
                if number not in reading:
                    continue
                start, end = reading[number]
                records, position, is_ordinary = _take(messages, start, end)
                if position > start:
                    moved_at = time.monotonic()
                reading[number] = (position, end)
                if position >= end or not is_ordinary:
                    del reading[number]
                    self._consumer.incremental_unassign([self._at(number, position)])
                if position > start:
                    yield number, records, position

    def rest(self) -> None:
        """Fetch nothing until the next read."""
        self._consumer.unassign()

    def close(self) -> None:
        """Leave the broker. Never raises."""
        close_consumer(self._consumer)

    def _at(self, number: int, offset: int) -> TopicPartition:
        return TopicPartition(self._topic.name, number, offset)

    def _fetch(self, timeout_seconds: float) -> list[Message]:
        try:
            # With a time-out `consume` would wait until the list is full.
            messages = self._consumer.consume(_CONSUME_RECORDS, 0)
            if messages:
                return messages
            message = self._consumer.poll(timeout_seconds)
            return [] if message is None else [message, *self._consumer.consume(_CONSUME_RECORDS, 0)]
        except KafkaException as error:
            raise kafka_error(error.args[0], f"reading topic {self._topic.name}", self._topic.client_config) from error


def _by_partition(messages: Sequence[Message]) -> Iterator[tuple[int, list[Message]]]:
    found: dict[int, list[Message]] = {}
    for message in messages:
        number = message.partition()
        if number is not None:
            found.setdefault(number, []).append(message)
    yield from found.items()


def _take(messages: Sequence[Message], start: int, end: int) -> tuple[list[Message], int, bool]:
    """The records in [start, end), the position behind them, and whether nothing is unusual."""
    records: list[Message] = []
    position = start
    for message in messages:
        offset, error = message.offset() or 0, message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            return records, position, False
        if error is not None or offset >= end:
            position = max(position, min(offset, end))
        elif offset >= position:
            records.append(message)
            position = offset + 1
    return records, position, True


_pool: ClientPool[TopicConsumer] = ClientPool(_OPEN_MAX, close=TopicConsumer.close)


@contextmanager
def open_topic_consumer(topic: KafkaTopic) -> Iterator[TopicConsumer]:
    """A consumer that this process keeps, for one reader at a time; it is closed after an error."""
    key = (topic.name, *config_key(topic.client_config))
    consumer = _pool.take(key) or TopicConsumer(topic)
    try:
        yield consumer
    except BaseException:  # any error, or a reader that stops early: the consumer's state is unknown
        consumer.close()
        raise
    else:
        consumer.rest()
        _pool.put(key, consumer)


def close_idle_topic_consumers() -> None:
    """Close every consumer that this process keeps."""
    _pool.clear()
