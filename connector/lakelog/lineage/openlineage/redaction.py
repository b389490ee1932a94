"""Strings without secrets, to be logged and sent: errors of HTTP clients quote whole addresses."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from lakelog.common.quoting import CAUSE_MAX, without_middle
from lakelog.logstore.client_settings import is_secret

_MASK = "***"
_NAMED_SECRET = re.compile(r"api[_-]?key|authorization|private[_-]?key", re.IGNORECASE)
_USER_OF_URL = re.compile(r"(?<=://)[^/@\s]+@")
_CREDENTIALS = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_PARAMETER = re.compile(
    r"\b([\w.-]*(?:api[_-]?key|password|secret|token|signature|credential)[\w.-]*)(\s*[=:]\s*)[\"']?[^&\s\"',;)]+",
    re.IGNORECASE,
)


def redacted(text: str, secrets: Collection[str] = (), *, length_max: int = CAUSE_MAX) -> str:
    """The string with each of `secrets`, users in URLs, credentials and parameters with secret names masked.

    A long string is shortened to its beginning and end.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, _MASK)
    text = _USER_OF_URL.sub(f"{_MASK}@", text)
    text = _CREDENTIALS.sub(rf"\1 {_MASK}", text)
    return without_middle(_PARAMETER.sub(rf"\1\2{_MASK}", text), length_max)


def secrets_of(settings: object, *, key: str = "") -> Iterator[str]:
    """The values in settings whose names say that they are secret, in objects and lists of any depth."""
    if isinstance(settings, dict):
        for name, value in settings.items():
            yield from secrets_of(value, key=str(name))
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from secrets_of(value, key=key)
    elif isinstance(settings, str) and settings and (is_secret(key) or _NAMED_SECRET.search(key)):
        yield settings
