"""A topic that others write: its identity, its offsets, and its records as they are.

The topic only has to exist: it may be compacted, and Kafka may delete its records. Needs the rights to describe and to
read the topic, and none to its settings or to a consumer group.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any  # Any: confluent_kafka's descriptions are untyped

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message, TopicCollection
from confluent_kafka.admin import AdminClient

from lakelog.common.errors import CorruptDataError, NotFoundError, UnavailableError
from lakelog.common.patience import Patience
from lakelog.logstore.client_settings import SERVERS_WAYS
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.clients.clients import ask
from lakelog.logstore.kafka.clients.kafka_errors import servers_of
from lakelog.logstore.kafka.clients.kafka_topic import KafkaPartition, KafkaTopic
from lakelog.logstore.kafka.clients.offsets import last_stable_offsets, log_start_offsets
from lakelog.logstore.kafka.records.consumer import open_consumer

_AS_KAFKA_PRINTS_IT = str.maketrans("+/", "-_")
_BATCH_BYTES = 16 << 20
_LOOK_AGAIN_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTopic:
    """A topic as its broker describes it."""

    topic_id: str
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecords:
    """Records of one partition, in order; the lists have the same length. A timestamp of None is unknown."""

    offsets: Sequence[int]
    timestamps: Sequence[int | None]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]


def describe_foreign(topic: KafkaTopic) -> ForeignTopic:
    """The topic's id and partitions. Raises NotFoundError, UnavailableError."""
    with _not_of_a_table(topic):
        return _described(topic)


@contextmanager
def _not_of_a_table(topic: KafkaTopic) -> Iterator[None]:
    """Explain how to continue without the missing topic: renewing a table's log would do harm here."""
    try:
        yield
    except LogTruncatedError:
        raise
    except NotFoundError as error:
        raise NotFoundError(
            f"topic {topic.name} does not exist in Kafka at {servers_of(topic.client_config)}; check the topic's name, "
            f"and that {SERVERS_WAYS} names the right Kafka"
        ) from error


def _described(topic: KafkaTopic) -> ForeignTopic:
    def request(admin: AdminClient, seconds: float) -> Mapping[str, Future[Any]]:
        described: Mapping[str, Future[Any]] = admin.describe_topics(
            TopicCollection([topic.name]), request_timeout=seconds
        )
        return described

    (found,) = ask(topic.client_config, f"describing topic {topic.name}", request)
    return ForeignTopic(
        topic_id=str(found.topic_id).translate(_AS_KAFKA_PRINTS_IT), partition_count=len(found.partitions)
    )


class ForeignHead:
    """Where a topic begins and ends; Kafka is asked at most ten times a second, as an idle query asks often."""

    def __init__(self, topic: KafkaTopic, topic_id: str | None) -> None:
        """`topic_id` is the id that the checkpoint names; None before the first batch."""
        self.topic = topic
        self.topic_id = topic_id
        self._ends: dict[int, int] = {}
        self._asked_at: float | None = None
        self._is_fixed = False

    def expect(self, topic_id: str) -> None:
        """Raise CorruptDataError if the topic that was found is not the one that the checkpoint names."""
        if self.topic_id is None:
            self.topic_id = topic_id
        if self.topic_id != topic_id:
            raise _another_topic(self.topic, self.topic_id, topic_id)

    def ends(self) -> Mapping[int, int]:
        """Partition -> the offset behind the newest record that is committed.

        Raises NotFoundError, UnavailableError, CorruptDataError for another topic of the same name.
        """
        now = time.monotonic()
        is_fresh = self._asked_at is not None and now - self._asked_at < _LOOK_AGAIN_SECONDS
        if not (self._is_fixed or is_fresh):
            count = self._checked().partition_count
            with _not_of_a_table(self.topic):
                self._ends = {at: one.offset for at, one in last_stable_offsets(self.topic, count).items()}
            self._asked_at = now
        return self._ends

    def starts(self) -> Mapping[int, int]:
        """Partition -> the oldest offset that Kafka has not deleted. Raises as `ends`."""
        count = self._checked().partition_count
        with _not_of_a_table(self.topic):
            return {at: one.offset for at, one in log_start_offsets(self.topic, count).items()}

    def fix(self) -> None:
        """Fix the present end: later records do not count."""
        self._asked_at = None
        self.ends()
        self._is_fixed = True

    def _checked(self) -> ForeignTopic:
        found = describe_foreign(self.topic)
        if self.topic_id is None:
            self.topic_id = found.topic_id
        if found.topic_id != self.topic_id:
            raise _another_topic(self.topic, found.topic_id, self.topic_id)
        return found


