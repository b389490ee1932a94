"""What went wrong in a Spark task, as the driver gets it.

An error that the same rows meet again, whoever writes them, is the user's to mend (InvalidRequestError): the task ends
well and answers with it. Every other error fails the task, so that Spark tries it again (`spark.task.maxFailures`), and
an attempt that lost against another one of the same task (speculation) does not speak for it. When Spark gives up, it
has the last attempt's traceback as text: the driver finds our error in it.
"""

from __future__ import annotations

import re
import sys

from lakelog.common.errors import InvalidRequestError, LakelogError

ANSWERED = InvalidRequestError  # what a task answers with; it raises all else

_RAISED = re.compile(r"^(lakelog(?:\.\w+)+)\.(\w+)(?:: |$)", re.MULTILINE)
_JAVA_STACK = re.compile(r"\n+(?:\tat |JVM stacktrace:|Driver stacktrace:|Caused by: )")


def raised_error(error: Exception) -> LakelogError | None:
    """The error of ours that failed a task, out of what Spark raised; None where it was another one's."""
    text = str(error)
    found = list(_RAISED.finditer(text))
    if not found:
        return None
    last = found[-1]  # causes come before what they caused
    kind = getattr(sys.modules.get(last[1]), last[2], None)
    if not (isinstance(kind, type) and issubclass(kind, LakelogError)):
        return None
    message = _JAVA_STACK.split(text[last.end() :], maxsplit=1)[0].rstrip()
    return kind(message)
