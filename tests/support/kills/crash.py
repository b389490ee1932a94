"""Kills or holds processes at named steps of the commit protocol.

Loaded into drivers and Python workers through LAKELOG_STEP_OBSERVER=tests.support.kills.crash:observe; the plan is in
LAKELOG_TEST_CRASH. A plan strikes once: the marker file is created exclusively and says who was struck.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from lakelog.protocol.state.steps import Step

PLAN_VARIABLE = "LAKELOG_TEST_CRASH"
HOLD_SECONDS_MAX = 120.0
POLL_SECONDS = 0.02


class Victim(StrEnum):
    """Who is struck at the step."""

    DRIVER = "driver"  # the Spark driver with its JVM, and the worker that reached the step
    WORKER = "worker"  # only the process that reached the step
    ZOMBIE = "zombie"  # the driver dies, the worker is held, to be let loose later
    HELD = "held"  # no process dies: the step waits until it is released


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPlan:
    """Where to strike: at the step, in batch `identifier` or the first one after it that takes the step.

    `marker` appears when the plan has struck; a held process goes on once `release` exists. The job writes its process
    group into `group_file` before it starts.
    """

    step: Step
    identifier: int
    victim: Victim
    marker: Path
    release: Path

    @property
    def group_file(self) -> Path:
        """Where the driver's process group is written."""
        return self.marker.with_suffix(".group")

    def to_env(self) -> Mapping[str, str]:
        """The environment that makes a process and its workers follow the plan."""
        fields = {key: str(value) for key, value in asdict(self).items()}
        return {PLAN_VARIABLE: json.dumps(fields), "LAKELOG_STEP_OBSERVER": f"{__name__}:observe"}


@cache
def _plan() -> CrashPlan:
    fields = json.loads(os.environ[PLAN_VARIABLE])
    return CrashPlan(
        step=Step(fields["step"]),
        identifier=int(fields["identifier"]),
        victim=Victim(fields["victim"]),
        marker=Path(fields["marker"]),
        release=Path(fields["release"]),
    )


def observe(step: Step, user: str, identifier: int, bucket: int | None) -> None:
    """Strike when the plan says so; the first process to create the marker is the one."""
    plan = _plan()
    if step is not plan.step or identifier < plan.identifier:
        return
    try:
        descriptor = os.open(plan.marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return
    hit = {"step": step.value, "user": user, "identifier": identifier, "bucket": bucket, "pid": os.getpid()}
    os.write(descriptor, json.dumps(hit).encode())
    os.fsync(descriptor)
    os.close(descriptor)
    _strike(plan)


def _strike(plan: CrashPlan) -> None:
    if plan.victim is Victim.WORKER:
        os.kill(os.getpid(), signal.SIGKILL)
    if plan.victim is Victim.ZOMBIE:
        # The workers' daemon takes its process group with it when the JVM has ended; a zombie on another machine lives.
        os.setpgid(0, 0)
    if plan.victim in (Victim.DRIVER, Victim.ZOMBIE):
        os.killpg(int(plan.group_file.read_text()), signal.SIGKILL)
    if plan.victim is Victim.DRIVER:
        os.kill(os.getpid(), signal.SIGKILL)
    deadline = time.monotonic() + HOLD_SECONDS_MAX
    while not plan.release.exists() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
