"""A run that is recorded can be stopped or killed, goes on with what has not passed, and has a verdict a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
