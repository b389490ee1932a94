"""What a write task tells the driver."""

from __future__ import annotations

import pickle

import pytest

from lakelog.common.errors import FencedError
from lakelog.spark.task import TaskMessage, parse_messages


def test_the_driver_raises_what_a_task_met() -> None:
    messages = [TaskMessage(row_count=1), TaskMessage(error=FencedError("another stream"))]

    with pytest.raises(FencedError, match="another stream"):
        parse_messages(pickle.dumps(message) for message in messages)
