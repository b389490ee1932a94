"""Statements that sqlglot does not read, or reads as something else: SET, RESET, and forms of DESCRIBE."""

from __future__ import annotations

import re

import pyarrow as pa

from lakelog.catalog.columns.session_defaults import PREFIX, call_defaults
from lakelog.common.errors import UnsupportedError
from lakelog.common.quoting import shown
from lakelog.sql.language.names import SqlNames
from lakelog.sql.statements.describing import describe_text, pairs

_SET = re.compile(r"SET(?:\s+(?P<key>[^=]+?)\s*(?:=\s*(?P<value>.+))?)?", re.IGNORECASE | re.DOTALL)
_RESET = re.compile(r"RESET(?:\s+(?P<key>\S+))?", re.IGNORECASE)
_QUOTES = "`'\""


def run_text(names: SqlNames, text: str) -> pa.Table | None:
    """The answer of such a statement; None for another one."""
    text = text.strip().rstrip(";").strip()
    if (found := _SET.fullmatch(text)) is not None:
        return _set(names, found["key"], found["value"])
    if (found := _RESET.fullmatch(text)) is not None:
        return _reset(names, found["key"])
    return describe_text(names, text)


def _set(names: SqlNames, key: str | None, value: str | None) -> pa.Table:
    """SET key = value, and SET, which shows what is set. Raises UnsupportedError for another setting."""
    if key is not None:
        key = _known(key)
        if value is not None:
            names.defaults |= call_defaults({key: value.strip().strip(_QUOTES)})
    return pairs(
        "key",
        "value",
        {f"{PREFIX}{one}": names.defaults[one] for one in sorted(names.defaults) if key in (None, PREFIX + one)},
    )


def _reset(names: SqlNames, key: str | None) -> pa.Table:
    """RESET [key]."""
    if key is None:
        names.defaults.clear()
    else:
        names.defaults.pop(_known(key).removeprefix(PREFIX), None)
    return pairs("key", "value", {})


def _known(key: str) -> str:
    key = key.strip().strip(_QUOTES)
    if not key.startswith(PREFIX):
        raise UnsupportedError(f"SET {shown(key)}: a connection has the defaults of new tables, {PREFIX}<option>")
    return key
