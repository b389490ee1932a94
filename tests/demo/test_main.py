from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from demo import main as demo_main
from demo.play import JobFailedError

Run = Callable[[Callable[[], bool], Path], int]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line with something else in place of the jobs."""
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    def run_with(outcome: Callable[[], bool], folder: Path, *options: str) -> int:
        monkeypatch.setattr(demo_main, "run", lambda *_: outcome())
        return demo_main.main(["--folder", str(folder), *options])

    return run_with


def fails() -> bool:
    raise JobFailedError("the writer failed")


def is_interrupted() -> bool:
    raise KeyboardInterrupt


def test_what_matches_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    assert run(lambda: True, tmp_path / "demo") == 0
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("outcome", [lambda: False, fails])
def test_a_mismatch_or_a_failure_exits_non_zero_and_keeps_the_logs(
    run: Run, tmp_path: Path, outcome: Callable[[], bool], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(outcome, tmp_path / "demo") == 1
    assert (tmp_path / "demo" / "logs").exists()
    assert "FAILED" in capsys.readouterr().out


def test_ctrl_c_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    assert run(is_interrupted, tmp_path / "demo") == 130
    assert not (tmp_path / "demo").exists()


def test_a_folder_with_other_files_is_refused(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").touch()
    assert run(lambda: True, tmp_path) == 2
    assert (tmp_path / "thesis.tex").exists()
    assert "--folder" in capsys.readouterr().out


def test_an_unknown_step_is_refused(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        demo_main.main(["--folder", str(tmp_path), "--kill-at", "lunch"])
    assert "before snapshot create" in capsys.readouterr().err
