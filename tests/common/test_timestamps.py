from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.common.errors import InvalidRequestError
from lakelog.common.timestamps import Timestamp, millis_of, parse_timestamp, shown_millis, to_millis, utc_of, zone_of


def test_a_string_with_a_zone_is_that_time() -> None:
    assert parse_timestamp("2026-01-31T12:00:00Z") == 1_769_860_800_000
    assert parse_timestamp("2026-01-31 13:00:00.250+01:00") == 1_769_860_800_250


def test_a_string_without_a_zone_is_in_the_zone_that_is_given_or_utc() -> None:
    assert parse_timestamp("2026-01-31 12:00:00") == parse_timestamp("2026-01-31T12:00:00Z")
    assert parse_timestamp("2026-01-31 13:00:00", ZoneInfo("Europe/Berlin")) == parse_timestamp("2026-01-31T12:00:00Z")


def test_numbers_are_milliseconds_and_short_ones_dates() -> None:
    assert parse_timestamp("1769860800250") == 1_769_860_800_250
    assert parse_timestamp("20260131") == parse_timestamp("2026-01-31")


@given(millis=st.integers(-62_135_596_800_000 + 86_400_000, 253_402_300_799_999 - 86_400_000))
def test_every_millisecond_is_exact(millis: int) -> None:
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)

    assert to_millis(time) == millis
    assert parse_timestamp(time.isoformat()) == millis


def test_times_before_1970_and_within_a_millisecond_round_down() -> None:
    assert to_millis(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
    assert to_millis(datetime(1970, 1, 1, 2, 0, 0, 1_999, tzinfo=timezone(timedelta(hours=2)))) == 1


def test_what_is_not_a_timestamp_is_refused_with_an_example() -> None:
    with pytest.raises(InvalidRequestError, match=r"'yesterday' is not a timestamp; expected a form such as"):
        parse_timestamp("yesterday")


NOON = datetime(2026, 1, 31, 12)
NOON_MILLIS = 1_769_860_800_000


@pytest.mark.parametrize("timestamp", [NOON.replace(tzinfo=UTC), NOON, "2026-01-31 12:00:00", NOON_MILLIS])
def test_a_timestamp_is_a_datetime_a_string_or_milliseconds(timestamp: Timestamp) -> None:
    assert millis_of(timestamp) == NOON_MILLIS


def test_a_datetime_without_a_zone_is_in_the_zone_that_is_given() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert millis_of(NOON, berlin) == millis_of("2026-01-31 12:00:00", berlin) == NOON_MILLIS - 3_600_000


@pytest.mark.parametrize("name", ["+01:00", "+1", "+0100", "UTC+1", "GMT+01:00", "Etc/GMT-1", "Africa/Lagos"])
def test_a_zone_has_the_names_that_spark_takes(name: str) -> None:
    assert millis_of(NOON, zone_of(name)) == millis_of(NOON, zone_of(str(zone_of(name)))) == NOON_MILLIS - 3_600_000


@pytest.mark.parametrize("name", ["", "Europe", "Europe/Nowhere", "../etc/passwd", "+25:00", "\0"])
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # an option names itself
        zone_of(name)


@pytest.mark.parametrize("timestamp", [1.5, True, NOON.date()])
def test_what_is_of_another_type_is_refused_by_name(timestamp: Timestamp) -> None:
    with pytest.raises(
        InvalidRequestError, match=rf"timestamp is the {type(timestamp).__name__} .*expected a datetime"
    ):
        millis_of(timestamp)


def test_a_time_is_shown_in_utc_to_the_millisecond() -> None:
    assert utc_of(NOON_MILLIS + 1) == "2026-01-31 12:00:00.001"
    assert utc_of(NOON_MILLIS, separator="T", suffix="Z") == "2026-01-31T12:00:00.000Z"
    assert shown_millis(NOON_MILLIS) == "2026-01-31 12:00:00.000 UTC"


@pytest.mark.parametrize("millis", [253_402_300_800_000, -62_135_596_800_001, 2**63 - 1, -(2**63)])
def test_a_time_that_no_date_has_is_shown_in_milliseconds(millis: int) -> None:
    assert utc_of(millis, separator="T", suffix="Z") == shown_millis(millis) == f"{millis} ms"
