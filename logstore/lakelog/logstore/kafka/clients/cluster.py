"""What a Kafka cluster reports about itself and a probe shows: brokers, rights, replicas, time."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any  # Any: confluent_kafka's descriptions are untyped

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # public, not declared

from lakelog.common.clock import Stopwatch
from lakelog.logstore.kafka.clients.clients import ANSWER_SECONDS, ask, connect, make_client
from lakelog.logstore.kafka.clients.connection_errors import collect_errors
from lakelog.logstore.kafka.clients.kafka_errors import kafka_error, servers_of
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.rights import READER_GROUP, Resource, Right, topic_right, transactional_right
from lakelog.logstore.kafka.clients.topic import create_topic, delete_topic
from lakelog.logstore.kafka.clients.transaction_timeout import TIMEOUT_KEY, choose_timeout_millis

PROBE_PREFIX = "lakelog-doctor-"
_PROBE_SETTINGS = {"message.timestamp.type": "LogAppendTime", "retention.ms": "600000"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A Kafka cluster: its id, the number of its brokers that run, and how long the answer took."""

    cluster_id: str
    broker_count: int
    millis: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """The smallest number of replicas of a topic's partitions: of all replicas, and of those in sync.

    `in_sync_min` is how many must be in sync for a write.
    """

    partition_count: int
    replicas_min: int
    in_sync: int
    in_sync_min: int
    without_leader: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A transaction in a topic of its own: how long it took, and how far the broker's clock is ahead of ours.

    The difference of the clocks is exact up to the time between request and answer, `uncertain_millis`.
    """

    millis: int
    ahead_millis: int
    uncertain_millis: int


def describe_cluster(client_config: Mapping[str, str]) -> Cluster:
    """The Kafka cluster of a configuration. Raises as `kafka_error`."""
    lasted = Stopwatch()
    doing = f"asking Kafka at {servers_of(client_config)} for its brokers"
    [found] = ask(client_config, doing, lambda admin, seconds: {0: admin.describe_cluster(request_timeout=seconds)})
    return Cluster(cluster_id=str(found.cluster_id), broker_count=len(found.nodes), millis=lasted.millis())


def topic_operations(topic: KafkaTopic) -> frozenset[str]:
    """The operations on a topic that Kafka allows this client, such as READ; all of them without an authorizer."""

    def request(admin: AdminClient, seconds: float) -> Mapping[str, Future[Any]]:
        names = TopicCollection([topic.name])
        return admin.describe_topics(names, include_authorized_operations=True, request_timeout=seconds)

    rights = [topic_right("DESCRIBE", topic.name)]
    [found] = ask(topic.client_config, f"asking for rights on topic {topic.name}", request, rights=rights)
    return frozenset(operation.name for operation in found.authorized_operations or ())


def group_operations(client_config: Mapping[str, str]) -> frozenset[str]:
    """The operations on the readers' group that Kafka allows this client."""

    def request(admin: AdminClient, seconds: float) -> Mapping[str, Future[Any]]:
        return admin.describe_consumer_groups(
            [READER_GROUP], include_authorized_operations=True, request_timeout=seconds
        )

    rights = [Right(operation="READ", resource=Resource.GROUP, name=READER_GROUP)]
    [found] = ask(client_config, f"asking for rights on group {READER_GROUP}", request, rights=rights)
    return frozenset(operation.name for operation in found.authorized_operations or ())


def replicas_of(topic: KafkaTopic) -> Replicas:
    """The copies of a topic. Raises as `describe_topic`."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic.name)

    def request(admin: AdminClient, seconds: float) -> dict[int, Future[Any]]:
        topics = admin.describe_topics(TopicCollection([topic.name]), request_timeout=seconds)
        configs = admin.describe_configs([resource], request_timeout=seconds)
        return dict(enumerate([*topics.values(), *configs.values()]))

    rights = [topic_right("DESCRIBE", topic.name), topic_right("DESCRIBE_CONFIGS", topic.name)]
    described, config = ask(topic.client_config, f"describing topic {topic.name}", request, rights=rights)
    partitions = described.partitions
    return Replicas(
        partition_count=len(partitions),
        replicas_min=min(len(one.replicas) for one in partitions),
        in_sync=min(len(one.isr) for one in partitions),
        in_sync_min=int(config["min.insync.replicas"].value),
        without_leader=tuple(one.id for one in partitions if one.leader is None or one.leader.id < 0),
    )


def try_transactions(client_config: Mapping[str, str], transactional_id: str) -> int:
    """Become the owner of an unused transactional id; returns the milliseconds. Writes no record.

    Raises MissingRightError, InvalidRequestError for a time-out that the broker refuses, UnavailableError.
    """
    lasted = Stopwatch()
    _producer(client_config, transactional_id)
    return lasted.millis()


def try_topic(client_config: Mapping[str, str], clock: Callable[[], int]) -> Probe:
    """Create a topic, write one transaction to it, and delete it. Raises as `create_topic` and `try_transactions`."""
    name = f"{PROBE_PREFIX}{uuid.uuid4().hex[:12]}"
    topic = KafkaTopic(client_config=client_config, name=name)
    create_topic(topic, 1, config=_PROBE_SETTINGS)
    try:
        producer = _producer(client_config, name)
        doing = f"writing to topic {name}"
        times: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                times.append(message.timestamp()[1])

        lasted = Stopwatch()
        try:
            producer.begin_transaction()
            before = clock()
            producer.produce(name, b"lakelog doctor", on_delivery=delivered)
            producer.flush(ANSWER_SECONDS)
            after = clock()
            producer.commit_transaction(ANSWER_SECONDS)
        except KafkaException as error:
            raise kafka_error(error.args[0], doing, client_config, right=topic_right("WRITE", name)) from error
        middle = (before + after) // 2
        ahead_millis = times[0] - middle if times else 0
        return Probe(millis=lasted.millis(), ahead_millis=ahead_millis, uncertain_millis=(after - before) // 2 + 1)
    finally:
        delete_topic(topic)


def _producer(client_config: Mapping[str, str], transactional_id: str) -> Producer:
    millis = choose_timeout_millis(client_config, 0)
    own = {"transactional.id": transactional_id, "enable.idempotence": "true", TIMEOUT_KEY: str(millis)}
    producer = make_client(Producer, client_config, own)
    try:
        connect(producer, ANSWER_SECONDS)
        producer.init_transactions(ANSWER_SECONDS)
    except KafkaException as error:
        collect_errors(producer)
        right = transactional_right(transactional_id[: transactional_id.rfind("-") + 1], is_prefix=True)
        doing = f"taking the transactional id {transactional_id}"
        raise kafka_error(error.args[0], doing, client_config, right=right) from error
    return producer
