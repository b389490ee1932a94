"""What an error says of a wrong value: its kind in words of ours, never those of Python's own parsers."""

from __future__ import annotations

import re

import pytest

from lakelog.cli.options import option_groups
from lakelog.common.errors import LakelogError, OptionError, UnsupportedError
from lakelog.common.options import Option
from lakelog.common.types import parse_type
from lakelog.logstore.options import LOG_SYSTEM

OPTIONS = [option for group in option_groups().values() for option in group]
PYTHONS = re.compile("invalid literal|is not a valid|could not convert|ValueError|KeyError|object has no|Enum")


@pytest.mark.parametrize("text", ["no such value", "", "-", "1.5", "9" * 30])
@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_a_wrong_value_of_an_option_is_answered_in_our_words(option: Option[object], text: str) -> None:
    answer = option.key
    try:
        option.of({option.key: text})
    except LakelogError as error:
        answer = str(error)
    assert option.key in answer
    assert not PYTHONS.search(answer)


def test_a_value_that_is_nearly_right_gets_a_suggestion() -> None:
    with pytest.raises(OptionError) as caught:
        LOG_SYSTEM.of({"log.system": "kafak"})
    expected = "option 'log.system' has the value 'kafak'; expected none or kafka (did you mean 'kafka'?)"
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("text", "meant"), [("BIGNT", "BIGINT"), ("STRNG", "STRING"), ("TIMESTMP(3)", "TIMESTAMP"), ("BYTE", "BYTES")]
)
def test_an_unknown_type_is_answered_with_all_types_and_the_one_that_may_be_meant(text: str, meant: str) -> None:
    with pytest.raises(UnsupportedError, match=f"known types: .*STRING.*; did you mean {meant}\\?$"):
        parse_type(text)


@pytest.mark.parametrize("number", ["1_0", "\uff11\uff10", "\u0661\u0660"])
@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.key)
def test_a_number_that_python_alone_reads_is_refused(option: Option[object], number: str) -> None:
    """Paimon and Flink could not open a table that stores it."""
    for unit in ("", " s", " mb"):
        try:
            found = option.of({option.key: f"{number}{unit}"})
        except OptionError:
            continue
        assert not isinstance(found, int | float)
