"""The way out that an error of Kafka's names is that of what was asked for."""

from __future__ import annotations

from typing import NoReturn

import pytest
from confluent_kafka import KafkaError

from lakelog.common.errors import NotFoundError, UnavailableError
from lakelog.logstore.kafka.clients.kafka_errors import kafka_error
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.records import foreign_topic
from lakelog.logstore.kafka.records.foreign_topic import ForeignHead, describe_foreign

TOPIC = KafkaTopic(client_config={"bootstrap.servers": "kafka:9092"}, name="shop.orders")


def test_a_missing_topic_of_others_is_not_to_be_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """`lakelog log renew` would give the table another log, and help nothing."""

    def missing(*_: object, **__: object) -> NoReturn:
        raise kafka_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), "describing", TOPIC.client_config)

    monkeypatch.setattr(foreign_topic, "ask", missing)
    head = ForeignHead(TOPIC, None)
    for asked in (lambda: describe_foreign(TOPIC), head.ends, head.starts):
        with pytest.raises(NotFoundError, match=r"topic shop\.orders does not exist in Kafka at kafka:9092") as caught:
            asked()
        assert "renew" not in str(caught.value)
        assert "bootstrap_servers" in str(caught.value)


def test_a_kafka_that_is_down_names_every_way_in_which_servers_are_given() -> None:
    error = kafka_error(KafkaError(KafkaError._ALL_BROKERS_DOWN), "describing", TOPIC.client_config)
    assert isinstance(error, UnavailableError)
    for way in ("log.kafka.bootstrap.servers", "bootstrap_servers", "profile", "LAKELOG_KAFKA_BOOTSTRAP_SERVERS"):
        assert way in str(error)
