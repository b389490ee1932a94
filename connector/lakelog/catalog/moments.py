"""Moments in time as users write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lakelog.common.errors import InvalidRequestError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_millis(moment: str | int | datetime) -> int:
    """Milliseconds since 1970 UTC: of a datetime, of text such as `2026-01-31 12:00:00.5`, or a number as it is.

    Without a zone it is local time, as in the option `scan.timestamp`. Raises InvalidRequestError.
    """
    if isinstance(moment, int):
        return moment
    if isinstance(moment, str):
        text = moment.strip()
        if text.isascii() and text.isdigit() and len(text) > 8:
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise InvalidRequestError(
                f"{text!r} is no moment; expected a form such as 2026-01-31T12:00:00, 2026-01-31T12:00:00Z, or"
                " milliseconds since 1970"
            ) from error
    return (moment.astimezone() - _EPOCH) // timedelta(milliseconds=1)
