"""Lines of the log: their form, their bounds, and that a library configures nothing."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from lakelog.common.events import VALUE_CHARACTERS_MAX, event_line, log_event

LOGGER = logging.getLogger("lakelog.filestore")


def test_a_line_is_the_event_and_its_fields_in_the_order_given() -> None:
    line = event_line("commit", table="db.t", snapshot=7, rows=-2, user=None, log_offsets={1: 7, 0: 12})
    assert line == "commit table=db.t snapshot=7 rows=-2 user=- log_offsets=0:12,1:7"


@pytest.mark.parametrize("text", ["two words", 'a"b', "a\nb", "a=b", "a\\b", "", "-", "a\u2028b", "\x1b[0m"])
def test_a_value_that_would_break_the_line_is_a_json_string(text: str) -> None:
    line = event_line("commit", table=text, snapshot=1)
    assert len(line.splitlines()) == 1
    assert line.startswith('commit table="')
    assert line.endswith('" snapshot=1')


def test_a_long_value_is_cut() -> None:
    for value in ("x" * 10_000, dict.fromkeys(range(10_000), 5)):
        line = event_line("commit", value=value)
        assert len(line) <= len("commit value=") + VALUE_CHARACTERS_MAX
        assert line.endswith("...")


def test_nothing_is_formatted_where_the_level_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="lakelog"):
        log_event(LOGGER, "commit", table=object())  # type: ignore[arg-type]  # formatting it would raise
    assert caplog.records == []


def test_lakelog_sets_no_handler_and_no_level() -> None:
    program = """
import logging
import lakelog.catalog, lakelog.cli.main, lakelog.filestore, lakelog.logstore.kafka.clients.clients, lakelog.spark
loggers = [one for name, one in logging.root.manager.loggerDict.items() if name.split(".")[0] == "lakelog"]
found = [one for one in loggers if isinstance(one, logging.Logger)] + [logging.root]
print([one.name for one in found if one.level not in (logging.NOTSET, logging.WARNING)])
print([one.name for one in found if any(type(handler) is not logging.NullHandler for handler in one.handlers)])
print([one.name for one in found if not one.propagate])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["[]", "[]", "[]"]
