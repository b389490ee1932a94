"""Hearing of new records of a topic: a consumer that reads them, and looks only at their offsets."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lakelog.logstore.kafka.clients.clients import close_consumer, make_client
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.records.consumer import CONSUMER_SETTINGS, OWN_CONSUMER_SETTINGS

_SETTINGS = CONSUMER_SETTINGS | {"queued.max.messages.kbytes": str(1 << 10), "fetch.wait.max.ms": "100"}
_BEHIND_MAX = 10_000  # records: a watch that is further behind begins again, in place of reading all of them


class RecordWatch:
    """Waits for committed records of a topic behind the offsets that a reader has reached."""

    def __init__(self, topic: KafkaTopic) -> None:
        """Connect to nothing yet."""
        self._topic = topic
        self._consumer: Consumer | None = None
        self._heard: dict[int, int] = {}  # partition -> the offset behind the last record that came
        self._reported: dict[int, int] = {}  # those of `_heard` that the reader knows of, and has not reached

    def wait(self, offsets: Mapping[int, int], seconds: float) -> bool:
        """Wait for a committed record at or behind `offsets`, partition -> offset; whether there is one.

        False after `seconds`, and at once where Kafka answers with an error.
        """
        ahead = {partition: at for partition, at in self._heard.items() if at > offsets.get(partition, 0)}
        if ahead and ahead != self._reported:
            self._reported = ahead
            return True
        consumer = self._consumer
        if consumer is None or not self._is_near(offsets):
            consumer = self._begin(offsets)
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                message = consumer.poll(left)
            except KafkaException:
                return False
            if message is None:
                return False
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    continue
                return False
            partition, offset = message.partition() or 0, message.offset() or 0
            self._heard[partition] = offset + 1
            if offset >= offsets[partition]:
                return True
        return False

    def _is_near(self, offsets: Mapping[int, int]) -> bool:
        """Whether what comes next is of these partitions, and not far before these offsets."""
        return self._heard.keys() == offsets.keys() and all(
            at - self._heard[partition] <= _BEHIND_MAX for partition, at in offsets.items()
        )

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._consumer is not None:
            close_consumer(self._consumer)
            self._consumer = None

    def _begin(self, offsets: Mapping[int, int]) -> Consumer:
        if self._consumer is None:
            settings = _SETTINGS | {**self._topic.client_config}
            self._consumer = make_client(Consumer, settings, OWN_CONSUMER_SETTINGS)
        self._consumer.assign(
            [TopicPartition(self._topic.name, partition, at) for partition, at in sorted(offsets.items())]
        )
        self._heard = dict(offsets)
        return self._consumer
