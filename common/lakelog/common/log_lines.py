"""Log lines for a terminal. They name tables, columns and files, whose names others have chosen."""

from __future__ import annotations

import logging

from lakelog.common.quoting import escaped


class HarmlessFormatter(logging.Formatter):
    """Formats a record as `logging.Formatter` does; characters that do not print are escaped, except line ends."""

    def format(self, record: logging.LogRecord) -> str:
        """The string of a record."""
        return escaped(super().format(record), kept="\n")
