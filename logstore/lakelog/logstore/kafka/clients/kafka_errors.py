"""Errors of Kafka clients as errors of lakelog; no message holds a secret."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException

from lakelog.common.errors import (
    ConflictError,
    FencedError,
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    TransactionTimeoutError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakelog.logstore.client_settings import SERVERS_WAYS, WAYS, without_secrets
from lakelog.logstore.kafka.clients.connection_errors import CONNECTION_ERRORS, LOGIN_CODES, NAME_CODES, TLS_CODES
from lakelog.logstore.kafka.clients.rights import READER_GROUP, Resource, Right, missing_text

_FENCED_CODES = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.TRANSACTION_COORDINATOR_FENCED,
    }
)
_MISSING_CODES = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
_REFUSED_CODES = frozenset(
    {
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
    }
)
_RIGHT_CODES = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_CLOSED_CODES = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._BAD_MSG})
_CERTIFICATE_WORDS = ("certificate", "verify", "hostname")  # else the connection broke during its handshake


class MissingRightError(InvalidRequestError):
    """Kafka's authorizer refuses a request: an administrator of Kafka must grant a right."""


def kafka_error(
    error: KafkaError, doing: str, client_config: Mapping[str, str], *, right: Right | None = None
) -> LakelogError:
    """The error of lakelog for a client's error while `doing`, which needs `right`."""
    error = CONNECTION_ERRORS.explained(error, client_config)
    servers, reason = servers_of(client_config), _reason(error, client_config)
    code = error.code()
    if code in _FENCED_CODES:
        return FencedError(f"{doing}: a younger producer with the same transactional id has taken over ({reason})")
    if code in _MISSING_CODES:
        return NotFoundError(
            f"{doing}: Kafka at {servers} has no such topic or partition ({reason}); check that"
            " log.kafka.bootstrap.servers names the right Kafka. If the topic was deleted, records in no snapshot are"
            " lost: batch reads still show the snapshots; `lakelog log renew TABLE` gives the table another topic, and"
            " streams that start again read the rest of this one from the files"
        )
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return ConflictError(f"{doing}: Kafka at {servers} has the topic already; choose another name or delete it")
    if code in _REFUSED_CODES:
        return InvalidRequestError(f"{doing}: Kafka at {servers} refuses it ({reason})")
    if code in _RIGHT_CODES:
        return _missing_right(error, f"{doing}: Kafka at {servers} refuses it ({reason})", client_config, right)
    return _not_connected(error, doing, client_config) or UnavailableError(
        f"{doing}: Kafka at {servers} did not do it ({reason}); check that the brokers run and that"
        f" {SERVERS_WAYS} names them{_protocol_hint(error, client_config)}, then try again"
    )


def _protocol_hint(error: KafkaError, client_config: Mapping[str, str]) -> str:
    """What else a closed connection may mean: a port that expects TLS, or one that does not."""
    if error.code() not in _CLOSED_CODES:
        return ""
    return f", and that their port takes security.protocol={client_config.get('security.protocol', 'PLAINTEXT')}"


def _missing_right(
    error: KafkaError, refused: str, client_config: Mapping[str, str], right: Right | None
) -> MissingRightError:
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        right = Right(operation="READ", resource=Resource.GROUP, name=READER_GROUP)
    if right is None:
        return MissingRightError(f"{refused}; an administrator of Kafka grants rights by kafka-acls.sh")
    return MissingRightError(f"{refused}: {missing_text([right], client_config)}")


def _not_connected(error: KafkaError, doing: str, client_config: Mapping[str, str]) -> LakelogError | None:
    """The error for a connection that the client or the broker refuses; None for other errors."""
    code, servers, reason = error.code(), servers_of(client_config), _reason(error, client_config)
    if code in LOGIN_CODES:
        return InvalidRequestError(
            f"{doing}: Kafka at {servers} refuses the user or the password ({reason}); correct sasl.username,"
            f" sasl.password or sasl.mechanism where they are given: {WAYS}"
        )
    if code in TLS_CODES and any(word in error.str().lower() for word in _CERTIFICATE_WORDS):
        return InvalidRequestError(
            f"{doing}: the certificate of Kafka at {servers} is not trusted ({reason}); ssl.ca.location must be the"
            " file of the authority that has signed it, and bootstrap.servers must have the host names that are in it"
        )
    if code in NAME_CODES:
        return UnavailableError(
            f"{doing}: Kafka at {servers} is not found ({reason}); check the host names in bootstrap.servers, and those"
            " that the brokers advertise (advertised.listeners)"
        )
    return None


def is_fenced(error: KafkaError) -> bool:
    """Whether the error says that a producer's epoch is no longer the newest of its transactional id."""
    return error.code() in _FENCED_CODES


def is_missing_right(error: KafkaError) -> bool:
    """Whether Kafka's authorizer refused a request."""
    return error.code() in _RIGHT_CODES


def transaction_error(error: KafkaError, doing: str, client_config: Mapping[str, str]) -> LakelogError:
    """FencedError, or UnknownOutcomeError for all other errors in a transaction."""
    if is_fenced(error):
        return kafka_error(error, doing, client_config)
    return unknown_outcome(_reason(error, client_config), doing, client_config)


def too_slow(open_seconds: float, timeout_millis: int, doing: str) -> TransactionTimeoutError:
    """The error for a transaction that its broker has aborted."""
    return TransactionTimeoutError(
        f"{doing}: the transaction was open for {open_seconds:.0f} s, longer than its transaction.timeout.ms of "
        f"{timeout_millis}, so Kafka has aborted it; write smaller batches, or allow more with the option "
        "log.kafka.transaction.timeout.ms (the broker's transaction.max.timeout.ms bounds it)"
    )


def refused_record(doing: str, client_config: Mapping[str, str]) -> InvalidRequestError:
    """The error for a record without a key in a topic that Kafka compacts; nothing of the transaction is committed."""
    return InvalidRequestError(
        f"{doing}: Kafka at {servers_of(client_config)} refuses a record without a key (INVALID_RECORD): the topic"
        " is compacted (cleanup.policy=compact), which a log must not be; `lakelog log repair TABLE` takes that back"
    )


def unknown_outcome(reason: str, doing: str, client_config: Mapping[str, str]) -> UnknownOutcomeError:
    """The error for a transaction that may be in the log."""
    return UnknownOutcomeError(
        f"{doing}: {reason}; the transaction may or may not be in the log at {servers_of(client_config)}: a new"
        " producer finds out from the tail"
    )


def is_without_leader(error: UnavailableError) -> bool:
    """Whether the client found no leader of a partition: the topic may be missing, or its broker down."""
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() == KafkaError._NOENT


def servers_of(client_config: Mapping[str, str]) -> str:
    """The servers that a configuration names."""
    return client_config.get("bootstrap.servers", "")


def _reason(error: KafkaError, client_config: Mapping[str, str]) -> str:
    return f"{error.name()}: {without_secrets(error.str(), client_config)}"
