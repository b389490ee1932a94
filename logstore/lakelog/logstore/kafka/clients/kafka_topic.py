"""A topic and its partitions, with the configuration that reaches their Kafka. Needs no Kafka client, does no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakelog.logstore.options import LogFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaTopic:
    """A topic, by its name, in the Kafka that `client_config` reaches.

    `client_config` is the configuration of Kafka clients. It holds secrets: no repr shows it. `is_transactional` is
    False for the log of a table with `log.consistency=eventual`: each offset is a record, and no record ends a
    transaction. `format` is what the values of a log's records are.
    """

    client_config: Mapping[str, str] = field(repr=False)
    name: str
    is_transactional: bool = True
    format: LogFormat = LogFormat.DEBEZIUM_JSON

    def partition(self, number: int) -> KafkaPartition:
        """The partition with this number, which may or may not exist."""
        return KafkaPartition(topic=self, number=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaPartition:
    """A partition of a topic. Its string is the name that messages use."""

    topic: KafkaTopic
    number: int

    @property
    def client_config(self) -> Mapping[str, str]:
        """The configuration of Kafka clients, as of the topic."""
        return self.topic.client_config

    def __str__(self) -> str:
        return f"topic {self.topic.name}, partition {self.number}"
