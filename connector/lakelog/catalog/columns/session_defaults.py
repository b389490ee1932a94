"""Defaults of a session for new tables: `table-storage.<option>` gives the value of an option that a table lacks.

They come from `Catalog(options={"table-storage.log.system": "kafka"})`, from variables such as
LAKELOG_TABLE_STORAGE_LOG_SYSTEM, and from the table `[table-storage]` of the file with the user's profiles; the first
of these that names an option wins. Only new tables take the defaults, and keep them as their options. Source: FLIP-188,
"Session Options".
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from lakelog.common.errors import OptionError
from lakelog.common.log_system import LOG_OPTION_PREFIXES, has_log
from lakelog.filestore.options import FILESTORE_OPTIONS, LOG_BRANCH, TABLE_PLACE, TABLE_UUID
from lakelog.logstore.options import BOOTSTRAP_SERVERS, LOG_SYSTEM, LOGSTORE_OPTIONS, TOPIC, TOPIC_ID
from lakelog.protocol.access import profile_defaults

PREFIX = "table-storage."
VARIABLE_PREFIX = "LAKELOG_TABLE_STORAGE_"
_KEYS = {option.key for option in (*FILESTORE_OPTIONS, *LOGSTORE_OPTIONS)} - {
    option.key for option in (TOPIC, TOPIC_ID, TABLE_UUID, TABLE_PLACE, LOG_BRANCH)
}


def call_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """The defaults among the options of a call, without the prefix. Raises OptionError for an unknown option."""
    given = {key.removeprefix(PREFIX): value for key, value in options.items() if key.startswith(PREFIX)}
    _check(given, prefix=PREFIX)
    return given


def without_call_defaults(options: Mapping[str, str]) -> dict[str, str]:
    """The other options of a call."""
    return {key: value for key, value in options.items() if not key.startswith(PREFIX)}


def with_defaults(
    given: Mapping[str, str], call: Mapping[str, str], *, environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The options of a new table with the defaults of the session; defaults of logs apply only to a table with a log.

    Raises OptionError for a variable or a line of the profile that names no option.
    """
    environ = os.environ if environ is None else environ
    defaults = {**_profile(environ), **_variables(environ), **call}
    is_logged = has_log({**{LOG_SYSTEM.key: defaults.get(LOG_SYSTEM.key, "none")}, **given})
    taken = {
        key: value
        for key, value in defaults.items()
        if is_logged or key == LOG_SYSTEM.key or not key.startswith(LOG_OPTION_PREFIXES)
    }
    return {**taken, **given}


def _profile(environ: Mapping[str, str]) -> Mapping[str, str]:
    found = profile_defaults(environ, name=PREFIX.removesuffix("."))
    _check(found, prefix=f"[{PREFIX.removesuffix('.')}] ")
    return found


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    names = {VARIABLE_PREFIX + key.upper().replace(".", "_").replace("-", "_"): key for key in _KEYS}
    found = {name: value for name, value in environ.items() if name.startswith(VARIABLE_PREFIX) and value}
    for name in found:
        if name not in names:
            raise OptionError.unknown(name, names)
    return {names[name]: value for name, value in found.items()}


def _check(given: Mapping[str, str], *, prefix: str) -> None:
    for key in given:
        if key not in _KEYS and not (key.startswith("fields.") or key == BOOTSTRAP_SERVERS.key):
            raise OptionError.unknown(prefix + key, {prefix + known for known in _KEYS})
