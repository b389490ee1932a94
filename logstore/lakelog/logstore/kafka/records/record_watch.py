"""Hearing of new records of a topic: a consumer that waits for them, and keeps them for the read that follows.

A reader that asks the broker how far the log goes, and then reads up to there, waits for three answers. What the watch
has heard says both: whole transactions, known by the number of records that the header of each tells.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from lakelog.common.errors import LakelogError
from lakelog.logstore.kafka.clients.clients import close_consumer, make_client
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.records.consumer import CONSUMER_SETTINGS, OWN_CONSUMER_SETTINGS, commit_header
from lakelog.logstore.kafka.records.read_ahead import Ahead, Range

_SETTINGS = CONSUMER_SETTINGS | {"queued.max.messages.kbytes": str(1 << 10), "fetch.wait.max.ms": "100"}
_BEHIND_MAX = 10_000  # records: a watch that is further behind begins again, in place of reading all of them
_KEPT_BYTES_MAX = 16 << 20  # of a partition
_REST_SECONDS = 0.05  # for the rest of a transaction, which comes with its first record
_CONSUME_RECORDS = 10_000

logger = logging.getLogger("lakelog.logstore")

CountOf = Callable[[int, bytes], int]
"""The number of records of the transaction whose header is in a record of a partition."""


@dataclass(frozen=True, slots=True)
class HeardEnd:
    """Where the last whole transaction of a partition ends, behind its control record, and the leader's epoch then."""

    offset: int
    leader_epoch: int | None


@dataclass(slots=True)
class _Kept:
    """The records of a partition from `start` on; those before `end` are of whole transactions."""

    start: int
    end: int
    left: int = 0  # records of the transaction behind `end` that have not come
    leader_epoch: int | None = None
    messages: list[Message] = field(default_factory=list)
    size_bytes: int = 0
    is_known: bool = True  # False: something was not as expected, and a reader looks for itself

    def take(self, message: Message, offset: int, count: int | None) -> None:
        """A record has come; `count` is that of the transaction that it begins, None within one."""
        if count is not None and not self.left:
            self.left = count
        elif count is not None or not self.left:
            self.is_known = False
        self.left -= 1
        if offset >= self.start:
            self.messages.append(message)
            self.size_bytes += len(message) + len(message.key() or b"")
        if not self.left:
            self.end, self.leader_epoch = offset + 2, message.leader_epoch()
        if self.size_bytes > _KEPT_BYTES_MAX:
            self.forget(offset + 1)

    def forget(self, before: int) -> None:
        """Keep no records before an offset."""
        if before > self.start:
            self.start = before
            self.messages = [one for one in self.messages if (one.offset() or 0) >= before]
            self.size_bytes = sum(len(one) + len(one.key() or b"") for one in self.messages)


class RecordWatch:
    """Waits for committed records of a topic with transactions behind the offsets that a reader has reached."""

    def __init__(self, topic: KafkaTopic, count_of: CountOf) -> None:
        """Connect to nothing yet."""
        self._topic = topic
        self._count_of = count_of
        self._consumer: Consumer | None = None
        self._heard: dict[int, int] = {}  # partition -> the offset behind the last record that came
        self._reported: dict[int, int] = {}  # those of `_heard` that the reader knows of, and has not reached
        self._kept: dict[int, _Kept] = {}

    def wait(self, offsets: Mapping[int, int], seconds: float) -> bool:
        """Wait for a committed record at or behind `offsets`, partition -> offset; whether there is one.

        False after `seconds`, and at once where Kafka answers with an error.
        """
        ahead = {partition: at for partition, at in self._heard.items() if at > offsets.get(partition, 0)}
        if ahead and ahead != self._reported:
            self._reported = ahead
            return True
        if self._consumer is None or not self._is_near(offsets):
            self._begin(offsets)
        for partition, at in offsets.items():
            self._kept[partition].forget(at)
        return self._hears(offsets, seconds)

    def heard(self) -> dict[int, HeardEnd]:
        """Partition -> the end of its last whole transaction that has come."""
        return {partition: HeardEnd(one.end, one.leader_epoch) for partition, one in self._kept.items() if one.is_known}

    def has(self, topic: KafkaTopic, ranges: Mapping[int, Range]) -> bool:
        """Whether all records of these ranges have come, and are kept."""
        return topic == self._topic and all(
            (kept := self._kept.get(partition)) is not None
            and kept.is_known
            and kept.start <= start
            and end <= kept.end
            for partition, (start, end) in ranges.items()
        )

    def ahead(self, topic: KafkaTopic, ranges: Mapping[int, Range]) -> dict[int, Ahead]:
        """The records of ranges, if all have come: they are given once, and kept no longer."""
        if not self.has(topic, ranges):
            return {}
        found = {}
        for partition, (start, end) in ranges.items():
            kept = self._kept[partition]
            messages = [one for one in kept.messages if start <= (one.offset() or 0) < end]
            found[partition] = Ahead(position=end, messages=messages)
            kept.forget(end)
        return found

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._consumer is not None:
            close_consumer(self._consumer)
            self._consumer = None

    def _hears(self, offsets: Mapping[int, int], seconds: float) -> bool:
        """Wait for a record, then briefly for the rest of its transaction."""
        consumer = self._consumer
        assert consumer is not None
        deadline, has_heard = time.monotonic() + seconds, False
        while (left := deadline - time.monotonic()) > 0:
            try:
                first = consumer.poll(left)
                messages = [] if first is None else [first, *consumer.consume(_CONSUME_RECORDS, 0)]
            except KafkaException:
                return has_heard
            if not messages:
                return has_heard
            for message in messages:
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    return has_heard
                if error is None and self._take(message) >= offsets[message.partition() or 0] and not has_heard:
                    deadline, has_heard = time.monotonic() + _REST_SECONDS, True
            if has_heard and not any(one.is_known and one.left for one in self._kept.values()):
                return True
        return has_heard

    def _take(self, message: Message) -> int:
        """Keep a record; returns its offset."""
        partition, offset = message.partition() or 0, message.offset() or 0
        self._heard[partition] = offset + 1
        kept = self._kept[partition]
        if kept.is_known:
            header = commit_header(message)
            try:
                kept.take(message, offset, None if header is None else self._count_of(offset, header))
            except LakelogError as error:  # the reader of the records raises it, with what it says
                logger.debug("what came of %s is left to its reader: %s", self._topic.name, error)
                kept.is_known = False
            if not kept.is_known:
                kept.messages.clear()
        return offset

    def _is_near(self, offsets: Mapping[int, int]) -> bool:
        """Whether what comes next is of these partitions, and not far before these offsets."""
        return self._heard.keys() == offsets.keys() and all(
            at - self._heard[partition] <= _BEHIND_MAX for partition, at in offsets.items()
        )

    def _begin(self, offsets: Mapping[int, int]) -> None:
        if self._consumer is None:
            settings = _SETTINGS | {**self._topic.client_config}
            self._consumer = make_client(Consumer, settings, OWN_CONSUMER_SETTINGS)
        self._consumer.assign(
            [TopicPartition(self._topic.name, partition, at) for partition, at in sorted(offsets.items())]
        )
        self._heard = dict(offsets)
        self._kept = {partition: _Kept(start=at, end=at) for partition, at in offsets.items()}
