"""Lines of a log for a terminal: they name tables, columns and files, whose names others have chosen."""

from __future__ import annotations

import logging

from lakelog.common.quoting import escaped


class HarmlessFormatter(logging.Formatter):
    """Formats a record as `logging.Formatter` does; what does not print, but line ends, is escaped."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        return escaped(super().format(record), kept="\n")
