"""What a write task tells the driver."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakelog.common.errors import (
    ConflictError,
    CorruptDataError,
    FencedError,
    InvalidRequestError,
    LakelogError,
    OptionError,
    StalledError,
    TransactionTimeoutError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakelog.protocol.writing.attempts import StaleAttemptError
from lakelog.spark.failures import error_of
from lakelog.spark.session import attempts_of
from lakelog.spark.sink.plan import run_tasks
from lakelog.spark.sink.task import TaskMessage, answered, parse_messages

TOLD = "batch 3 of q was fenced twice: (another's stream)\nwrites $it"


@pytest.mark.parametrize("kind", [InvalidRequestError, OptionError])
def test_an_error_of_the_rows_comes_back_as_an_answer(kind: type[LakelogError]) -> None:
    def write() -> TaskMessage:
        raise kind("a row")

    message = answered(write)

    with pytest.raises(kind, match="a row"):
        parse_messages([pickle.dumps(TaskMessage(row_count=1)), pickle.dumps(message)])


@pytest.mark.parametrize(
    "kind",
    [
        FencedError, UnknownOutcomeError, UnavailableError, StalledError, TransactionTimeoutError, StaleAttemptError,
        ConflictError, CorruptDataError,
    ],
)  # fmt: skip
def test_every_other_error_fails_the_task(kind: type[LakelogError]) -> None:
    def write() -> TaskMessage:
        raise kind("the broker")

    with pytest.raises(kind, match="the broker"):
        answered(write)


def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The body of a task that another writer fences."""
    yield from ()
    for _ in batches:
        try:
            raise UnavailableError("the cause")
        except UnavailableError as error:
            raise FencedError(TOLD) from error


def test_the_driver_raises_what_failed_the_last_attempt_as_it_was(spark: SparkSession) -> None:
    with pytest.raises(FencedError) as caught:
        run_tasks(spark.range(4), fail, check=lambda _plan: None)

    assert str(caught.value) == TOLD
    assert caught.value.__suppress_context__  # which holds Spark's report


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("Job aborted\nlakelog.common.errors.StalledError: a b\n\n\tat org.apache\n", StalledError, "a b"),
        ("lakelog.protocol.writing.attempts.StaleAttemptError: a\n\nJVM stacktrace:\nx", StaleAttemptError, "a"),
        ("lakelog.common.errors.FencedError", FencedError, ""),
    ],
)
def test_an_error_of_ours_is_found_in_what_spark_says(text: str, kind: type[LakelogError], message: str) -> None:
    found = error_of(RuntimeError(text))

    assert type(found) is kind
    assert str(found) == message


@pytest.mark.parametrize(
    "text",
    ["ValueError: x", "lakelog.common.errors.NoSuchError: x", "lakelog.common.types.RowKind: x", "a.FencedError: x"],
)
def test_an_error_of_others_is_left_to_spark(text: str) -> None:
    assert error_of(RuntimeError(text)) is None


def test_how_often_spark_tries_a_task_is_known() -> None:
    masters = [
        ("local", None),
        ("local[2]", "7"),
        ("local[*, 3]", None),
        ("local-cluster[1,1,1024]", "7"),
        ("yarn", None),
    ]

    assert [attempts_of(*master) for master in masters] == [1, 1, 3, 7, 4]
