"""Errors of the log store that callers handle separately."""

from __future__ import annotations

from lakelog.common.errors import NotFoundError

SKIP_UNREADABLE = (
    "`lakelog log check TABLE` shows which offsets cannot be read; `lakelog log renew TABLE --skip-unreadable` takes in"
    " what comes before them, leaves them out, and gives the table another topic"
)


class LogTruncatedError(NotFoundError):
    """The topic partition does not hold the requested offset: deleted by retention, or never written."""


class LogRewrittenError(LogTruncatedError):
    """The topic partition was cut before an offset that it had reached, and may hold other records now."""
