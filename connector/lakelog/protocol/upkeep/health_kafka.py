"""Checks of a Kafka for `lakelog doctor`: settings, brokers, rights, transactions, clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from lakelog.common.clock import system_millis
from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.common.quoting import listed
from lakelog.logstore.client_settings import SERVERS
from lakelog.logstore.kafka.clients.cluster import (
    describe_cluster,
    group_operations,
    topic_operations,
    try_topic,
    try_transactions,
)
from lakelog.logstore.kafka.clients.kafka_errors import MissingRightError
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.rights import READER_GROUP, Resource, Right, Role, least_rights, missing_text
from lakelog.protocol.access.servers import BrokerStoppedError, client_config_of
from lakelog.protocol.upkeep.health import Check, Finding, Status, ok, problem, run_checks, skipped, warning

CLOCK_MILLIS_MAX = 5_000
SLOW_MILLIS = 3_000
Result = tuple[Status, str, str | None]
_NOT_VERIFIED = {"enable.ssl.certificate.verification": "false", "ssl.endpoint.identification.algorithm": "none"}


@dataclass(slots=True, kw_only=True)
class KafkaChecks:
    """The checks of a Kafka for a role. With `may_write`, a topic is created temporarily."""

    settings: Callable[[], Mapping[str, str]]
    role: Role
    clock: Callable[[], int]
    may_write: bool
    doctor_id: str = "lakelog-doctor-0"

    def checks(self) -> list[Check]:
        """The checks, in the order in which they need each other."""
        return [
            Check(name="settings", look=self._settings),
            Check(name="broker", look=self._broker, needs="settings"),
            Check(name="transactions", look=self._transactions, needs="broker"),
            Check(name="clock", look=self._clock, needs="broker"),
        ]

    def _settings(self) -> Iterator[Result]:
        settings = self.settings()
        protocol = settings.get("security.protocol", "PLAINTEXT").upper()
        user = settings.get("sasl.username")
        yield ok(f"{settings[SERVERS]}, {protocol}" + (f", user {user}" if user else ""))
        for key, value in _NOT_VERIFIED.items():
            if settings.get(key, "").lower() == value:
                yield warning(
                    f"{key}={value}: whoever answers at that address gets the password",
                    "remove it, and name the authority of the brokers' certificates in ssl.ca.location",
                )

    def _broker(self) -> Iterator[Result]:
        found = describe_cluster(self.settings())
        text = f"cluster {found.cluster_id}, {found.broker_count} brokers, answered in {found.millis} ms"
        if found.millis > SLOW_MILLIS:
            yield warning(text, "each batch waits for several answers: check the network and the load of the brokers")
        else:
            yield ok(text)

    def _transactions(self) -> Iterator[Result]:
        if self.role is Role.READER:
            yield skipped("a reader has no transactions")
            return
        millis = try_transactions(self.settings(), self.doctor_id)
        text = f"a producer became the owner of its transactional id in {millis} ms"
        if millis > SLOW_MILLIS:
            yield warning(text, "check the load of the brokers and the replicas of topic __transaction_state")
        else:
            yield ok(text)

    def _clock(self) -> Iterator[Result]:
        if not self.may_write:
            yield skipped("the broker's clock is seen when a topic is created and written: --read-only leaves it out")
            return
        try:
            probe = try_topic(self.settings(), self.clock)
        except MissingRightError:
            yield skipped(
                "the broker's clock is seen when a topic lakelog-doctor-* is created and written, and this user has no"
                " right to"
            )
            return
        ahead, exact = probe.ahead_millis, probe.uncertain_millis
        text = f"the broker's clock is {abs(ahead)} ms {'ahead of' if ahead >= 0 else 'behind'} this one, +- {exact} ms"
        if abs(ahead) > CLOCK_MILLIS_MAX + exact:
            yield problem(
                text,
                "synchronize the clocks by NTP: log.retention, the times of snapshots, reads from a time and the leases"
                " of streams go by them",
            )
        else:
            yield ok(f"{text}; a transaction took {probe.millis} ms")


def rights_check(settings: Callable[[], Mapping[str, str]], role: Role, topic: str, table_uuid: str) -> Check:
    """Checks that this user has the rights of the role on a table's log; those on transactional ids are tried out."""

    def look() -> Iterator[Result]:
        config = settings()
        allowed = topic_operations(KafkaTopic(client_config=config, name=topic))
        wanted = least_rights(role, topic=topic, table_uuid=table_uuid)
        missing = [one for one in wanted if one.resource is Resource.TOPIC and one.operation not in allowed]
        missing += _missing_group(config)
        if missing:
            yield problem(f"role {role}: {missing_text(missing, config)}", "grant it, or use --as another role")
        else:
            names = ", ".join(one.operation for one in wanted if one.resource is Resource.TOPIC)
            yield ok(f"role {role}: {names} on topic {topic}")

    return Check(name="rights", look=look, needs="broker")


def _missing_group(config: Mapping[str, str]) -> list[Right]:
    right = Right(operation="READ", resource=Resource.GROUP, name=READER_GROUP)
    try:
        return [] if right.operation in group_operations(config) else [right]
    except MissingRightError:
        return [right]


def examine_kafka(warehouse: str, given: Mapping[str, str], *, role: str, may_write: bool) -> Iterator[Finding]:
    """The findings about the Kafka of a warehouse, whose settings are in `given`. No broker is started for them.

    Raises InvalidRequestError for an unknown role.
    """
    settings = cache(lambda: client_config_of({}, warehouse, given=given, starts_broker=False))
    with suppress(LakelogError):  # which the first check reports
        try:
            settings()
        except BrokerStoppedError as error:
            return iter([Finding(check="settings", status=Status.SKIPPED, found=str(error))])
    checks = KafkaChecks(settings=settings, role=role_of(role), clock=system_millis, may_write=may_write)
    return run_checks(checks.checks())


def role_of(name: str) -> Role:
    """The role with a name. Raises InvalidRequestError."""
    try:
        return Role(name)
    except ValueError as error:
        raise InvalidRequestError(f"role is {name!r}; expected {listed(Role)}") from error
