"""Transactions that hide the end of a partition from readers: neither committed nor aborted.

Readers of committed records stop at the last stable offset, where the oldest open transaction of the partition begins.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lakelog.common.errors import UnavailableError
from lakelog.logstore.kafka.clients.clients import ANSWER_SECONDS, close_consumer, make_client
from lakelog.logstore.kafka.clients.kafka_errors import kafka_error, servers_of
from lakelog.logstore.kafka.clients.kafka_topic import KafkaPartition, KafkaTopic
from lakelog.logstore.kafka.clients.offsets import high_watermarks, last_stable_offsets
from lakelog.logstore.kafka.clients.rights import topic_right
from lakelog.logstore.kafka.records.consumer import CONSUMER_SETTINGS, OWN_CONSUMER_SETTINGS, commit_header

_LAG_SECONDS = 0.1  # the last stable offset follows a commit by some 20 ms
_READ_SETTINGS = OWN_CONSUMER_SETTINGS | {"isolation.level": "read_uncommitted"}
_SECURITY_PREFIXES = ("security.", "sasl.", "ssl.")
CLIENT_FILE = "client.properties"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """The oldest open transaction of a partition, in the offsets from `first_offset` to `high_watermark` (exclusive).

    `time_millis` is when its writer made the first record; `header` is the commit header of that record, None without
    one.
    """

    partition: int
    first_offset: int
    high_watermark: int
    time_millis: int | None
    header: bytes | None


def open_transactions(topic: KafkaTopic, partitions: Iterable[int]) -> list[OpenTransaction]:
    """The oldest open transaction of each of these partitions that has one; there may be more behind it.

    Raises NotFoundError, MissingRightError and UnavailableError.
    """
    wanted = set(partitions)
    count = max(wanted, default=-1) + 1
    if not count:
        return []
    ends = high_watermarks(topic, count)
    stable = last_stable_offsets(topic, count)
    hidden = {number for number in wanted if stable[number].offset < ends[number].offset}
    if not hidden:
        return []
    time.sleep(_LAG_SECONDS)
    again = last_stable_offsets(topic, count)
    still = sorted(number for number in hidden if again[number].offset == stable[number].offset)
    return [_transaction(topic.partition(number), stable[number].offset, ends[number].offset) for number in still]


def abort_command(topic: KafkaTopic, partition: int, first_offset: int) -> str:
    """The command of Apache Kafka that ends a transaction; with the client's security it names a file of settings."""
    is_secure = any(key.startswith(_SECURITY_PREFIXES) for key in topic.client_config)
    config = f" --command-config {CLIENT_FILE}" if is_secure else ""
    return (
        f"kafka-transactions.sh --bootstrap-server {servers_of(topic.client_config)}{config} abort --topic {topic.name}"
        f" --partition {partition} --start-offset {first_offset}"
    )


def _transaction(partition: KafkaPartition, first: int, end: int) -> OpenTransaction:
    """The transaction that begins at an offset. Its first record is read uncommitted."""
    consumer = make_client(Consumer, CONSUMER_SETTINGS | {**partition.client_config}, _READ_SETTINGS)
    doing = f"reading the open transaction of {partition}"
    try:
        consumer.assign([TopicPartition(partition.topic.name, partition.number, first)])
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            message = consumer.poll(ANSWER_SECONDS / 10)
            error = None if message is None else message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                right = topic_right("READ", partition.topic.name)
                raise kafka_error(error, doing, partition.client_config, right=right)
            if message is not None and error is None:
                is_first = message.offset() == first
                time_millis = message.timestamp()[1] if is_first else -1
                return OpenTransaction(
                    partition=partition.number,
                    first_offset=first,
                    high_watermark=end,
                    time_millis=time_millis if time_millis >= 0 else None,
                    header=commit_header(message) if is_first else None,
                )
    except KafkaException as error:
        raise kafka_error(error.args[0], doing, partition.client_config) from error
    finally:
        close_consumer(consumer)
    raise UnavailableError(
        f"{doing}: Kafka at {servers_of(partition.client_config)} gave no record in {ANSWER_SECONDS:.0f} s; try again"
    )
