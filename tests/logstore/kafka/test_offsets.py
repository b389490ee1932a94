"""What counts as the answer to a question for an offset, and that any other answer is asked again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from lakelog.common.errors import UnavailableError
from lakelog.logstore.kafka.clients import clients, offsets
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.offsets import Position
from tests.support.logs.unknown_offsets import UNKNOWN, OffsetAnswers

TOPIC = KafkaTopic(client_config={"bootstrap.servers": "127.0.0.1:9"}, name="t")
QUESTIONS: dict[str, Callable[[], object]] = {
    "high watermarks": lambda: offsets.high_watermarks(TOPIC, 2),
    "high watermark": lambda: offsets.high_watermark(TOPIC.partition(1)),
    "last stable offsets": lambda: offsets.last_stable_offsets(TOPIC, 2),
    "log starts": lambda: offsets.log_start_offsets(TOPIC, 2),
    "log start": lambda: offsets.log_start_offset(TOPIC.partition(0)),
    "at a time": lambda: offsets.offsets_since(TOPIC, 2, 1_000),
}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> OffsetAnswers:
    """The answers of a client that never asks a broker."""
    monkeypatch.setattr(clients, "connect", lambda *_client, **_topic: None)
    monkeypatch.setattr(clients, "_admins", clients.ClientPool[AdminClient](4, close=lambda _admin: None))
    return OffsetAnswers.into(monkeypatch)


@pytest.mark.parametrize("question", list(QUESTIONS))
@pytest.mark.parametrize("answer", [UNKNOWN, -1000, -2])
def test_an_answer_that_means_unknown_is_no_offset(answers: OffsetAnswers, question: str, answer: int) -> None:
    answers.left, answers.is_endless = [answer], True

    with pytest.raises(UnavailableError, match=r"topic t: Kafka at 127.0.0.1:9 gave neither an answer nor an error"):
        QUESTIONS[question]()


@pytest.mark.parametrize("question", list(QUESTIONS))
def test_an_answer_that_means_unknown_is_asked_again_by_another_client(answers: OffsetAnswers, question: str) -> None:
    answers.left = [0]
    QUESTIONS[question]()
    answers.left = [UNKNOWN, 7]
    found = QUESTIONS[question]()

    at = Position(offset=7, leader_epoch=None)
    assert found in (at, {0: at, 1: at}, {0: 7, 1: 7})
    assert answers.asked == 3


def test_minus_one_means_no_record_to_a_question_by_time_alone(answers: OffsetAnswers) -> None:
    answers.left, answers.is_endless = [-1], True

    assert offsets.offsets_since(TOPIC, 2, 1_000) == {0: None, 1: None}
    for question in set(QUESTIONS) - {"at a time"}:
        with pytest.raises(UnavailableError):
            QUESTIONS[question]()
