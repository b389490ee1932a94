"""Create, describe and delete the topic of a table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any  # Any: confluent_kafka's descriptions are untyped

from confluent_kafka import TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names, not declared as exported
    AdminClient,
    ConfigResource,
    NewTopic,
)

from lakelog.common.errors import NotFoundError
from lakelog.logstore.clients import ANSWER_SECONDS, ask

_LOOK_AGAIN_SECONDS = 0.02
_AS_KAFKA_PRINTS_IT = str.maketrans("+/", "-_")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as the broker knows it. `topic_id` changes when a topic is deleted and made again."""

    name: str
    topic_id: str
    partition_count: int
    max_message_bytes: int


def create_topic(
    client_config: Mapping[str, str],
    name: str,
    partition_count: int,
    replication_factor: int | None = None,
    config: Mapping[str, str] | None = None,
) -> str:
    """Create the topic and give back its id.

    `replication_factor` None takes the broker's default. Raises ConflictError when the topic is there already,
    UnavailableError when the broker does not answer, InvalidRequestError when it refuses.
    """
    topic = NewTopic(name, partition_count, replication_factor or -1, config=dict(config or {}))
    ask(
        client_config,
        f"creating topic {name}",
        lambda admin, seconds: admin.create_topics([topic], operation_timeout=seconds, request_timeout=seconds),
        may_repeat=False,
    )
    return _wait_for_topic(client_config, name).topic_id


def _wait_for_topic(client_config: Mapping[str, str], name: str) -> TopicDescription:
    """The topic that was just created: brokers hear of it a moment later than the one that was asked."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return describe_topic(client_config, name)
        except NotFoundError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_AGAIN_SECONDS)


def describe_topic(client_config: Mapping[str, str], name: str) -> TopicDescription:
    """The topic as the broker knows it. Raises NotFoundError, UnavailableError."""
    doing = f"describing topic {name}"
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)

    def request(admin: AdminClient, seconds: float) -> dict[int, Future[Any]]:
        topics = admin.describe_topics(TopicCollection([name]), request_timeout=seconds)
        configs = admin.describe_configs([resource], request_timeout=seconds)
        return dict(enumerate([*topics.values(), *configs.values()]))

    described, config = ask(client_config, doing, request)
    return TopicDescription(
        name=name,
        topic_id=str(described.topic_id).translate(_AS_KAFKA_PRINTS_IT),
        partition_count=len(described.partitions),
        max_message_bytes=int(config["max.message.bytes"].value),
    )


def delete_topic(client_config: Mapping[str, str], name: str) -> None:
    """Delete the topic; a topic that is not there is fine. Raises UnavailableError."""
    try:
        ask(
            client_config,
            f"deleting topic {name}",
            lambda admin, seconds: admin.delete_topics([name], operation_timeout=seconds, request_timeout=seconds),
            may_repeat=False,
        )
    except NotFoundError:
        return
