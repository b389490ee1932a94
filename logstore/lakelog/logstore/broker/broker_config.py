"""The settings of the embedded broker's process: its ports, its Kafka configuration, its command line."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lakelog.common.errors import CorruptDataError
from lakelog.common.json_fields import parse_object, string, whole
from lakelog.common.quoting import cause, shown
from lakelog.logstore.broker.broker_files import read_file, write_new

HOST = "127.0.0.1"
# Below the ports that operating systems give to outgoing connections, so that a port is still free after a restart.
_PORTS = range(20_000, 32_000)
_NODE_ID = 1
_PORT_NUMBERS = range(1, 1 << 16)
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The address of a folder's broker, kept in `endpoint.json` so that clients find it again after a restart."""

    port: int
    controller_port: int
    cluster_id: str

    @property
    def bootstrap_servers(self) -> str:
        """The address for Kafka clients."""
        return f"{HOST}:{self.port}"

    def serves(self) -> bool:
        """Whether the cluster of this folder answers Kafka requests here."""
        try:
            socket.create_connection((HOST, self.port), timeout=1.0).close()
        except OSError:
            return False
        client = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        try:
            return client.list_topics(timeout=1.0).cluster_id == self.cluster_id
        except KafkaException:
            return False

    def write(self, path: Path) -> None:
        """Replace the file at `path`, in one step."""
        temporary = path.with_name(f".{path.name}-{os.getpid()}")
        write_new(temporary, json.dumps(asdict(self)))
        temporary.replace(path)

    @classmethod
    def read(cls, path: Path) -> Endpoint | None:
        """The endpoint in the file, or None when there is no file. Raises CorruptDataError.

        The file may come from others, and its values go into Kafka's properties: so each value is checked.
        """
        try:
            found = parse_object(read_file(path))
            port, controller_port = (whole(found, key, _PORT_NUMBERS) for key in ("port", "controller_port"))
            cluster_id = string(found, "cluster_id")
            if not _CLUSTER_ID.fullmatch(cluster_id):
                raise ValueError(f"cluster_id {shown(cluster_id)} is not a UUID of Kafka")
            return cls(port=port, controller_port=controller_port, cluster_id=cluster_id)
        except FileNotFoundError:
            return None
        except (KeyError, ValueError) as error:
            raise CorruptDataError(
                f"{path} is not readable ({cause(error)}); delete it and start the broker again"
            ) from error


def choose_endpoint(rng: random.Random, *, port: int | None = None, cluster_id: str | None = None) -> Endpoint:
    """An endpoint on free ports; `port` is taken as given."""
    controller_port = _free_port(rng, taken=port)
    return Endpoint(
        port=port or _free_port(rng, taken=controller_port),
        controller_port=controller_port,
        cluster_id=cluster_id or _new_cluster_id(),
    )


def is_port_free(port: int) -> bool:
    """Whether no process listens at the port of this machine's loopback address."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _free_port(rng: random.Random, *, taken: int | None) -> int:
    while True:
        port = rng.choice(_PORTS)
        if port != taken and is_port_free(port):
            return port


def _new_cluster_id() -> str:
    """A UUID in Kafka's form: 22 letters of base64. Never begins like a command line option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def server_properties(endpoint: Endpoint, data_dir: Path) -> str:
    """The properties of a broker that is its own controller: no replicas, small buffers, loopback only."""
    settings = {
        "process.roles": "broker,controller",
        "listeners": f"BROKER://{HOST}:{endpoint.port},CONTROLLER://{HOST}:{endpoint.controller_port}",
        "advertised.listeners": f"BROKER://{HOST}:{endpoint.port}",
        "inter.broker.listener.name": "BROKER",
        **_node(endpoint, data_dir),
        # After a kill, Kafka accepts a successor only when this session has ended. Default: 9 s, with a heartbeat every
        # 2 s.
        "broker.session.timeout.ms": 3_000,
        "broker.heartbeat.interval.ms": 300,
        # How often Kafka aborts transactions past their time-out, which hide records behind them. Default: 10 s.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
        "auto.create.topics.enable": "false",
        "default.replication.factor": 1,
        "min.insync.replicas": 1,
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.dedupe.buffer.size": 4 << 20,
        "num.io.threads": 4,
        "num.network.threads": 2,
    }
    for topic in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
        settings[f"{topic}.num.partitions"] = 4
        settings[f"{topic}.replication.factor"] = 1
    for topic in ("transaction.state.log", "share.coordinator.state.topic"):
        settings[f"{topic}.min.isr"] = 1
    return _to_text(settings)


def controller_properties(endpoint: Endpoint, data_dir: Path) -> str:
    """The properties of the controller alone, which fences a killed broker after a second."""
    settings = {
        "process.roles": "controller",
        "listeners": f"CONTROLLER://{HOST}:{endpoint.controller_port}",
        "broker.session.timeout.ms": 1_000,
        **_node(endpoint, data_dir),
    }
    return _to_text(settings)


def _node(endpoint: Endpoint, data_dir: Path) -> dict[str, object]:
    return {
        "node.id": _NODE_ID,
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{_NODE_ID}@{HOST}:{endpoint.controller_port}",
        "log.dirs": _escape(str(data_dir)),
    }


def _to_text(settings: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _escape(text: str) -> str:
    """The value in Java's properties syntax, which is Latin-1 with escapes."""
    escaped = text.replace("\\", "\\\\")
    utf16 = escaped.encode("utf-16-be")
    units = (int.from_bytes(utf16[at : at + 2], "big") for at in range(0, len(utf16), 2))
    return "".join(chr(unit) if 0x20 <= unit < 0x7F else f"\\u{unit:04x}" for unit in units)


LOG4J_PROPERTIES = """status=error
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.console.ref=console
"""


def java_command(
    java: Path, jars: Sequence[Path], log4j: Path, main: str, *arguments: str | Path, options: Sequence[str] = ()
) -> list[str]:
    """The command line of a Java program of Kafka's. Tuned for a fast start and little memory, not for throughput.

    `options` are further options of the JVM.
    """
    return [
        str(java),
        *options,
        "-Xms64m",
        "-Xmx384m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",
        "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile={log4j}",
        "-cp",
        os.pathsep.join(map(str, jars)),
        main,
        *map(str, arguments),
    ]
