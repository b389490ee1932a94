"""A Kafka that asks for TLS, a user with a password (SCRAM), and rights: Apache Kafka in a process of its own.

Its listeners: `servers` with TLS and SCRAM; `elsewhere` the same with a certificate for another host; `plain` without
either, where the client is a super user, for the tests themselves. Certificates are made by openssl, for two days.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names, not declared as exported
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from lakelog.logstore.broker.broker_config import (
    HOST,
    LOG4J_PROPERTIES,
    choose_endpoint,
    is_port_free,
    java_command,
    server_properties,
)
from lakelog.logstore.broker.java import find_java
from lakelog.logstore.broker.kafka_jars import ensure_jars
from lakelog.logstore.kafka.clients.rights import Resource, Right

MECHANISM = "SCRAM-SHA-512"
PASSWORDS = {name: f"{name}-Pa55-7f3e" for name in ("lake", "reader", "writer", "admin", "stranger")}
SUPER_USER = "lake"
_START_SECONDS = 240.0
_TYPES = {
    Resource.TOPIC: ResourceType.TOPIC,
    Resource.GROUP: ResourceType.GROUP,
    Resource.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureKafka:
    """Its addresses, and the files of the authority that signed its certificates and of another one."""

    servers: str
    elsewhere: str
    plain: str
    authority: Path
    other_authority: Path

    def settings(self, user: str = SUPER_USER, **changed: str) -> dict[str, str]:
        """The settings of a client that is this user; `changed` has underscores for dots."""
        settings = {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": PASSWORDS[user],
        }
        return settings | {key.replace("_", "."): value for key, value in changed.items()}

    def call_options(self, user: str = SUPER_USER, **changed: str) -> dict[str, str]:
        """The same as options of `Catalog` and `open_table`."""
        return {f"kafka.{key}": value for key, value in self.settings(user, **changed).items()}

    def grant(self, user: str, rights: Sequence[Right]) -> None:
        """Give the user these rights and no others."""
        admin = AdminClient({"bootstrap.servers": self.plain})
        every = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]  # None is any name, and is declared as a string
            ResourcePatternType.ANY,
            f"User:{user}",
            None,  # type: ignore[arg-type]  # any host, likewise
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for future in admin.delete_acls([every]).values():
            future.result(20)
        new = [
            AclBinding(
                _TYPES[right.resource],
                right.name,
                ResourcePatternType.PREFIXED if right.is_prefix else ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                AclOperation[right.operation],
                AclPermissionType.ALLOW,
            )
            for right in rights
        ]
        if new:
            for future in admin.create_acls(new).values():
                future.result(20)
        deadline = time.monotonic() + 20
        while len(admin.describe_acls(every).result(20)) != len(new):  # the broker learns of them from its controller
            assert time.monotonic() < deadline, "the rights do not arrive"


@contextmanager
def secure_kafka(folder: Path) -> Iterator[SecureKafka]:
    """Start it in a folder, and end it."""
    authority, other = _make_authority(folder, "authority"), _make_authority(folder, "other")
    _make_certificate(folder, "secure", f"IP:{HOST},DNS:localhost")
    _make_certificate(folder, "elsewhere", "DNS:broker.example")
    endpoint = choose_endpoint(random.Random())
    ports = _free_ports(2, taken={endpoint.port, endpoint.controller_port})
    addresses = {"BROKER": endpoint.port, "SECURE": ports[0], "ELSEWHERE": ports[1]}
    text = server_properties(endpoint, folder / "data") + _secure_properties(
        folder, addresses, endpoint.controller_port
    )
    properties, log4j = folder / "server.properties", folder / "log4j2.properties"
    properties.write_text(text)
    log4j.write_text(LOG4J_PROPERTIES)
    java, jars = find_java(os.environ), ensure_jars(os.environ)
    users = [f"{MECHANISM}=[name={name},password={password}]" for name, password in PASSWORDS.items()]
    formatted = ["format", "--cluster-id", endpoint.cluster_id, "--config", str(properties)]
    formatted += [word for user in users for word in ("--add-scram", user)]
    subprocess.run(
        java_command(java, jars, log4j, "kafka.tools.StorageTool", *formatted), check=True, capture_output=True
    )
    with (folder / "broker.log").open("wb") as log:
        command = java_command(java, jars, log4j, "kafka.Kafka", properties)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        plain = f"{HOST}:{endpoint.port}"
        _await(plain, process, folder / "broker.log")
        yield SecureKafka(
            servers=f"{HOST}:{ports[0]}",
            elsewhere=f"{HOST}:{ports[1]}",
            plain=plain,
            authority=authority,
            other_authority=other,
        )
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _secure_properties(folder: Path, addresses: Mapping[str, int], controller_port: int) -> str:
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in addresses.items())
    settings = {
        "listeners": f"{listeners},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,ELSEWHERE:SASL_SSL",
        "sasl.enabled.mechanisms": MECHANISM,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
    }
    for name in ("secure", "elsewhere"):
        login = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        settings[f"listener.name.{name}.{MECHANISM.lower()}.sasl.jaas.config"] = login
        settings[f"listener.name.{name}.ssl.keystore.type"] = "PEM"
        settings[f"listener.name.{name}.ssl.keystore.location"] = str(folder / f"{name}.pem")
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def _make_authority(folder: Path, name: str) -> Path:
    pem = folder / f"{name}.pem"
    _openssl("-x509", "-keyout", folder / f"{name}.key", "-out", pem, "-subj", f"/CN={name} of tests")
    return pem


def _make_certificate(folder: Path, name: str, alternative_names: str) -> None:
    """A certificate that the first authority signs, with its key, in one file."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    signed: list[str | Path] = ["-x509", "-CA", folder / "authority.pem", "-CAkey", folder / "authority.key"]
    more = ["-addext", f"subjectAltName={alternative_names}", "-addext", "basicConstraints=critical,CA:FALSE"]
    _openssl(*signed, "-keyout", key, "-out", certificate, "-subj", f"/CN={name}", *more)
    (folder / f"{name}.pem").write_text(key.read_text() + certificate.read_text())


def _openssl(*arguments: str | Path) -> None:
    command = ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-days", "2", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True)


def _free_ports(count: int, *, taken: set[int]) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        if port not in taken and port not in found and is_port_free(port):
            found.append(port)
    return found


def _await(servers: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    port = int(servers.rpartition(":")[2])
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection((HOST, port), timeout=1.0).close()
            AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(timeout=2.0)
        except (OSError, KafkaException):
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"Kafka with TLS does not start:\n{log.read_text()[-3_000:]}")
