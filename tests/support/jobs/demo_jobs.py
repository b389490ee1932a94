"""Stands in for the demo's jobs: takes their steps without Spark, tables or a broker.

usage: python -m tests.support.jobs.demo_jobs writer|reader RUN FOLDER
The first run of the writer comes to `produce` in bucket 1 of batch 2 and stays there until it is killed. A file `fail`
in the folder names the run that fails.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

from demo.latency import MicroBatch
from demo.workspace import READER, WRITER, Workspace
from lakelog.protocol.state.steps import Step, process_observer

BATCHES = 4
KILLED_BATCH = 2
POLL_SECONDS = 0.01


def write(run: str, workspace: Workspace) -> None:
    """Take the steps of all batches, from the killed one on in a second run."""
    for identifier in range(0 if run == f"{WRITER}-1" else KILLED_BATCH, BATCHES):
        for step in (Step.BEGIN, Step.PRODUCE, Step.COMMIT, Step.AFTER_COMMIT):
            _take(step, identifier, 0)
        _take(Step.PRODUCE, identifier, 1)
        if run == f"{WRITER}-1" and identifier == KILLED_BATCH:
            signal.pause()
        _take(Step.AFTER_COMMIT, identifier, 1)
        _take(Step.AFTER_SNAPSHOT, identifier, None)
        _note(workspace.progress(run), identifier)


def read(workspace: Workspace) -> None:
    """Read one batch, then wait for the end of the log."""
    _note(workspace.progress(READER), 0)
    while not workspace.log_end.exists():
        time.sleep(POLL_SECONDS)


def _take(step: Step, identifier: int, bucket: int | None) -> None:
    process_observer()(step, "user", identifier, bucket)


def _note(progress: Path, identifier: int) -> None:
    batch = MicroBatch(identifier=identifier, row_count=10, seconds=0.5, read_at=time.time(), log_offsets={0: 10})
    with progress.open("a", encoding="utf-8") as lines:
        lines.write(batch.to_json() + "\n")


def main(job: str, run: str, folder: Path) -> None:
    """Run one of the two."""
    workspace = Workspace(root=folder)
    failing = folder / "fail"
    if failing.exists() and failing.read_text(encoding="utf-8") == run:
        sys.exit("this run fails")
    if job == WRITER:
        write(run, workspace)
    else:
        read(workspace)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
