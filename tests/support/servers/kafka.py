"""A real Kafka for tests: one that is named, else one in Docker, else the embedded broker. Never none."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import docker
from confluent_kafka.admin import AdminClient
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.broker.kafka_jars import KAFKA_VERSION

SERVERS_KEY = "LAKELOG_TEST_BOOTSTRAP_SERVERS"
_DOCKER_SOCKET = Path("/var/run/docker.sock")


@contextmanager
def running_kafka(folder: Path) -> Iterator[str]:
    """The bootstrap servers of a Kafka that serves; `folder` is for the embedded broker."""
    named = os.environ.get(SERVERS_KEY)
    with ExitStack() as stack:
        if named:
            yield named
            return
        if docker_answers():
            try:
                servers = stack.enter_context(kafka_in_docker())
            except Exception as error:  # noqa: BLE001  # an image, a network, a port: whatever Docker lacks here
                print(f"Docker answers and gives no Kafka ({error!r}); taking the embedded broker", file=sys.stderr)
            else:
                yield servers
                return
        broker = EmbeddedBroker(folder)
        stack.callback(broker.stop)
        yield broker.start().bootstrap_servers


def docker_answers() -> bool:
    """Whether a Docker daemon serves here."""
    if "DOCKER_HOST" not in os.environ and not _DOCKER_SOCKET.exists():
        return False
    try:
        client = docker.from_env(timeout=5)
        client.ping()
    except (docker.errors.DockerException, OSError):
        return False
    client.close()
    return True


@contextmanager
def kafka_in_docker() -> Iterator[str]:
    """Apache Kafka's own image, at a port of this machine that it advertises."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    container = DockerContainer(f"apache/kafka:{KAFKA_VERSION}").with_bind_ports(port, port)
    settings = {
        "NODE_ID": "1",
        "PROCESS_ROLES": "broker,controller",
        "LISTENERS": f"BROKER://:{port},CONTROLLER://:9093",
        "ADVERTISED_LISTENERS": f"BROKER://127.0.0.1:{port}",
        "LISTENER_SECURITY_PROTOCOL_MAP": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "INTER_BROKER_LISTENER_NAME": "BROKER",
        "CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        "AUTO_CREATE_TOPICS_ENABLE": "false",
        "OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
        "SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR": "1",
    }
    for key, value in settings.items():
        container.with_env(f"KAFKA_{key}", value)
    container.waiting_for(LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(120))
    servers = f"127.0.0.1:{port}"
    with container:
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        admin.list_topics(timeout=20)  # Docker may serve another machine than this one
        yield servers
