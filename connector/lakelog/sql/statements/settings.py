"""SET and RESET."""

from __future__ import annotations

import re

import pyarrow as pa

from lakelog.catalog.columns.session_defaults import PREFIX, call_defaults
from lakelog.common.errors import UnsupportedError
from lakelog.common.quoting import shown
from lakelog.sql.language.names import SqlNames
from lakelog.sql.language.patterns import patterns, run_by
from lakelog.sql.statements.describing import pairs

_QUOTES = "`'\""


def run_setting(names: SqlNames, text: str) -> pa.Table | None:
    """SET and RESET, of the defaults of new tables. Raises UnsupportedError for another setting."""
    return run_by(_PATTERNS, names, text)


def _set(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    """SET key = value, and SET, which shows what is set."""
    key, value = asked["key"], asked["value"]
    if key is not None:
        key = _known(key)
        if value is not None:
            names.defaults |= call_defaults({key: value.strip().strip(_QUOTES)})
    return pairs(
        "key",
        "value",
        {f"{PREFIX}{one}": names.defaults[one] for one in sorted(names.defaults) if key in (None, PREFIX + one)},
    )


def _reset(names: SqlNames, asked: re.Match[str]) -> pa.Table:
    """RESET [key]."""
    key = asked["key"]
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


_PATTERNS = patterns(
    {
        r"SET(?:\s+(?P<key>[^=]+?)\s*(?:=\s*(?P<value>.+))?)?": _set,
        r"RESET(?:\s+(?P<key>\S+))?": _reset,
    }
)
