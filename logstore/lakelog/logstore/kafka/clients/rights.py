"""Rights of Kafka's authorizer: those that a role needs on the log of a table, and how they are granted. Pure.

A right on a topic or group implies DESCRIBE of it, except CREATE, DESCRIBE_CONFIGS and ALTER_CONFIGS. Since Kafka 3.0
WRITE on a topic implies the cluster's IDEMPOTENT_WRITE. Source: Kafka documentation, "Authorization and ACLs".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

READER_GROUP = "lakelog-reader"
_USER = "sasl.username"


class Role(StrEnum):
    """What a user does with a log: `admin` creates, changes and drops tables, and writes and reads them."""

    READER = "reader"
    WRITER = "writer"
    ADMIN = "admin"


class Resource(StrEnum):
    """What a right is for, as `kafka-acls.sh` names its options."""

    TOPIC = "topic"
    GROUP = "group"
    TRANSACTIONAL_ID = "transactional-id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """An operation on a resource; with `is_prefix`, on all resources whose names begin with `name`."""

    operation: str
    resource: Resource
    name: str
    is_prefix: bool = False

    def __str__(self) -> str:
        star = "*" if self.is_prefix else ""
        return f"{self.operation} on {self.resource.value.replace('-', ' ')} {self.name}{star}"

    def grant_command(self, client_config: Mapping[str, str]) -> str:
        """The command by which an administrator of Kafka grants the right to the user of this configuration."""
        user = client_config.get(_USER) or "NAME"
        pattern = " --resource-pattern-type prefixed" if self.is_prefix else ""
        return (
            f"kafka-acls.sh --bootstrap-server {client_config.get('bootstrap.servers', 'HOST:PORT')} --add"
            f" --allow-principal User:{user} --operation {self.operation} --{self.resource.value} {self.name}{pattern}"
        )


_TOPIC_OPERATIONS = {
    Role.READER: ("READ", "DESCRIBE_CONFIGS"),
    Role.WRITER: ("READ", "WRITE", "DESCRIBE_CONFIGS", "DELETE"),
    Role.ADMIN: ("READ", "WRITE", "DESCRIBE_CONFIGS", "DELETE", "CREATE", "ALTER_CONFIGS"),
}


def least_rights(role: Role, *, topic: str, table_uuid: str) -> tuple[Right, ...]:
    """The rights that a role needs on the log of a table, and no others."""
    rights = [Right(operation=operation, resource=Resource.TOPIC, name=topic) for operation in _TOPIC_OPERATIONS[role]]
    rights.append(Right(operation="READ", resource=Resource.GROUP, name=READER_GROUP))
    if role is not Role.READER:
        rights.append(transactional_right(f"{table_uuid}-", is_prefix=True))
    return tuple(rights)


def topic_right(operation: str, topic: str) -> Right:
    """A right on one topic."""
    return Right(operation=operation, resource=Resource.TOPIC, name=topic)


def transactional_right(name: str, *, is_prefix: bool = False) -> Right:
    """The right to write as a transactional id."""
    return Right(operation="WRITE", resource=Resource.TRANSACTIONAL_ID, name=name, is_prefix=is_prefix)


def missing_text(rights: Iterable[Right], client_config: Mapping[str, str]) -> str:
    """The missing rights and the commands that grant them."""
    found = list(rights)
    user = client_config.get(_USER)
    who = f"user {user}" if user else "this client"
    commands = "; ".join(right.grant_command(client_config) for right in found)
    names = " and ".join(map(str, found))
    return f"{who} lacks the right {names}; an administrator of Kafka grants it: {commands}"
