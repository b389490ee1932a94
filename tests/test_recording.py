"""A run that is recorded can be stopped or killed, goes on with what has not passed, and has a verdict a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.support.budgets import SHARED, Measured, measured, over_budget, written
from tests.support.examples import LONG_CASES_MAX, spread
from tests.support.processor_time import SPEED_PROPERTY, TEST_PROPERTY
from tests.support.record import is_passed, record_of_full, verdict

ROOT = Path(__file__).parent.parent


CONFTEST = """
from pathlib import Path
from tests.support.record import RunRecord, keep_names, without_passed

RECORD = Path("kept/run.txt")

def pytest_configure(config):
    config.pluginmanager.register(RunRecord(RECORD))

def pytest_collection_modifyitems(config, items):
    keep_names(RECORD, items)
    items[:], passed = without_passed(RECORD, items)
    config.hook.pytest_deselected(items=passed)
"""
TESTS = """
import os
import signal
from pathlib import Path

def test_first():
    with Path("ran.txt").open("a") as file:
        file.write("first ")

def test_second():
    if Path("signal.txt").exists():
        number = int(Path("signal.txt").read_text())
        Path("signal.txt").unlink()
        os.kill(os.getpid(), number)

def test_third():
    assert not Path("broken.txt").exists()
"""


def test_the_long_cases_that_full_tries_are_spread_over_all() -> None:
    assert list(spread(3, 16)) == [0, 1, 2]
    assert list(spread(135, 4)) == [0, 44, 89, 134]
    assert len(set(spread(17, LONG_CASES_MAX))) == LONG_CASES_MAX


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with tests in two folders; a test of the second one can end the run."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for folder, text in (("one", "def test_it(): pass\n"), ("two", TESTS)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test_some.py").write_text(text)
    return tmp_path


def run(suite: Path) -> tuple[int, str]:
    call = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "one",
        "two",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--import-mode=importlib",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(call, cwd=suite, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_ended_goes_on_with_what_has_not_passed(suite: Path, how: signal.Signals) -> None:
    (suite / "signal.txt").write_text(str(int(how)))
    assert run(suite)[0] in (pytest.ExitCode.INTERRUPTED, -how)
    record = suite / "kept" / "run.txt"
    assert not is_passed(record)
    assert [line for line in verdict(record) if line.endswith(("one", "two"))] == [
        f"{'1 passed':<24} one",
        f"{'2 left, 1 passed':<24} two",
    ]
    code, shown = run(suite)
    assert code == 0
    assert "run: 4 passed" in shown
    assert (suite / "ran.txt").read_text() == "first "
    assert run(suite)[0] == 0, "nothing is left, and the verdict stays"


def test_a_failure_stays_in_the_verdict_and_is_run_again(suite: Path) -> None:
    (suite / "broken.txt").touch()
    code, shown = run(suite)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert "1 failed, 2 passed       two" in shown
    assert "run: 1 failed, 3 passed" in shown
    (suite / "broken.txt").unlink()
    code, shown = run(suite)
    assert code == 0
    assert "failed first, passed later: two/test_some.py::test_third" in shown


def test_each_state_of_a_checkout_has_a_record_of_its_own(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], check=True)
    found = []
    for text in ("a", "b"):
        (tmp_path / "file").write_text(text)
        subprocess.run([*git, "add", "file"], check=True)
        found.append(record_of_full(tmp_path))
        subprocess.run([*git, "commit", "-q", "-m", text], check=True)
        found.append(record_of_full(tmp_path))
    (tmp_path / "file").write_text("c")
    found.append(record_of_full(tmp_path))
    assert len({*found}) == len(found)
    assert {path.parent for path in found} == {tmp_path / ".durations"}


def run_of_gate(folder: Path, fixed_work: str, *cases: tuple[str, str, str]) -> Path:
    """Durations of tests: their module, their name, their seconds."""
    suite = ET.Element("testsuite")
    for module, name, seconds in cases:
        case = ET.SubElement(suite, "testcase", classname=module, name=name)
        properties = ET.SubElement(case, "properties")
        ET.SubElement(properties, "property", name=TEST_PROPERTY, value=seconds)
        ET.SubElement(properties, "property", name=SPEED_PROPERTY, value=fixed_work)
    ET.ElementTree(suite).write(folder / "run.xml")
    return folder / "run.xml"


def test_folders_and_long_tests_over_their_budgets_are_named(tmp_path: Path) -> None:
    budgets: Mapping[str, Mapping[str, object]] = {
        "machine": {"fixed_work": 0.01},
        "seconds": {"tests/a": 10, "tests/gone": 1, SHARED: 1},
        "long": {"tests/b/test_y.py::test_kept": "a promise", "tests/b/test_y.py::test_gone": "another"},
    }
    cases = ("tests.a.test_x", "test_one[1.5]", "36"), ("tests.b.test_y", "test_kept", "30")
    run = measured(run_of_gate(tmp_path, "0.01", *cases))
    assert over_budget(run, budgets) == [
        "tests/a took 36 s of the 10 s that it has",
        "tests/b has no budget; its tests took 30 s",
        "tests/gone has a budget and no test",
        "tests/a/test_x.py::test_one[1.5] took 36 s: mark it `full`, or say in [long] what it alone guards",
        "tests/b/test_y.py::test_gone of [long] is no test of the gate",
    ]


def test_a_slow_machine_has_as_much_more(tmp_path: Path) -> None:
    budgets: Mapping[str, Mapping[str, object]] = {
        "machine": {"fixed_work": 0.01},
        "seconds": {"tests/a": 10, SHARED: 1},
        "long": {},
    }
    slow = measured(run_of_gate(tmp_path, "0.02", ("tests.a.test_x", "test_one", "19")))
    assert over_budget(slow, budgets) == []
    fast = measured(run_of_gate(tmp_path, "0.005", ("tests.a.test_x", "test_one", "11")))
    assert over_budget(fast, budgets) == ["tests/a took 11 s of the 10 s that it has"]


def test_a_folder_that_doubles_is_over_its_budget_and_a_busy_or_slow_machine_is_not() -> None:
    def run(factor: float, fixed_work: float, of_a: float = 1.0) -> Measured:
        folders = {"tests/a": 45.0 * factor * of_a, "tests/b": 400.0 * factor, SHARED: 30.0 * factor}
        return Measured(folders=folders, tests={}, fixed_work=fixed_work)

    budgets = tomllib.loads(written(run(1, 0.014), "[machine]\nfixed_work = 0.01\n\n[seconds]\n\n[long]\n"))
    assert over_budget(run(1, 0.014, of_a=2), budgets) == ["tests/a took 90 s of the 88 s that it has"]
    busy = 3194 / 2307  # the same gate beside other work and alone; the fixed work took as long
    assert over_budget(run(busy, 0.014), budgets) == []
    assert over_budget(run(2, 0.028), budgets) == []


def test_budgets_of_a_run_keep_the_reasons() -> None:
    run = Measured(folders={"tests/b": 10.0, "tests/a": 0.2}, tests={}, fixed_work=0.02)
    text = '# Why.\n[machine]\nfixed_work = 0.01\n\n[seconds]\n"tests/c" = 1\n\n[long]\n"a" = "b"\n'
    expected = (
        '# Why.\n[machine]\nfixed_work = 0.0200\n\n[seconds]\n"tests/a" = 21\n"tests/b" = 35\n\n[long]\n"a" = "b"\n'
    )
    assert written(run, text) == expected
