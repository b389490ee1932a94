from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from lakelog.catalog.moments import to_millis
from lakelog.common.errors import InvalidRequestError


def test_text_with_a_zone_is_that_moment() -> None:
    assert to_millis("2026-01-31T12:00:00Z") == 1_769_860_800_000
    assert to_millis("2026-01-31 13:00:00.250+01:00") == 1_769_860_800_250


def test_text_without_a_zone_is_local_time() -> None:
    local = datetime(2026, 1, 31, 12).astimezone()
    assert to_millis("2026-01-31 12:00:00") == to_millis(local) == round(local.timestamp() * 1000)


def test_numbers_are_milliseconds() -> None:
    assert to_millis(1_769_860_800_250) == to_millis("1769860800250") == 1_769_860_800_250


def test_moments_before_1970_and_within_a_millisecond_round_down() -> None:
    assert to_millis(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    assert to_millis(datetime(1970, 1, 1, 2, 0, 0, 1_999, tzinfo=timezone(timedelta(hours=2)))) == 1


def test_what_is_no_moment_is_refused_with_an_example() -> None:
    with pytest.raises(InvalidRequestError, match=r"'yesterday' is no moment; expected a form such as"):
        to_millis("yesterday")
