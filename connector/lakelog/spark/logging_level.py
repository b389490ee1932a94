"""How much of lakelog's log is shown by the Python processes that Spark starts for `format("lakelog")`.

Spark configures no logging in them: Python then writes warnings to standard error, and no INFO lines. The option
`logging-level` of a read or write, or the variable LAKELOG_LOGGING_LEVEL in the environment in which Spark was started,
shows INFO lines: on standard error, which Spark passes on to that of its driver; or through Spark's own handler, with
`spark.sql.pyspark.worker.logging.enabled`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum

from lakelog.common.events import HarmlessFormatter
from lakelog.common.options import Option, choice

VARIABLE = "LAKELOG_LOGGING_LEVEL"
_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LoggingLevel(StrEnum):
    """A level of Python's logging."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


LOGGING_LEVEL: Option[LoggingLevel | None] = Option(
    key="logging-level",
    parse=choice(LoggingLevel),
    default=None,
    doc="From which level on the Python processes that plan a read and commit a write show lakelog's log, on their "
    f"standard error: `INFO` shows each commit. Without it the variable `{VARIABLE}` says so.",
)
_OF_ENVIRONMENT = replace(LOGGING_LEVEL, key=VARIABLE)


def logging_level_of(given: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> LoggingLevel | None:
    """The level that the options of a read or write name, else the environment, else None. Raises OptionError."""
    level = LOGGING_LEVEL.of({key.lower(): value for key, value in given.items()})
    return _OF_ENVIRONMENT.of(environ) if level is None else level


def show_log(level: LoggingLevel | None) -> None:
    """Show lakelog's log from a level on; None leaves logging unchanged. For Spark's processes, not for a user's."""
    if level is None:
        return
    logger = logging.getLogger("lakelog")
    logger.setLevel(level)
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(HarmlessFormatter(_FORMAT))
        logger.addHandler(handler)
