from __future__ import annotations

import sys
from pathlib import Path

import pytest

from demo.processes import Job, session_members

FAMILY = """
import os, subprocess, sys
child = "import os, time; os.setpgid(0, 0); print('ready', flush=True); time.sleep(60)"
processes = [subprocess.Popen([sys.executable, "-c", child]) for _ in range(2)]
processes[0].wait()
"""


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A process with two children in groups of their own, as Spark's Python workers are."""
    (tmp_path / "family.py").write_text(FAMILY, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    job = Job.start("family", "family", [], output=tmp_path / "output.log", env={})
    while job.last_output().count("ready") < 2:
        assert job.is_running
    return job


def test_a_kill_takes_the_children_too(family: Job) -> None:
    session = family.process.pid
    assert len(session_members(session)) == 3
    assert family.kill() == 3
    assert session_members(session) == set()
    assert not family.is_running


def test_a_kill_of_an_ended_process_strikes_no_other(family: Job) -> None:
    family.kill()
    assert family.kill() == 0


def test_output_is_kept_for_whoever_asks_why(tmp_path: Path) -> None:
    job = Job.start("wrong", "no_such_module", [], output=tmp_path / "output.log", env={})
    assert job.process.wait(30) == 1
    assert "no_such_module" in job.last_output()
    assert Path(sys.executable).name in job.last_output()
