"""Times in queries: a law for those that are right, and one error for all others."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.lineage.page.time_expressions import seconds_of

NOW = 1_700_000_000
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
steps = st.lists(st.tuples(st.sampled_from("+-"), st.integers(0, 10**6), st.sampled_from(list(SECONDS))), max_size=8)


@given(given_steps=steps)
def test_steps_add_up(given_steps: list[tuple[str, int, str]]) -> None:
    text = "now" + "".join(f"{sign}{count}{unit}" for sign, count, unit in given_steps)
    signs = {"+": 1, "-": -1}
    expected = NOW + sum(signs[sign] * count * SECONDS[unit] for sign, count, unit in given_steps)
    assert seconds_of(text, NOW) == expected


@given(millis=st.integers(0, 10**9), sign=st.sampled_from("+-"))
def test_milliseconds_are_cut_to_whole_seconds(millis: int, sign: str) -> None:
    assert abs(seconds_of(f"now{sign}{millis}ms", NOW) - NOW) == millis // 1_000


@given(text=st.text(max_size=40) | st.from_regex(r"now[+-]?[0-9]*[a-zA-Z ]*[+-]?", fullmatch=True))
def test_any_other_text_is_the_one_error(text: str) -> None:
    is_time = re.fullmatch(r"[0-9]{1,18}|now([+-][0-9]{1,12}(ms|s|m|h|d))*", text, re.ASCII) is not None
    if is_time:
        assert isinstance(seconds_of(text, NOW), int)
    elif (
        re.fullmatch(r"[0-9]{1,30}|now([+-][0-9]{1,30}(ms|s|m|h|d))*", text, re.ASCII) is None
    ):  # else more than 64 bits
        with pytest.raises(ValueError, match=f"^{re.escape(f'invalid time format {text}')}$"):
            seconds_of(text, NOW)
