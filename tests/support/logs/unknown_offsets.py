"""Answers of Kafka's client with neither an error nor an offset, as where a broker is stopped while it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any  # Any: confluent_kafka's questions and answers are untyped

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names, not declared as exported
    AdminClient,
    ListOffsetsResultInfo,
)

UNKNOWN = -1001  # librdkafka's RD_KAFKA_OFFSET_INVALID, seen with 2.16
_CLIENTS_OF_A_QUESTION = 2  # a kept one, then a new one


@dataclass(slots=True)
class OffsetAnswers:
    """What every client of this process answers to questions for offsets, one of `left` a question.

    Kafka answers the first questions, as many as `after` says, and those without any left. `asked` counts all.
    """

    left: list[int] = field(default_factory=list)
    after: int = 0
    is_endless: bool = False  # the first of them answers every question
    asked: int = 0

    @classmethod
    def into(cls, monkeypatch: pytest.MonkeyPatch) -> OffsetAnswers:
        """Put these answers before those of Kafka."""
        answers, ask = cls(), AdminClient.list_offsets

        def list_offsets(
            admin: AdminClient, asked: dict[TopicPartition, Any], **settings: Any
        ) -> Mapping[TopicPartition, Future[ListOffsetsResultInfo]]:
            answers.asked += 1
            if not answers.left or answers.asked <= answers.after:
                found: Mapping[TopicPartition, Future[ListOffsetsResultInfo]] = ask(admin, asked, **settings)
                return found
            offset = answers.left[0] if answers.is_endless else answers.left.pop(0)
            return {partition: _answered(offset) for partition in asked}

        monkeypatch.setattr(AdminClient, "list_offsets", list_offsets)
        return answers

    @contextmanager
    def lacking(self, *, after: int) -> Iterator[None]:
        """Give no offset to the question after so many, by whichever client it is asked first and again."""
        self.asked, self.after, self.left = 0, after, [UNKNOWN] * _CLIENTS_OF_A_QUESTION
        yield
        self.left.clear()


def _answered(offset: int) -> Future[ListOffsetsResultInfo]:
    future: Future[ListOffsetsResultInfo] = Future()
    future.set_result(ListOffsetsResultInfo(offset, -1, -1))
    return future
