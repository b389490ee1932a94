"""The options that show every part whether a table has a log, and whether its log has old values."""

from __future__ import annotations

from collections.abc import Mapping

LOG_SYSTEM_KEY = "log.system"
NO_LOG = "none"
CHANGELOG_MODE_KEY = "log.changelog-mode"
ALL_CHANGES = "all"
LOG_OPTION_PREFIXES = (
    "log.",
    "change-tracking",
    "snapshot.interval",
    "snapshot.pending.",
)  # of tables with a log alone


def has_log(options: Mapping[str, str]) -> bool:
    """Whether the options of a table say that it has a log."""
    return options.get(LOG_SYSTEM_KEY, NO_LOG) != NO_LOG


def logs_old_values(options: Mapping[str, str]) -> bool:
    """Whether the options of a table with primary key say that its log holds the rows before updates."""
    return has_log(options) and options.get(CHANGELOG_MODE_KEY) == ALL_CHANGES
