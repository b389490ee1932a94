"""How errors of lakelog pass through Spark.

An error that the same rows would cause in any attempt must be fixed by the user (InvalidRequestError): the task ends
normally and answers with it. Every other error fails the task, so that Spark tries it again (`spark.task.maxFailures`),
and an attempt that loses against another attempt of the same task (speculation) decides nothing. When Spark gives up,
it has the last attempt's traceback as a string: the driver finds lakelog's error in it.

Spark quotes a Python traceback from its beginning, where Python prints the oldest cause: `sentence_first` puts the
error itself there, and `error_of` finds the error in what Spark raised.

A query that is stopped interrupts the thread of its batch. Spark knows that by the text of the error that comes back
from Python, and fails on long texts: `stopping_quietly` gives it a short one.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from lakelog.common.errors import InvalidRequestError, LakelogError

logger = logging.getLogger("lakelog.spark")

ANSWERED = InvalidRequestError  # what a task answers with; it raises all other errors

_RAISED = re.compile(r"^(?:.*[ :])?(lakelog(?:\.\w+)+)\.(\w+)(?:: |$)", re.MULTILINE)
# Where lakelog's errors are declared. A driver may not have imported the module of an error that a task has raised.
ERROR_MODULES = frozenset(
    {
        "lakelog.common.errors",
        "lakelog.filestore.commit.conflicts",
        "lakelog.filestore.metadata.tables.identity",
        "lakelog.filestore.refs.merges.merge_plan",
        "lakelog.lineage.answers.consistent",
        "lakelog.lineage.tables.found_tables",
        "lakelog.logstore.codec.foreign_records",
        "lakelog.logstore.errors",
        "lakelog.logstore.kafka.clients.kafka_errors",
        "lakelog.protocol.statements.branch_merging",
        "lakelog.protocol.state.change_tracking",
        "lakelog.protocol.writing.driver",
        "lakelog.protocol.writing.lost_batches",
        "lakelog.protocol.state.header",
        "lakelog.protocol.access.servers",
        "lakelog.protocol.statements.statement_task",
        "lakelog.protocol.stores.table_states",
        "lakelog.protocol.writing.attempts",
        "lakelog.protocol.writing.writer_lease",
        "lakelog.spark.statements.by_bucket",
        "lakelog.streams.name_owner",
    }
)
_BEHIND = re.compile(
    r"\n+(?:\tat |JVM stacktrace:|=== Streaming Query ===|Driver stacktrace:|Caused by: )"
    r"|(?:\s*SQLSTATE: \w{5})+\s*(?:\n|$)"
)
# How a call into the JVM ends when its thread is interrupted or its jobs are cancelled: `StreamingQuery.stop` does it.
_INTERRUPTED = re.compile(
    r"(?:^|: )(?:java\.lang\.InterruptedException|java\.io\.InterruptedIOException"
    r"|java\.nio\.channels\.ClosedByInterruptException)|\[SPARK_JOB_CANCELLED\]",
    re.MULTILINE,
)
_SIMPLIFIED = "SPARK_SIMPLIFIED_TRACEBACK"  # in the environment of Spark's Python workers


def error_of(error: BaseException | str) -> LakelogError | None:
    """The lakelog error that a Spark exception carries, with its class and its message; None without one.

    Spark raises its own classes, all of them `pyspark.errors.PySparkException`: AnalysisException where a query is
    planned, PythonException where a task failed, StreamingQueryException where a stream ended. An error of lakelog is
    returned unchanged, and a string is taken as Spark's message, as in a listener's QueryTerminatedEvent.
    """
    if isinstance(error, LakelogError):
        return error
    text = "\n".join(_texts(error))
    found = [(match, kind) for match in _RAISED.finditer(text) if (kind := _kind(match)) is not None]
    if not found:
        return None
    match, kind = found[-1]  # causes come before their effects
    return kind(_BEHIND.split(text[match.end() :], maxsplit=1)[0].rstrip())


def _texts(error: BaseException | str) -> Iterator[str]:
    """The texts in which Spark may quote an error: the oldest cause first.

    An error of a statement on an attached warehouse has its class in the cause that PySpark keeps.
    """
    cause = getattr(error, "_cause", None)
    if isinstance(cause, BaseException):
        yield from _texts(cause)
    yield str(error)


def _kind(match: re.Match[str]) -> type[LakelogError] | None:
    kind = getattr(import_module(match[1]), match[2], None) if match[1] in ERROR_MODULES else None
    return kind if isinstance(kind, type) and issubclass(kind, LakelogError) else None


class BatchStoppedError(RuntimeError):
    """A batch did not end, because its query was stopped. For Spark: a lakelog error would be one of the batch."""


@contextmanager
def stopping_quietly() -> Iterator[None]:
    """Let Spark see in an error that leaves a batch function whether the query was stopped.

    Spark looks for the words of Py4J and the name of Java's exception, with a regular expression that overflows its
    stack on the traces of a real call (Spark 4.3, `StreamExecution.isInterruptionException`); where Py4J passes Java's
    exceptions on, as in a session with an attached warehouse, it does not find the name, and reports a failed query.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, LakelogError) or _INTERRUPTED.search(str(error)) is None:
            raise
        logger.info("a batch was stopped", exc_info=error)
        raise BatchStoppedError(
            "py4j.protocol.Py4JJavaError: An error occurred while calling the batch, which was stopped.\n"
            ": java.lang.InterruptedException"
        ) from None


@contextmanager
def sentence_first() -> Iterator[None]:
    """Let the traceback of a lakelog error that leaves the block begin with its class and its message.

    Python prints the oldest cause first. So a copy of the error, without frames, becomes the oldest cause. A Spark
    worker ends after an error, and leaves causes out of its report unless it has to report everything.
    """
    try:
        yield
    except LakelogError as error:
        oldest = _oldest_cause(error)
        if oldest is error or oldest.__traceback__ is not None:
            oldest.__context__ = _without_frames(error)
            oldest.__suppress_context__ = False
        os.environ.pop(_SIMPLIFIED, None)
        raise


def _oldest_cause(error: BaseException) -> BaseException:
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        older = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if older is None:
            break
        error = older
    return error


def _without_frames(error: LakelogError) -> LakelogError:
    copy = type(error).__new__(type(error))
    copy.args = error.args
    return copy
