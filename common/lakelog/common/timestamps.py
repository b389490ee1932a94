"""Timestamps as users write them: a datetime, a string, or milliseconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import typed

Timestamp = datetime | str | int
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLIS_DIGITS_MAX = 15  # the year 33658; datetime ends in 9999
_MILLIS_DIGITS_MIN = 9  # fewer digits are a date such as 20260131
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d\d))?(?P<seconds>:\d\d)?")


def millis_of(timestamp: Timestamp, zone: tzinfo = UTC) -> int:
    """Milliseconds since 1970 of a timestamp; an int is taken as milliseconds.

    `zone` is for a datetime or a string without one. Raises InvalidRequestError.
    """
    if isinstance(timestamp, str):
        return parse_timestamp(timestamp, zone)
    if isinstance(timestamp, datetime):
        return to_millis(timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=zone))
    if isinstance(timestamp, int) and not isinstance(timestamp, bool):
        return timestamp
    raise InvalidRequestError(
        f"timestamp is {typed(timestamp)}; expected a datetime, a string such as "
        "'2026-01-31 12:00:00', or milliseconds since 1970 as an int"
    )


def parse_timestamp(text: str, zone: tzinfo = UTC) -> int:
    """Milliseconds since 1970 of a string such as `2026-01-31 12:00:00.5`; a long number is taken as milliseconds.

    `zone` is for a string without one. Raises InvalidRequestError.
    """
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) >= _MILLIS_DIGITS_MIN:
        if len(text) > _MILLIS_DIGITS_MAX:
            raise InvalidRequestError(
                f"{text[:50]!r} has {len(text)} digits; a timestamp has at most {_MILLIS_DIGITS_MAX}"
            )
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
        return to_millis(parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=zone))
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError(
            f"{text[:50]!r} is not a timestamp; expected a form such as 2026-01-31T12:00:00, 2026-01-31T12:00:00+01:00,"
            " or milliseconds since 1970"
        ) from error


def zone_of(name: str) -> tzinfo:
    """The time zone of a name such as Europe/Berlin, or of an offset such as +01:00. Raises ValueError.

    `str` of it is such a name again. Offsets are written as in Java, whose names Spark takes.
    """
    found = _OFFSET.fullmatch(name)
    if found is not None:
        hours, minutes, seconds = int(found["hours"]), int(found["minutes"] or 0), int((found["seconds"] or ":0")[1:])
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-offset if found["sign"] == "-" else offset)
    if name in ("UTC", "UT", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"{name!r} is not a time zone; expected a name such as Europe/Berlin or +01:00") from error


def to_millis(time: datetime) -> int:
    """Milliseconds since 1970 of a datetime with a zone, rounded down."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


def utc_of(millis: int, *, separator: str = " ", suffix: str = "") -> str:
    """A time in UTC to the millisecond, then `suffix`: `2026-01-31 12:00:00.500`.

    A time outside of the years 1 to 9999, which other engines can write, is shown as `253402300800000 ms`.
    """
    try:
        time = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return f"{millis} ms"
    return f"{time.replace(tzinfo=None).isoformat(separator, 'milliseconds')}{suffix}"


def shown_millis(millis: int) -> str:
    """A time for a repr or a message, see `utc_of`: `2026-01-31 12:00:00.500 UTC`."""
    return utc_of(millis, suffix=" UTC")
