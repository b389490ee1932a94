from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.catalog.moments import parse_moment, to_millis
from lakelog.common.errors import InvalidRequestError


def test_text_with_a_zone_is_that_moment() -> None:
    assert parse_moment("2026-01-31T12:00:00Z") == 1_769_860_800_000
    assert parse_moment("2026-01-31 13:00:00.250+01:00") == 1_769_860_800_250


def test_text_without_a_zone_is_in_the_zone_that_is_given_or_utc() -> None:
    assert parse_moment("2026-01-31 12:00:00") == parse_moment("2026-01-31T12:00:00Z")
    assert parse_moment("2026-01-31 13:00:00", ZoneInfo("Europe/Berlin")) == parse_moment("2026-01-31T12:00:00Z")


def test_numbers_are_milliseconds_and_short_ones_dates() -> None:
    assert parse_moment("1769860800250") == 1_769_860_800_250
    assert parse_moment("20260131") == parse_moment("2026-01-31")


@given(millis=st.integers(-62_135_596_800_000 + 86_400_000, 253_402_300_799_999 - 86_400_000))
def test_every_millisecond_is_exact(millis: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)

    assert to_millis(moment) == millis
    assert parse_moment(moment.isoformat()) == millis


def test_moments_before_1970_and_within_a_millisecond_round_down() -> None:
    assert to_millis(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    assert to_millis(datetime(1970, 1, 1, 2, 0, 0, 1_999, tzinfo=timezone(timedelta(hours=2)))) == 1


def test_what_is_no_moment_is_refused_with_an_example() -> None:
    with pytest.raises(InvalidRequestError, match=r"'yesterday' is no moment; expected a form such as"):
        parse_moment("yesterday")
