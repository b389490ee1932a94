from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.cli.main import main
from lakelog.cli.options import default_text, option_groups, options_page
from lakelog.common.options import Option, parse_duration_millis, parse_size_bytes

GROUPS = option_groups()
PAGE = Path(__file__).parents[2] / "docs" / "options.md"


def test_the_page_is_what_the_declarations_give() -> None:
    assert PAGE.read_text("utf-8") == options_page(), "run: scripts/lakelog options --markdown > docs/options.md"


def test_no_option_is_declared_twice_in_a_group() -> None:
    for options in GROUPS.values():
        keys = [option.key for option in options]
        assert sorted(set(keys)) == sorted(keys)


@pytest.mark.parametrize("option", [option for options in GROUPS.values() for option in options], ids=lambda o: o.key)
def test_a_printed_default_is_what_a_user_may_write(option: Option[object]) -> None:
    text = default_text(option)
    if text:
        assert option.parse(text) == option.default


def test_defaults_have_the_largest_unit_that_is_exact() -> None:
    size = Option(key="s", parse=parse_size_bytes, default=256 << 20, doc="")
    time = Option(key="t", parse=parse_duration_millis, default=90_000, doc="")
    assert (default_text(size), default_text(time)) == ("256 mb", "90 s")


def test_the_command_prints_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["options"])

    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert all(option.key in printed for options in GROUPS.values() for option in options)
