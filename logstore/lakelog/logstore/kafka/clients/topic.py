"""Create, describe and delete the topic of a table, and the records at its beginning."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any  # Any: confluent_kafka's descriptions are untyped

from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names, not declared as exported
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from lakelog.common.errors import NotFoundError
from lakelog.logstore.kafka.clients.clients import ANSWER_SECONDS, ask
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.rights import topic_right
from lakelog.logstore.options import TOPIC_KEEPS

_LOOK_AGAIN_SECONDS = 0.02
_AS_KAFKA_PRINTS_IT = str.maketrans("+/", "-_")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as the broker describes it. `topic_id` changes when a topic is deleted and created again.

    `deletes_by` are the settings, with their values, that make Kafka delete records that lakelog may still need.
    """

    name: str
    topic_id: str
    partition_count: int
    max_message_bytes: int
    deletes_by: Mapping[str, str] = field(default_factory=dict)


def create_topic(
    topic: KafkaTopic,
    partition_count: int,
    replication_factor: int | None = None,
    config: Mapping[str, str] | None = None,
) -> str:
    """Create the topic and return its id.

    `replication_factor` None takes the broker's default. Raises ConflictError when the topic exists already,
    UnavailableError when the broker does not answer, InvalidRequestError when the broker refuses.
    """
    new = NewTopic(topic.name, partition_count, replication_factor or -1, config=dict(config or {}))
    ask(
        topic.client_config,
        f"creating topic {topic.name}",
        lambda admin, seconds: admin.create_topics([new], operation_timeout=seconds, request_timeout=seconds),
        may_repeat=False,
        rights=[topic_right("CREATE", topic.name)],
    )
    return _wait_for_topic(topic).topic_id


def _wait_for_topic(topic: KafkaTopic) -> TopicDescription:
    """The topic that was just created: other brokers learn of it a little later."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return describe_topic(topic)
        except NotFoundError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_AGAIN_SECONDS)


def describe_topic(topic: KafkaTopic) -> TopicDescription:
    """The topic as the broker describes it. Raises NotFoundError, UnavailableError."""
    doing = f"describing topic {topic.name}"
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic.name)

    def request(admin: AdminClient, seconds: float) -> dict[int, Future[Any]]:
        topics = admin.describe_topics(TopicCollection([topic.name]), request_timeout=seconds)
        configs = admin.describe_configs([resource], request_timeout=seconds)
        return dict(enumerate([*topics.values(), *configs.values()]))

    rights = [topic_right("DESCRIBE", topic.name), topic_right("DESCRIBE_CONFIGS", topic.name)]
    described, config = ask(topic.client_config, doing, request, rights=rights)
    return TopicDescription(
        name=topic.name,
        topic_id=str(described.topic_id).translate(_AS_KAFKA_PRINTS_IT),
        partition_count=len(described.partitions),
        max_message_bytes=int(config["max.message.bytes"].value),
        deletes_by={
            key: config[key].value for key, kept in TOPIC_KEEPS.items() if key in config and config[key].value != kept
        },
    )


def keep_all_records(topic: KafkaTopic) -> None:
    """Configure the topic so that Kafka deletes no records. Raises InvalidRequestError if it may not."""
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in TOPIC_KEEPS.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic.name, incremental_configs=entries)
    ask(
        topic.client_config,
        f"setting what topic {topic.name} keeps",
        lambda admin, seconds: admin.incremental_alter_configs([resource], request_timeout=seconds),
        rights=[topic_right("ALTER_CONFIGS", topic.name)],
    )


def delete_records(topic: KafkaTopic, ends: Mapping[int, int]) -> None:
    """Delete the records before `ends`: partition -> the first offset that stays. Raises UnavailableError.

    A request with older offsets changes nothing.
    """
    asked = [TopicPartition(topic.name, partition, end) for partition, end in sorted(ends.items())]
    ask(
        topic.client_config,
        f"deleting old records of topic {topic.name}",
        lambda admin, seconds: admin.delete_records(asked, request_timeout=seconds, operation_timeout=seconds),
        rights=[topic_right("DELETE", topic.name)],
    )


def delete_topic(topic: KafkaTopic) -> None:
    """Delete the topic; a missing topic is fine. Raises UnavailableError."""
    try:
        ask(
            topic.client_config,
            f"deleting topic {topic.name}",
            lambda admin, seconds: admin.delete_topics(
                [topic.name], operation_timeout=seconds, request_timeout=seconds
            ),
            may_repeat=False,
            rights=[topic_right("DELETE", topic.name)],
        )
    except NotFoundError:
        return
