"""The user's settings of Kafka clients: from a profile, the environment, or the call.

A profile is a table of the TOML file `~/.config/lakelog/kafka.toml` (`$XDG_CONFIG_HOME/lakelog/kafka.toml`, or the file
that LAKELOG_KAFKA_PROFILES names), with the settings of librdkafka:

    [prod]
    bootstrap.servers = "kafka-1:9093,kafka-2:9093"
    security.protocol = "SASL_SSL"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.username = "lake"
    sasl.password = "..."

Environment variables are LAKELOG_KAFKA_SASL_PASSWORD for `sasl.password`, and so on. No message has any of these
values.
"""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any  # Any: parsed TOML is untyped until it is checked here

from lakelog.common.errors import InvalidRequestError, NotFoundError, OptionError
from lakelog.common.quoting import listed
from lakelog.logstore.client_settings import PROFILE, SERVERS, check_not_own
from lakelog.logstore.options import KAFKA_PREFIX

CALL_PREFIX = "kafka."
_CALL_PREFIXES = (KAFKA_PREFIX, CALL_PREFIX)
VARIABLE_PREFIX = "LAKELOG_KAFKA_"
BOOTSTRAP_KEY = f"{VARIABLE_PREFIX}BOOTSTRAP_SERVERS"
PROFILE_KEY = f"{VARIABLE_PREFIX}PROFILE"
PROFILES_KEY = f"{VARIABLE_PREFIX}PROFILES"
_NAME = re.compile(r"[\w-]{1,100}")
_OTHERS_MAY_READ = 0o077
_warned: set[Path] = set()
logger = logging.getLogger("lakelog.kafka")


def user_settings(given: Mapping[str, str], *, named: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The user's own settings: those of the call override variables, which override those of the profile.

    The profile is the one that the call names, else LAKELOG_KAFKA_PROFILE, else `named` by the table. If the only
    variable is the one that names servers, it is ignored: it is for tables that name none. Raises NotFoundError for a
    missing profile, OptionError and InvalidRequestError for an invalid one.
    """
    profile = given.get(PROFILE) or environ.get(PROFILE_KEY) or named
    settings = {} if not profile else _profile(profile, environ)
    variables = {
        key.removeprefix(VARIABLE_PREFIX).lower().replace("_", "."): value
        for key, value in environ.items()
        if key.startswith(VARIABLE_PREFIX) and key not in (BOOTSTRAP_KEY, PROFILE_KEY, PROFILES_KEY) and value
    }
    check_not_own(variables, prefix="")
    settings |= variables
    settings |= {key: value for key, value in given.items() if key != PROFILE}
    servers = environ.get(BOOTSTRAP_KEY)
    if settings and servers and SERVERS not in settings:
        settings[SERVERS] = servers
    return settings


def call_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The settings among the options of a call, `kafka.<setting>` or, as in table options, `log.kafka.<setting>`.

    Raises OptionError for settings that lakelog itself sets.
    """
    found: dict[str, str] = {}
    for prefix in _CALL_PREFIXES:
        given = {key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)}
        check_not_own(given, prefix=prefix)
        found |= given
    return found


def without_call_settings(options: Mapping[str, str]) -> dict[str, str]:
    """The other options of a call."""
    return {key: value for key, value in options.items() if not key.startswith(_CALL_PREFIXES)}


def profiles_file(environ: Mapping[str, str]) -> Path:
    """The path of this user's profiles."""
    named = environ.get(PROFILES_KEY)
    if named:
        return Path(named)
    folder = environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "lakelog" / "kafka.toml"


def profile_defaults(environ: Mapping[str, str], *, name: str) -> dict[str, str]:
    """The table `name` of the file with the profiles, with full keys; empty if the file has no such table."""
    path = profiles_file(environ)
    found = _read(path).get(name, {})
    if not isinstance(found, dict):
        raise InvalidRequestError(f"{name!r} in {path} is a {type(found).__name__}; expected a table: [{name}]")
    return dict(_flat(found, f"[{name}] in {path}"))


def _profile(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(f"{name[:100]!r} is not the name of a profile; expected letters, digits, '_' and '-'")
    path = profiles_file(environ)
    profiles = _read(path)
    found = profiles.get(name)
    if not isinstance(found, dict):
        there = listed(sorted(key for key, value in profiles.items() if isinstance(value, dict))) or "none"
        raise NotFoundError(
            f"{path} has no profile {name!r} of settings for Kafka; it has: {there}. Write it there: [{name}], then "
            f'lines such as {SERVERS} = "host:9093". Another file is named by {PROFILES_KEY}'
        )
    settings = dict(_flat(found, f"profile {name!r} in {path}"))
    try:
        check_not_own(settings, prefix="")
    except OptionError as error:
        raise OptionError(f"profile {name!r} in {path}: {error}") from None
    return settings


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            _warn_if_open(path)
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidRequestError(f"the profiles in {path} cannot be read: {error.strerror}") from error
    except ValueError as error:  # without the contents of the file, which has secrets
        place = re.search(r"\(at [^()]*\)", str(error))
        raise InvalidRequestError(
            f"{path} is not a TOML file {place[0] if place else ''}; expected lines such as [prod] and "
            f'{SERVERS} = "host:9093"'
        ) from None


def _warn_if_open(path: Path) -> None:
    if path.stat().st_mode & _OTHERS_MAY_READ and path not in _warned:
        _warned.add(path)
        logger.warning("%s may be read by other users of this machine: chmod 600 it", path)


def _flat(fields: Mapping[str, Any], where: str, before: str = "") -> Iterator[tuple[str, str]]:
    """The settings of a profile with their full names: TOML reads the dots in `sasl.password` as nested tables."""
    for key, value in fields.items():
        name = f"{before}{key}"
        if isinstance(value, dict):
            yield from _flat(value, where, f"{name}.")
        elif isinstance(value, bool):
            yield name, str(value).lower()
        elif isinstance(value, str | int):
            yield name, str(value)
        else:
            raise InvalidRequestError(f"setting {name!r} of {where} is a {type(value).__name__}; expected a string")
