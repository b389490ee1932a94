"""Timestamps as text, beside Arrow's own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.logstore.codec.timestamp_text import timestamp_strings

SECONDS = st.integers(-719_528 * 86_400, 2_932_897 * 86_400 - 1)  # the years 0 to 9999
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@settings(deadline=None)
@given(
    unit=st.sampled_from(sorted(PER_SECOND)),
    has_zone=st.booleans(),
    moments=st.lists(st.tuples(SECONDS, st.integers(0, 999_999_999))),
)
def test_the_strings_are_those_of_arrow(unit: str, has_zone: bool, moments: list[tuple[int, int]]) -> None:
    per_second = PER_SECOND[unit]
    if unit == "ns":  # 64 bits reach from 1677 to 2262
        moments = [(second % 9_000_000_000, fraction) for second, fraction in moments]
    values = [second * per_second + fraction % per_second for second, fraction in moments]
    kind = pa.timestamp(unit, tz="UTC" if has_zone else None)

    found = timestamp_strings(np.array(values, np.int64), unit, has_zone=has_zone)

    assert found.to_pylist() == pa.array(values, pa.int64()).cast(kind).cast(pa.string()).to_pylist()


@pytest.mark.parametrize("span_days", [10, 200_000])
def test_days_far_apart_are_as_right_as_near_ones(span_days: int) -> None:
    days = np.array([-span_days, 0, span_days, -span_days], np.int64)

    found = timestamp_strings(days * 86_400, "s", has_zone=False)

    assert found.to_pylist() == pa.array(days * 86_400).cast(pa.timestamp("s")).cast(pa.string()).to_pylist()
