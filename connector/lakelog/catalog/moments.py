"""Moments in time as users write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

from lakelog.common.errors import InvalidRequestError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLIS_DIGITS_MAX = 15  # the year 33658; datetime ends in 9999
_MILLIS_DIGITS_MIN = 9  # fewer digits are a date such as 20260131


def parse_moment(text: str, zone: tzinfo = UTC) -> int:
    """Milliseconds since 1970 of a text such as `2026-01-31 12:00:00.5`; a long number is taken as that already.

    `zone` is for text without one. Raises InvalidRequestError.
    """
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) >= _MILLIS_DIGITS_MIN:
        if len(text) > _MILLIS_DIGITS_MAX:
            raise InvalidRequestError(
                f"{text[:50]!r} has {len(text)} digits; a moment has at most {_MILLIS_DIGITS_MAX}"
            )
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
        return to_millis(moment if moment.tzinfo is not None else moment.replace(tzinfo=zone))
    except (ValueError, OverflowError) as error:
        raise InvalidRequestError(
            f"{text[:50]!r} is no moment; expected a form such as 2026-01-31T12:00:00, 2026-01-31T12:00:00+01:00, or"
            " milliseconds since 1970"
        ) from error


def to_millis(moment: datetime) -> int:
    """Milliseconds since 1970, rounded down; a moment without a zone is in the zone of this machine."""
    return ((moment if moment.tzinfo is not None else moment.astimezone()) - _EPOCH) // timedelta(milliseconds=1)
