"""A run of tests that is recorded test by test, so that one that was cut off can be continued.

`--record=FILE` appends a line to the file as each test ends, `passed <id>` or `failed <id>`, and what failed to
`FILE.failures`. A test that has passed by the file is left out: the same call again runs the others.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest


class RunRecord:
    """Writes the record, in the process that tests report to."""

    def __init__(self, path: Path) -> None:
        """Keep what stands in the file now: processes that are started later leave out the same tests."""
        self._path = path
        self._failed: set[str] = set()
        path.touch()
        shutil.copyfile(path, _before(path))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take one phase of a test: its outcome is known when the last one has ended."""
        if report.failed:
            self._failed.add(report.nodeid)
            with self._path.with_suffix(".failures").open("a", encoding="utf-8") as failures:
                failures.write(f"== {report.nodeid} ({report.when})\n{report.longreprtext}\n")
        if report.when == "teardown":
            outcome = "failed" if report.nodeid in self._failed else "passed"
            with self._path.open("a", encoding="utf-8") as record:
                record.write(f"{outcome} {report.nodeid}\n")


def without_passed(path: Path, items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that are to run, and those that have passed by the record."""
    lines = _before(path).read_text("utf-8").splitlines()
    passed = {line.partition(" ")[2] for line in lines if line.startswith("passed ")}
    found = list(items)
    return [one for one in found if one.nodeid not in passed], [one for one in found if one.nodeid in passed]


def _before(path: Path) -> Path:
    return path.with_suffix(".before")
