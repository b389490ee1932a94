"""The log store's own error. UnknownOutcomeError and StalledError are in `lakelog.common.errors`: the commit protocol
acts on them, whoever raises them.
"""

from __future__ import annotations

from lakelog.common.errors import NotFoundError, StalledError, UnknownOutcomeError

__all__ = ["LogTruncatedError", "StalledError", "UnknownOutcomeError"]


class LogTruncatedError(NotFoundError):
    """The topic partition does not hold the asked offset: deleted by retention, or never written."""
