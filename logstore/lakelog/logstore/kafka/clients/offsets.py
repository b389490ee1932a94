"""Positions of all partitions of a topic, in one request.

A broker that is stopped while it is asked leaves answers without an error, whose offset is -1001 (librdkafka 2.16; its
requests about topics, settings and records to delete end with an error then). An answer is an offset, or -1 to a
request by time if no record is that young. After any other answer another client asks again; then UnavailableError is
raised.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any  # Any: confluent_kafka's answers are untyped

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not declared as exported
    AdminClient,
    ListOffsetsResultInfo,
    OffsetSpec,
)

from lakelog.common.errors import UnavailableError
from lakelog.logstore.kafka.clients.clients import ANSWER_SECONDS, ask
from lakelog.logstore.kafka.clients.kafka_errors import is_without_leader
from lakelog.logstore.kafka.clients.kafka_topic import KafkaPartition, KafkaTopic
from lakelog.logstore.kafka.clients.rights import topic_right
from lakelog.logstore.kafka.clients.topic import describe_topic

_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # confluent_kafka does not annotate it
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # likewise
_NO_RECORD = -1
_COMMIT_LAG_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """An offset of a partition, and the leader epoch of the record before it; None when the broker gave none."""

    offset: int
    leader_epoch: int | None

    def __post_init__(self) -> None:
        assert self.offset >= 0, "an offset that is not known is no position"


def high_watermarks(topic: KafkaTopic, partition_count: int) -> dict[int, Position]:
    """Partition -> the offset behind the newest record, open transactions included.

    Raises NotFoundError, UnavailableError.
    """
    return _positions(topic, range(partition_count), _LATEST, doing="asking high watermarks")


def high_watermark(partition: KafkaPartition, *, seconds: float = ANSWER_SECONDS) -> Position:
    """The offset behind the newest record of one partition. Raises NotFoundError, UnavailableError."""
    return _position(partition, _LATEST, doing="asking the high watermark", seconds=seconds)


def log_start_offset(partition: KafkaPartition) -> Position:
    """The oldest offset in one partition that retention has not deleted. Raises NotFoundError, UnavailableError."""
    return _position(partition, _EARLIEST, doing="asking the log start offset")


def last_stable_offset(partition: KafkaPartition) -> Position:
    """Like `last_stable_offsets`, of one partition."""
    doing = "asking the last stable offset"
    return _position(partition, _LATEST, doing=doing, isolation_level=IsolationLevel.READ_COMMITTED)


def last_stable_offsets(topic: KafkaTopic, partition_count: int) -> dict[int, Position]:
    """Partition -> the offset up to which read_committed consumers can read.

    It lags behind a commit by some milliseconds. Raises NotFoundError, UnavailableError.
    """
    doing = "asking last stable offsets"
    return _positions(
        topic,
        range(partition_count),
        _LATEST,
        doing=doing,
        isolation_level=IsolationLevel.READ_COMMITTED,
    )


def committed_ends(
    topic: KafkaTopic, partition_count: int, *, only: Collection[int] | None = None
) -> dict[int, Position]:
    """As `last_stable_offsets`, behind all transactions whose commit was acknowledged before. `only` chooses some.

    Kafka acknowledges a commit before its partitions know of it: what is in them is waited for, for 0.1 s, since an
    open transaction looks the same. Raises NotFoundError, UnavailableError.
    """
    asked = set(range(partition_count) if only is None else only)
    ends = high_watermarks(topic, partition_count)
    deadline, pause = time.monotonic() + _COMMIT_LAG_SECONDS, 0.001
    while True:
        stable = last_stable_offsets(topic, partition_count)
        if all(stable[one].offset >= ends[one].offset for one in asked) or time.monotonic() > deadline:
            return {partition: at for partition, at in stable.items() if partition in asked}
        time.sleep(pause)
        pause *= 2


def log_start_offsets(topic: KafkaTopic, partition_count: int) -> dict[int, Position]:
    """Partition -> the oldest offset that retention has not deleted. Raises NotFoundError, UnavailableError."""
    return _positions(topic, range(partition_count), _EARLIEST, doing="asking log start offsets")


def offsets_since(topic: KafkaTopic, partition_count: int, time_millis: int) -> dict[int, int | None]:
    """Partition -> the offset of the first record that was written at `time_millis` or later; None without one.

    Kafka answers from its index of times, without reading records. Raises NotFoundError, UnavailableError.
    """
    since = OffsetSpec.for_timestamp(time_millis)
    found = _answers(topic, range(partition_count), since, doing="asking offsets at a time", is_by_time=True)
    return {partition: None if one.offset == _NO_RECORD else one.offset for partition, one in found.items()}


def is_known_offset(offset: int, *, is_by_time: bool = False) -> bool:
    """Whether an answer of Kafka's client is an offset; another number means that it knows none. Pure."""
    return offset >= 0 or (is_by_time and offset == _NO_RECORD)


def _position(
    partition: KafkaPartition,
    spec: OffsetSpec,
    *,
    doing: str,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    seconds: float = ANSWER_SECONDS,
) -> Position:
    only = range(partition.number, partition.number + 1)
    found = _positions(partition.topic, only, spec, doing=doing, isolation_level=isolation_level, seconds=seconds)
    return found[partition.number]


def _positions(
    topic: KafkaTopic,
    partitions: range,
    spec: OffsetSpec,
    *,
    doing: str,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    seconds: float = ANSWER_SECONDS,
) -> dict[int, Position]:
    found = _answers(topic, partitions, spec, doing=doing, isolation_level=isolation_level, seconds=seconds)
    return {
        partition: Position(
            offset=answer.offset,
            leader_epoch=None if answer.leader_epoch is None or answer.leader_epoch < 0 else answer.leader_epoch,
        )
        for partition, answer in found.items()
    }


def _answers(
    topic: KafkaTopic,
    partitions: range,
    spec: OffsetSpec,
    *,
    doing: str,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    seconds: float = ANSWER_SECONDS,
    is_by_time: bool = False,
) -> dict[int, ListOffsetsResultInfo]:
    """Partition -> the client's answer, which is a known offset."""
    asked = {TopicPartition(topic.name, partition): spec for partition in partitions}

    def request(admin: AdminClient, limit_seconds: float) -> Mapping[Any, Future[ListOffsetsResultInfo]]:
        return admin.list_offsets(asked, isolation_level=isolation_level, request_timeout=limit_seconds)

    def is_known(answer: ListOffsetsResultInfo) -> bool:
        return is_known_offset(answer.offset, is_by_time=is_by_time)

    try:
        rights = [topic_right("DESCRIBE", topic.name)]
        what = f"{doing} of topic {topic.name}"
        answers = ask(topic.client_config, what, request, seconds=seconds, rights=rights, is_known=is_known)
    except UnavailableError as error:
        if is_without_leader(error):
            describe_topic(topic)  # raises NotFoundError when that is the reason
        raise
    return dict(zip(partitions, answers, strict=True))
