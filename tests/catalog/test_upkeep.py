"""What a call says of ages and numbers of snapshots, against what the table's options say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakelog.catalog.upkeep import Age, age_millis, retention_of
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.expire.expiry import Retention

OPTIONS = Retention(count_min=10, count_max=20, age_millis=3_600_000, limit=50)


@pytest.mark.parametrize(
    "older_than", [timedelta(hours=2), "2 h", "7200000", datetime.fromtimestamp(1_700_000_000 - 7200, UTC)]
)
def test_an_age_is_a_timedelta_a_duration_or_a_datetime(older_than: Age) -> None:
    assert age_millis(older_than, now_millis=1_700_000_000_000) == 7_200_000


@pytest.mark.parametrize(
    ("older_than", "said"), [("2 moons", "expected a form such as 2 h"), (7200, "is the int 7200")]
)
def test_an_age_of_another_form_is_refused_by_name(older_than: Age, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"older_than.*{said}"):
        age_millis(older_than, now_millis=0)


def test_what_a_call_leaves_out_the_options_say() -> None:
    assert retention_of(OPTIONS, retain_max=None, retain_min=None, age_millis=None) == OPTIONS
    found = retention_of(OPTIONS, retain_max=5, retain_min=1, age_millis=0)
    assert found == Retention(count_min=1, count_max=5, age_millis=0, limit=50)


@pytest.mark.parametrize(
    ("retain_max", "retain_min", "said"),
    [(5, None, "at most 5 snapshots and at least 10"), (0, None, "retain_max is 0"), (None, -1, "retain_min is -1")],
)
def test_numbers_that_cannot_hold_are_refused(retain_max: int | None, retain_min: int | None, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said):
        retention_of(OPTIONS, retain_max=retain_max, retain_min=retain_min, age_millis=None)