def _another_topic(topic: KafkaTopic, found: str, read: str) -> CorruptDataError:
    return CorruptDataError(
        f"topic {topic.name} has the id {found}, the checkpoint has read {read}: the topic was deleted and created"
        " again, so its offsets mean other records; start with a new checkpoint location"
    )


def read_foreign(
    partition: KafkaPartition, *, start: int, end: int, patience: Patience, timeout_seconds: float = 30.0
) -> Generator[RawRecords]:
    """The committed records in [start, end), in pieces of about 16 MiB.

    Requests to a broker that does not answer are repeated as long as `patience` allows. Raises LogTruncatedError when
    Kafka has deleted some of these records, StalledError when an open transaction hides them, UnavailableError.
    """
    gathered: list[Message] = []
    size_bytes = 0
    while start < end:
        try:
            with _not_of_a_table(partition.topic), open_consumer(partition) as consumer:
                for messages in consumer.read(start, end, timeout_seconds, holds_nothing=_may_hold_nothing):
                    assert consumer.position is not None
                    start = consumer.position
                    gathered += messages
                    size_bytes += sum(len(message) + len(message.key() or b"") for message in messages)
                    if size_bytes >= _BATCH_BYTES:
                        yield _raw(gathered)
                        gathered, size_bytes = [], 0
                    patience.succeeded()
        except UnavailableError as error:
            patience.bear(error)
        else:
            break
    if gathered:
        yield _raw(gathered)


def sample_key(topic: KafkaTopic, partition_count: int) -> bytes | None:
    """The key of a record that the topic has now; None if it has none. Raises NotFoundError, UnavailableError."""
    with _not_of_a_table(topic):
        starts, ends = log_start_offsets(topic, partition_count), last_stable_offsets(topic, partition_count)
    for number in range(partition_count):
        start, end = starts[number].offset, ends[number].offset
        if start < end:
            try:
                for records in read_foreign(topic.partition(number), start=start, end=start + 1, patience=Patience(0)):
                    if records.keys[0] is not None:
                        return records.keys[0]
            except LogTruncatedError:  # deleted meanwhile
                continue
    return None


def deleted_records(topic: KafkaTopic, number: int, wanted: int, start: int) -> LogTruncatedError:
    """The error for records that Kafka deleted before they were read."""
    return LogTruncatedError(
        f"topic {topic.name}, partition {number} begins at offset {start}, and the stream has read up to {wanted}:"
        f" {start - wanted} offsets were deleted before they were read. Let Kafka keep records for longer than the"
        " stream stays away; to go on without them, start with fail_on_data_loss=False"
    )


def _may_hold_nothing(_start: int, _log_start: int) -> bool:
    """Lets the reader skip deleted offsets at the start of a range: the planner has already checked them."""
    return False


def _raw(messages: Sequence[Message]) -> RawRecords:
    return RawRecords(
        offsets=[message.offset() or 0 for message in messages],
        timestamps=[_timestamp(message) for message in messages],
        keys=[_binary(message.key()) for message in messages],
        values=[_binary(message.value()) for message in messages],
    )


def _timestamp(message: Message) -> int | None:
    kind, millis = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE or millis < 0 else millis


def _binary(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data
