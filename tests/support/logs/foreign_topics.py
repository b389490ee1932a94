"""Topics as a connector fills them: records of the fixtures, or of a test's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from confluent_kafka import Producer

from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import create_topic

Record = tuple[bytes | None, bytes | None]


def new_topic(servers: str, *, partitions: int = 1, name: str | None = None) -> KafkaTopic:
    """A topic of its own name."""
    topic = KafkaTopic(client_config={"bootstrap.servers": servers}, name=name or f"shop.{uuid.uuid4().hex[:12]}")
    create_topic(topic, partitions)
    return topic


def fill(topic: KafkaTopic, records: Iterable[Record], *, partition: int | None = 0) -> None:
    """Append records (key, value), in order; without a partition by their keys."""
    producer = Producer({**topic.client_config, "linger.ms": 5, "message.max.bytes": 32 << 20})
    for key, value in records:
        while True:
            try:
                producer.produce(topic.name, value=value, key=key, partition=-1 if partition is None else partition)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(60) == 0


def records_of(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> list[Record]:
    """Keys and values side by side."""
    return list(zip(keys, values, strict=True))
