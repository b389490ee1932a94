"""What Kafka clients complain about becomes the error that says what to do, and holds no secret."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from lakelog.common.errors import (
    ConflictError,
    FencedError,
    InvalidRequestError,
    LakelogError,
    NotFoundError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakelog.logstore.client_settings import without_secrets
from lakelog.logstore.kafka.clients.connection_errors import CONNECTION_ERRORS
from lakelog.logstore.kafka.clients.kafka_errors import MissingRightError, kafka_error, transaction_error
from lakelog.logstore.kafka.clients.rights import topic_right

CONFIG = {"bootstrap.servers": "h:1", "sasl.password": "hunter2", "sasl.username": "me", "ssl.key.password": "s3cret"}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._FENCED, FencedError),
        (KafkaError.INVALID_PRODUCER_EPOCH, FencedError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, NotFoundError),
        (KafkaError.TOPIC_ALREADY_EXISTS, ConflictError),
        (KafkaError.INVALID_REPLICATION_FACTOR, InvalidRequestError),
        (KafkaError._TIMED_OUT, UnavailableError),
        (KafkaError._ALL_BROKERS_DOWN, UnavailableError),
    ],
)
def test_the_error_says_what_to_do(code: int, kind: type[LakelogError]) -> None:
    error = kafka_error(KafkaError(code, "reason"), "reading topic t", CONFIG)

    assert type(error) is kind
    assert str(error).startswith("reading topic t: ")


def test_in_a_transaction_everything_but_fencing_is_unknown() -> None:
    fenced = transaction_error(KafkaError(KafkaError._FENCED), "committing", CONFIG)
    other = transaction_error(KafkaError(KafkaError._TIMED_OUT), "committing", CONFIG)

    assert (type(fenced), type(other)) == (FencedError, UnknownOutcomeError)


@pytest.mark.parametrize("make", [kafka_error, transaction_error])
def test_no_message_holds_a_secret(make: object) -> None:
    assert callable(make)
    error = make(KafkaError(KafkaError._TIMED_OUT, "me:hunter2 s3cret failed"), "reading", CONFIG)

    assert "me:*** *** failed" in str(error)
    assert without_secrets("a me b", CONFIG) == "a me b"


def test_a_missing_right_is_named_with_the_command_that_grants_it() -> None:
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    error = kafka_error(refused, "reading topic t", CONFIG, right=topic_right("READ", "t"))

    assert type(error) is MissingRightError
    assert "user me lacks the right READ on topic t" in str(error)
    assert "kafka-acls.sh --bootstrap-server h:1 --add --allow-principal User:me --operation READ --topic t" in str(
        error
    )


def test_the_reason_of_a_callback_replaces_a_failure_without_one() -> None:
    config = {**CONFIG, "bootstrap.servers": "callback:1"}
    vague = KafkaError(KafkaError._TRANSPORT, "Failed to get metadata")
    assert type(kafka_error(vague, "reading", config)) is UnavailableError

    CONNECTION_ERRORS.listener(config)(KafkaError(KafkaError._SSL, "certificate verify failed: hunter2"))

    error = kafka_error(vague, "reading", config)
    assert type(error) is InvalidRequestError
    assert "certificate verify failed: ***" in str(error)
    assert type(kafka_error(vague, "reading", CONFIG)) is UnavailableError, "another configuration"
    other = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    assert type(kafka_error(other, "reading", config)) is NotFoundError, "an answer has its own reason"


def test_a_handshake_that_broke_off_is_retried() -> None:
    error = kafka_error(KafkaError(KafkaError._SSL, "Disconnected in the handshake"), "reading", CONFIG)
    assert type(error) is UnavailableError
