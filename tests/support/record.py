"""A run of tests that is recorded test by test, so that one that was stopped or killed can be continued.

`--record=FILE` appends a line to the file as each test ends, `passed <seconds> <id>` or `failed <seconds> <id>`, and
what failed to `FILE.failures`. A test that has passed by the file is left out: the same call again runs the others.
`--full` has such a file for each state of the checkout, `.durations/full-<commit>.txt`. At its end, and when it is
stopped, each folder's verdict is printed: passed, failed, or so many tests left.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController  # type: ignore[import-untyped]  # xdist has no types


class RunRecord:
    """Writes the record and the verdict, in the process that tests report to."""

    def __init__(self, path: Path) -> None:
        """Keep what stands in the file now: processes that are started later leave out the same tests."""
        self._path = path
        self._failed: set[str] = set()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text("utf-8").splitlines(keepends=True) if path.exists() else []
        path.write_text("".join(line for line in lines if line.endswith("\n")), "utf-8")  # not the one of a kill
        shutil.copyfile(path, _before(path))
        _tests(path).unlink(missing_ok=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """A process that is started to run tests knows the record too."""
        node.workerinput["record"] = str(self._path)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take one phase of a test: its outcome is known when the last one has ended."""
        self._seconds[report.nodeid] += report.duration
        if report.failed:
            self._failed.add(report.nodeid)
            with self._path.with_suffix(".failures").open("a", encoding="utf-8") as failures:
                failures.write(f"== {report.nodeid} ({report.when})\n{report.longreprtext}\n")
        if report.when == "teardown":
            outcome = "failed" if report.nodeid in self._failed else "passed"
            with self._path.open("a", encoding="utf-8") as record:
                record.write(f"{outcome} {self._seconds.pop(report.nodeid):.2f} {report.nodeid}\n")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A call that had nothing left to run has passed."""
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and is_passed(self._path):
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the verdict of each folder and of all."""
        terminalreporter.section(f"verdicts of {self._path.stem}")
        for line in verdict(self._path):
            terminalreporter.line(line)


def record_of_full(root: Path) -> Path:
    """Where the record of the long tests is, for the commit that is checked out and what was changed since."""
    commit = _git(root, "rev-parse", "--short=12", "HEAD").strip() or "none"
    changes = _git(root, "diff", "HEAD") + _git(root, "ls-files", "--others", "--exclude-standard")
    changed = f"-{hashlib.sha256(changes.encode()).hexdigest()[:8]}" if changes else ""
    return root / ".durations" / f"full-{commit}{changed}.txt"


def _git(root: Path, *arguments: str) -> str:
    try:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False).stdout
    except OSError:  # a checkout without git is one state
        return ""


def without_passed(path: Path, items: Iterable[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The tests that are to run, and those that have passed by the record."""
    found = list(items)
    passed = _outcomes(_before(path))["passed"]
    return [one for one in found if one.nodeid not in passed], [one for one in found if one.nodeid in passed]


def keep_names(path: Path, items: Iterable[pytest.Item]) -> None:
    """Keep which tests the run has, with those that have passed before: a verdict says how many are left."""
    _tests(path).write_text("".join(f"{one.nodeid}\n" for one in items), "utf-8")


def is_passed(path: Path) -> bool:
    """Whether each test of the run has passed, now or before."""
    tests = _names(path)
    return bool(tests) and _outcomes(path)["passed"].keys() >= set(tests)


def verdict(path: Path) -> list[str]:
    """A line for each folder, for each test that failed and passed later, and one for all."""
    outcomes, folders = _outcomes(path), defaultdict(list)
    for name in _names(path):
        folders[folder_of(name)].append(name)
    lines = [f"{_verdict_of(tests, outcomes):<24} {folder}" for folder, tests in sorted(folders.items())]
    passed, failed = outcomes["passed"], outcomes["failed"]
    lines += [f"failed first, passed later: {name}" for name in sorted(failed.keys() & passed.keys())]
    seconds = sum(passed.values()) + sum(seconds for name, seconds in failed.items() if name not in passed)
    whole = _verdict_of([name for names in folders.values() for name in names], outcomes)
    lines.append(f"{path.stem}: {whole}; the tests took {seconds / 60:.0f} minutes in sum")
    if not is_passed(path):
        lines.append(f"the same call again runs what has not passed, by {path}; without that file, all")
    return lines


def folder_of(test: str) -> str:
    """The folder of a test, by its id."""
    return test.partition("::")[0].rpartition("/")[0]


def _verdict_of(tests: Sequence[str], outcomes: Mapping[str, Mapping[str, float]]) -> str:
    left = [name for name in tests if name not in outcomes["passed"]]
    failed = [name for name in left if name in outcomes["failed"]]
    parts = [f"{len(failed)} failed"] if failed else []
    parts += [f"{len(left) - len(failed)} left"] if len(left) > len(failed) else []
    return ", ".join([*parts, f"{len(tests) - len(left)} passed"])


def _outcomes(path: Path) -> dict[str, dict[str, float]]:
    """The tests with their seconds, by outcome."""
    found: dict[str, dict[str, float]] = {"passed": {}, "failed": {}}
    for line in path.read_text("utf-8").splitlines():
        outcome, seconds, name = line.split(" ", 2)
        found[outcome][name] = float(seconds)
    return found


def _names(path: Path) -> list[str]:
    return _tests(path).read_text("utf-8").splitlines() if _tests(path).exists() else []


def _before(path: Path) -> Path:
    return path.with_suffix(".before")


def _tests(path: Path) -> Path:
    return path.with_suffix(".tests")
