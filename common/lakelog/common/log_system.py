"""The option by which every part knows a table that has a log."""

from __future__ import annotations

from collections.abc import Mapping

LOG_SYSTEM_KEY = "log.system"
NO_LOG = "none"


def has_log(options: Mapping[str, str]) -> bool:
    """Whether the options of a table say that it has a log."""
    return options.get(LOG_SYSTEM_KEY, NO_LOG) != NO_LOG
