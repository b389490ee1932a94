"""Create, describe and delete the topic of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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

    `replication_factor` None takes the broker's default. Raises ConflictError when the topic is
    there already, UnavailableError when the broker does not answer, InvalidRequestError when it refuses.
    """
    raise NotImplementedError


def describe_topic(client_config: Mapping[str, str], name: str) -> TopicDescription:
    """The topic as the broker knows it. Raises NotFoundError, UnavailableError."""
    raise NotImplementedError


def delete_topic(client_config: Mapping[str, str], name: str) -> None:
    """Delete the topic; a topic that is not there is fine. Raises UnavailableError."""
    raise NotImplementedError
