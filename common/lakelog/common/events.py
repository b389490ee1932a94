"""Lines of the log that say what happened to a table: `commit table=db.t snapshot=7 rows=1000 files_added=4 millis=35`.

A line is a word, the event, and `key=value` pairs in a fixed order. A value with blanks, quotes or characters that do
not print is a JSON string, an unknown value is `-`, and a long one ends with `...`. lakelog sets no handler and no
level: the application decides what is shown, and where. `docs/guide/observing.md` lists the events.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping

from lakelog.common.quoting import escaped

VALUE_CHARACTERS_MAX = 200
_CUT = "..."
_PLAIN = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f-\x9f]+")

Value = str | int | None | Mapping[int, int]


def log_event(logger: logging.Logger, event: str, /, *, level: int = logging.INFO, **fields: Value) -> None:
    """Log a line of an event at INFO, or at `level`. Nothing is formatted when that level is not enabled."""
    if logger.isEnabledFor(level):
        logger.log(level, "%s", event_line(event, **fields))


def event_line(event: str, /, **fields: Value) -> str:
    """The line: the event, then its fields in the order given. A mapping is `0:12,1:7`."""
    return " ".join([event, *(f"{key}={_text(value)}" for key, value in fields.items())])


def _text(value: Value) -> str:
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return _pairs(value) or "-"
    text = value if len(value) <= VALUE_CHARACTERS_MAX else value[: VALUE_CHARACTERS_MAX - len(_CUT)] + _CUT
    return text if _PLAIN.fullmatch(text) and text != "-" else json.dumps(text)


def _pairs(pairs: Mapping[int, int]) -> str:
    """As many pairs as fit, whole."""
    values: list[str] = []
    room = VALUE_CHARACTERS_MAX - len(_CUT)
    for key in sorted(pairs):
        text = f"{key}:{pairs[key]}"
        room -= len(text) + 1
        if room < 0:
            return ",".join([*values, _CUT])
        values.append(text)
    return ",".join(values)


class HarmlessFormatter(logging.Formatter):
    """Formats a record as `logging.Formatter` does; characters that do not print are escaped, except line ends."""

    def format(self, record: logging.LogRecord) -> str:
        """The string of a record."""
        return escaped(super().format(record), kept="\n")
