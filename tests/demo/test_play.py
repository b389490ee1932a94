from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from rich.console import Console

from demo.changes import ChangeFile
from demo.display import Display
from demo.kill import explain_kill
from demo.play import JobFailedError, KillPlan, Play
from demo.processes import session_members
from demo.workspace import Workspace
from lakelog.protocol.state.steps import Step
from tests.support.jobs import demo_jobs


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    workspace = Workspace(root=tmp_path / "demo")
    workspace.create()
    return workspace


def make_play(workspace: Workspace) -> Play:
    file = ChangeFile(path=Path("none"), row_count=20, change_count=10, last_at=datetime(2013, 1, 1, tzinfo=UTC))
    return Play(
        workspace=workspace,
        files=[file] * demo_jobs.BATCHES,
        plan=KillPlan(step=Step.PRODUCE, earliest=1, latest=demo_jobs.KILLED_BATCH),
        display=Display(Console(quiet=True), change_count=40, file_count=demo_jobs.BATCHES),
        log_end=lambda: {0: 10},
        jobs_module=demo_jobs.__name__,
    )


def assert_all_are_gone(play: Play) -> None:
    assert all(session_members(job.process.pid) == set() for job in play._jobs)


def test_the_writer_is_killed_in_its_batch_and_comes_back(workspace: Workspace) -> None:
    played = make_play(workspace).run()
    killed = explain_kill(played.steps_before, played.steps_after, bucket_count=2)
    assert killed.identifier == demo_jobs.KILLED_BATCH
    assert killed.buckets[0].last_step is Step.AFTER_COMMIT
    assert killed.driver_step is None
    assert played.struck_count >= 1
    assert [batch.identifier for batch in played.written] == [0, 1, 2, 3]
    assert list(played.first_of_starts) == [0, demo_jobs.KILLED_BATCH]
    assert len(played.read) == 1


def test_no_process_outlives_the_play(workspace: Workspace) -> None:
    play = make_play(workspace)
    play.run()
    assert_all_are_gone(play)


@pytest.mark.parametrize("run", ["writer-1", "writer-2", "reader"])
def test_a_job_that_fails_ends_the_play_and_says_why(workspace: Workspace, run: str) -> None:
    (workspace.root / "fail").write_text(run, encoding="utf-8")
    play = make_play(workspace)
    with pytest.raises(JobFailedError, match=rf"(?s){run} failed.*this run fails"):
        play.run()
    assert_all_are_gone(play)


def test_ctrl_c_ends_the_jobs(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    play = make_play(workspace)

    def interrupt(**_: object) -> None:
        if play._reader is not None:
            raise KeyboardInterrupt

    monkeypatch.setattr(play.display, "show", interrupt)
    with pytest.raises(KeyboardInterrupt):
        play.run()
    assert len(play._jobs) == 2
    assert_all_are_gone(play)


@pytest.mark.parametrize(
    ("newest", "target"),
    [(3, 10), (12, 13), (25, 20)],  # 13: a batch that is under way may be past the step already
)
def test_the_kill_waits_for_the_reader_within_bounds(newest: int, target: int) -> None:
    assert KillPlan(step=Step.COMMIT, earliest=10, latest=20).choose(newest) == target
