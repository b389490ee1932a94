"""Errors of ours on their way through Spark.

An error that the same rows meet again, whoever writes them, is the user's to mend (InvalidRequestError): the task ends
well and answers with it. Every other error fails the task, so that Spark tries it again (`spark.task.maxFailures`), and
an attempt that lost against another one of the same task (speculation) does not speak for it. When Spark gives up, it
has the last attempt's traceback as text: the driver finds our error in it.

Spark quotes a Python traceback from its beginning, where Python prints the oldest cause: `sentence_first` makes that
the error itself, and `error_of` finds the error in what Spark raised.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from lakelog.common.errors import InvalidRequestError, LakelogError

ANSWERED = InvalidRequestError  # what a task answers with; it raises all else

_RAISED = re.compile(r"^(?:.*[ :])?(lakelog(?:\.\w+)+)\.(\w+)(?:: |$)", re.MULTILINE)
# Where errors of ours are declared. A driver may not have imported the module of an error that a task has met.
ERROR_MODULES = frozenset(
    {
        "lakelog.common.errors",
        "lakelog.filestore.commit.conflicts",
        "lakelog.filestore.metadata.tables.identity",
        "lakelog.filestore.refs.merges.branch_merge",
        "lakelog.lineage.answers.consistent",
        "lakelog.logstore.codec.foreign_records",
        "lakelog.logstore.errors",
        "lakelog.logstore.kafka.clients.kafka_errors",
        "lakelog.protocol.statements.branch_merging",
        "lakelog.protocol.state.change_tracking",
        "lakelog.protocol.writing.driver",
        "lakelog.protocol.state.header",
        "lakelog.protocol.access.servers",
        "lakelog.protocol.statements.statement_task",
        "lakelog.protocol.state.stores",
        "lakelog.protocol.writing.task",
        "lakelog.protocol.writing.writer_lease",
    }
)
_BEHIND = re.compile(
    r"\n+(?:\tat |JVM stacktrace:|=== Streaming Query ===|Driver stacktrace:|Caused by: )"
    r"|(?:\s*SQLSTATE: \w{5})+\s*(?:\n|$)"
)
_SIMPLIFIED = "SPARK_SIMPLIFIED_TRACEBACK"  # in the environment of Spark's Python workers


def error_of(error: BaseException | str) -> LakelogError | None:
    """The error of lakelog's that an exception of Spark carries, with its class and its message; None without one.

    Spark raises its own classes, all of them `pyspark.errors.PySparkException`: AnalysisException where a query is
    planned, PythonException where a task failed, StreamingQueryException where a stream ended. An error of lakelog's is
    given back as it is, and a text is taken for what Spark says, as in a listener's QueryTerminatedEvent.
    """
    if isinstance(error, LakelogError):
        return error
    text = str(error)
    found = [(match, kind) for match in _RAISED.finditer(text) if (kind := _kind(match)) is not None]
    if not found:
        return None
    match, kind = found[-1]  # causes come before what they caused
    return kind(_BEHIND.split(text[match.end() :], maxsplit=1)[0].rstrip())


def _kind(match: re.Match[str]) -> type[LakelogError] | None:
    kind = getattr(import_module(match[1]), match[2], None) if match[1] in ERROR_MODULES else None
    return kind if isinstance(kind, type) and issubclass(kind, LakelogError) else None


@contextmanager
def sentence_first() -> Iterator[None]:
    """Let the traceback of an error of lakelog's that leaves the block begin with its class and its message.

    What Python prints first is the oldest cause. So the error becomes that once more, without frames of its own. A
    worker of Spark's ends after an error, and leaves causes out of what it reports unless it is to report all of it.
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
