"""The acts: both jobs run, the writer is killed and comes back, both end. No checks here."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from demo.changes import ChangeFile
from demo.display import Display
from demo.latency import MicroBatch, Offsets, read_batches
from demo.processes import Job
from demo.steps import StepLog, StepTaken, committed
from demo.workspace import READER, WRITER, Workspace
from lakelog.protocol.state.steps import Step

JOBS_MODULE = "demo.jobs"
READER_STARTS_AFTER = 1  # snapshot, which it reads before the log
LOOK_SECONDS = 0.1
AIM_SECONDS = 0.002
STALL_SECONDS_MAX = 300.0


class JobFailedError(Exception):
    """A job ended before it was done, or got no further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPlan:
    """When to strike: once the first bucket of a batch has come to `step`.

    The batch is the first one from `earliest` on that begins after the reader has read something, at most `latest`.
    """

    step: Step
    earliest: int
    latest: int

    def choose(self, newest: int) -> int:
        """The batch to strike when the reader has read and `newest` is being written."""
        return min(self.latest, max(self.earliest, newest + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What happened. `steps_before` and `steps_after` are the writer's before the kill and after it.

    `written` are its batches, `first_of_starts` the numbers of those that it finished first after each of its starts.
    """

    steps_before: Sequence[StepTaken]
    steps_after: Sequence[StepTaken]
    struck_count: int
    written: Sequence[MicroBatch]
    first_of_starts: Sequence[int]
    read: Sequence[MicroBatch]


@dataclass(slots=True)
class Play:
    """Runs both jobs to their ends. `log_end` is where the log of `flights` ends once all is written."""

    workspace: Workspace
    files: Sequence[ChangeFile]
    plan: KillPlan
    display: Display
    log_end: Callable[[], Offsets]
    jobs_module: str = JOBS_MODULE
    _jobs: list[Job] = field(default_factory=list)
    _steps: list[StepLog] = field(default_factory=list)
    _reader: Job | None = None
    _read: Sequence[MicroBatch] = ()
    _target: int | None = None
    _is_kill_due: bool = False
    _seen: tuple[int, int] = (0, 0)
    _moved_at: float = field(default_factory=time.monotonic)

    def run(self) -> Played:
        """Play it. Every process that was started has ended afterwards. Raises JobFailedError."""
        try:
            with self.display:
                return self._run()
        finally:
            for job in self._jobs:
                job.kill()

    def _run(self) -> Played:
        writer = self._start_writer()
        self._look_until(lambda: self._is_kill_due or not writer.is_running)
        if not self._is_kill_due:
            self._look()
            raise JobFailedError(
                f"the writer was done before a batch came to {self.plan.step.value!r}: nothing to kill"
            )
        struck_count = writer.kill()
        self._jobs.remove(writer)
        self._read_steps()
        self.display.say(f"SIGKILL to the {struck_count} processes of the writer, in batch {self._newest()}")
        # The reader goes on without the writer; with it up, the rest comes to it fresh from the log.
        self._look_until(lambda: self._reader is None or bool(self._read))

        writer = self._start_writer()
        self.display.say("the writer starts again from its checkpoint")
        self._look_until(lambda: not writer.is_running)
        self._look()
        if len(self._committed()) != len(self.files):
            raise JobFailedError(f"the writer ended with {len(self._committed())} of {len(self.files)} batches written")
        reader = self._reader or self._start_reader()
        self._tell_log_end()
        self._look_until(lambda: not reader.is_running)
        self._look()

        before, after = self._steps
        starts = [read_batches(self.workspace.progress(run)) for run in ("writer-1", "writer-2")]
        return Played(
            steps_before=before.taken,
            steps_after=after.taken,
            struck_count=struck_count,
            written=[batch for batches in starts for batch in batches],
            first_of_starts=[batches[0].identifier for batches in starts if batches],
            read=self._read,
        )

    def _start_writer(self) -> Job:
        run = f"{WRITER}-{len(self._steps) + 1}"
        self._steps.append(StepLog(self.workspace.steps(run)))
        return self._start(WRITER, run)

    def _start_reader(self) -> Job:
        self._reader = self._start(READER, READER)
        return self._reader

    def _start(self, name: str, run: str) -> Job:
        job = Job.start(
            run,
            self.jobs_module,
            [name, run, str(self.workspace.root)],
            output=self.workspace.output(run),
            env={"LAKELOG_STEP_LOG": str(self.workspace.steps(run))},
        )
        self._jobs.append(job)
        self._moved_at = time.monotonic()
        return job

    def _look_until(self, is_over: Callable[[], bool]) -> None:
        looked_at = 0.0
        while not is_over():
            if time.monotonic() - looked_at >= LOOK_SECONDS:
                self._look()
                looked_at = time.monotonic()
            time.sleep(AIM_SECONDS if self._is_aiming() else LOOK_SECONDS)
            self._read_steps()

    def _read_steps(self) -> None:
        fresh = self._steps[-1].read()
        target = self._kill_target()
        self._is_kill_due |= any(taken.identifier >= target and taken.step is self.plan.step for taken in fresh)

    def _look(self) -> None:
        """See what the jobs did, show it, and start the reader when it is its time. Raises JobFailedError."""
        self._read_steps()
        self._note_movement()
        for job in self._jobs:
            if not job.is_running and job.process.returncode != 0:
                raise JobFailedError(f"the {job.name} failed; the end of its output:\n{job.last_output()}")
        if time.monotonic() - self._moved_at > STALL_SECONDS_MAX:
            ends = "\n".join(f"the end of the {job.name}'s output:\n{job.last_output()}" for job in self._jobs)
            raise JobFailedError(f"nothing moved for {STALL_SECONDS_MAX:.0f} s; {ends}")
        if self._reader is None and len(self._committed()) >= READER_STARTS_AFTER:
            self._start_reader()
            self.display.say("the first snapshot is there: the reader starts")
        self._show()

    def _note_movement(self) -> None:
        self._read = read_batches(self.workspace.progress(READER))
        seen = (sum(len(log.taken) for log in self._steps), len(self._read))
        if seen != self._seen:
            self._seen, self._moved_at = seen, time.monotonic()
        if self._target is None and self._read:
            self._target = self.plan.choose(self._newest())

    def _is_aiming(self) -> bool:
        return len(self._steps) == 1 and self._newest() >= self._kill_target() - 1

    def _kill_target(self) -> int:
        return self.plan.latest if self._target is None else self._target

    def _newest(self) -> int:
        taken = self._steps[-1].taken
        return taken[-1].identifier if taken else -1

    def _committed(self) -> set[int]:
        return set().union(*(committed(log.taken) for log in self._steps))

    def _show(self) -> None:
        written = self._committed()
        self.display.show(
            batches_written=len(written),
            changes_written=sum(self.files[batch].change_count for batch in written),
            rows_read=sum(batch.row_count for batch in self._read),
            batches_read=len(self._read),
        )

    def _tell_log_end(self) -> None:
        path = self.workspace.log_end
        text = json.dumps({str(bucket): offset for bucket, offset in self.log_end().items()})
        path.with_suffix(".new").write_text(text, encoding="utf-8")
        path.with_suffix(".new").rename(path)
