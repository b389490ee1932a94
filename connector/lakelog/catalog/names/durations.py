"""Durations and ages in arguments of `Table`'s verbs and of the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import parse_given_duration_millis
from lakelog.common.quoting import shown, typed
from lakelog.common.timestamps import millis_of, parse_timestamp, zone_of

Duration = timedelta | str
Age = Duration | datetime
MILLISECOND = timedelta(milliseconds=1)
_DAY_MILLIS = 86_400_000
_RETAINED_MAX_MILLIS = 900_000_000 * _DAY_MILLIS  # fits a timedelta, and the seconds of a tag file are exact


def duration_millis(given: Duration, *, argument: str) -> int:
    """The duration in milliseconds. Pure.

    `argument` is the name of the argument in Python. Raises InvalidRequestError for a number without a unit, for a
    string that is not a duration, and for a value of another type.
    """
    if isinstance(given, timedelta):
        return given // MILLISECOND
    named = f"{argument} (--{argument.replace('_', '-')})"
    if not isinstance(given, str):
        raise InvalidRequestError(f"{named} is {typed(given)}; expected a timedelta, or a duration such as '2 h'")
    try:
        return parse_given_duration_millis(given)
    except ValueError as error:
        raise InvalidRequestError(
            f"{named} is {shown(given)}, which is not a duration: {error}; expected a form such as 2 h"
        ) from error


def retained_for(given: Duration) -> timedelta:
    """The time that a tag or a branch is kept, the argument `time_retained`. Pure.

    Raises InvalidRequestError like `duration_millis`, and for a time that is too long for a tag or branch.
    """
    millis = duration_millis(given, argument="time_retained")
    if not 1 <= millis <= _RETAINED_MAX_MILLIS:
        raise InvalidRequestError(
            f"time_retained (--time-retained) is {shown(str(given))}; expected from 1 ms to "
            f"{_RETAINED_MAX_MILLIS // _DAY_MILLIS} d, or leave it out to keep the tag or branch forever"
        )
    return timedelta(milliseconds=millis)


def age_millis(older_than: Age, *, now_millis: int) -> int:
    """The age `older_than` in milliseconds; a datetime stands for the time since then. Pure.

    Raises InvalidRequestError like `duration_millis`. A datetime without a zone is in UTC.
    """
    if isinstance(older_than, datetime):
        return now_millis - millis_of(older_than)
    return duration_millis(older_than, argument="older_than")


def age_or_time(given: str, *, zone: str, argument: str) -> str | datetime:
    """An age that was given as a string: a duration such as `2 d`, or a time in `zone`. Pure.

    Raises InvalidRequestError for a string that is neither.
    """
    try:
        parse_given_duration_millis(given)
    except ValueError as error:
        try:
            return datetime.fromtimestamp(parse_timestamp(given, zone_of(zone)) / 1000, tz=UTC)
        except InvalidRequestError:
            raise InvalidRequestError(
                f"{argument} is {shown(given)}, which is neither a duration nor a time: {error}; expected a form such "
                "as 2 h, or 2026-01-31 12:00:00"
            ) from error
    return given
