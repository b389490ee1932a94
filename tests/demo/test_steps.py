from __future__ import annotations

from pathlib import Path

import pytest

from demo.steps import StepLog, committed, last_steps, logged_at
from lakelog.protocol.state.steps import Step, process_observer


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StepLog:
    """A step log that the protocol's own observer writes."""
    path = tmp_path / "steps.jsonl"
    monkeypatch.setenv("LAKELOG_STEP_LOG", str(path))
    process_observer.cache_clear()
    observe = process_observer()
    process_observer.cache_clear()
    observe(Step.COMMIT, "u", 7, 1)
    observe(Step.AFTER_COMMIT, "u", 7, 1)
    observe(Step.AFTER_SNAPSHOT, "u", 7, None)
    return StepLog(path)


def test_steps_are_read_as_the_protocol_writes_them(log: StepLog) -> None:
    steps = log.read()
    assert [(taken.step, taken.identifier, taken.bucket) for taken in steps] == [
        (Step.COMMIT, 7, 1),
        (Step.AFTER_COMMIT, 7, 1),
        (Step.AFTER_SNAPSHOT, 7, None),
    ]
    assert last_steps(steps, 7) == {1: Step.AFTER_COMMIT, None: Step.AFTER_SNAPSHOT}
    assert committed(steps) == {7}
    assert logged_at(steps) == {7: steps[1].at}


def test_a_line_in_the_making_waits_for_its_end(log: StepLog) -> None:
    log.read()
    with log.path.open("a", encoding="utf-8") as more:
        more.write('{"step": "look", "user": "u", "identifier": 8,')
    assert log.read() == []

    with log.path.open("a", encoding="utf-8") as more:
        more.write(' "bucket": 0, "pid": 1, "time": 2.0}\n')
    assert [taken.step for taken in log.read()] == [Step.LOOK]
    assert len(log.taken) == 4


def test_a_log_that_is_not_there_yet_has_no_steps(tmp_path: Path) -> None:
    assert StepLog(tmp_path / "none").read() == []
