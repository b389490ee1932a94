"""A topic as a value: it travels to the workers, and its settings are shown nowhere."""

from __future__ import annotations

import pickle

from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic

TOPIC = KafkaTopic(client_config={"bootstrap.servers": "h:1", "sasl.password": "hunter2"}, name="t")


def test_no_repr_shows_the_settings_of_clients() -> None:
    for shown in (repr(TOPIC), repr(TOPIC.partition(3)), str(TOPIC.partition(3))):
        assert "hunter2" not in shown
        assert "h:1" not in shown


def test_a_partition_is_named_by_its_topic_and_its_number() -> None:
    assert str(TOPIC.partition(3)) == "topic t, partition 3"


def test_a_topic_is_the_same_in_another_process() -> None:
    assert pickle.loads(pickle.dumps(TOPIC.partition(3))) == TOPIC.partition(3)
