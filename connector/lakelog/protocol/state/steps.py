"""The named steps of the commit protocol, and their observers.

Two environment variables, read once per process, make the steps visible from outside:

`LAKELOG_STEP_LOG=path`               appends one JSON line per step to a file (the demo reads it after a kill)
`LAKELOG_STEP_OBSERVER=module:name`   a callable that is called with every step (for the crash tests)
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from importlib import import_module

logger = logging.getLogger("lakelog.steps")


class Step(StrEnum):
    """A point of the protocol at which a process may die; observed just before the step is taken.

    The AFTER_ steps are observed just after it.
    """

    FENCE = "fence"
    LOOK = "look"
    PREPARE = "prepare"
    BEGIN = "begin"
    PRODUCE = "produce"
    COMMIT = "commit"
    AFTER_COMMIT = "after commit"
    BEFORE_SNAPSHOT = "before snapshot create"
    AFTER_SNAPSHOT = "after snapshot create"
    BETWEEN_APPEND_AND_COMPACT = "between APPEND and COMPACT"
    PREPARED_COMMIT = "before prepared commit create"
    AFTER_PREPARED_COMMIT = "after prepared commit create"
    DELETE_PREPARED = "before prepared commit delete"
    CANCEL = "before the mark of a cancelled statement"


StepObserver = Callable[[Step, str, int, int | None], None]
"""Called with (step, user, identifier, bucket); bucket is None for the driver's steps."""


def silent(step: Step, user: str, identifier: int, bucket: int | None) -> None:
    """Do nothing; for callers that observe steps themselves, such as the simulation."""


@cache
def process_observer() -> StepObserver:
    """The observer that the environment names; without one, steps are logged at DEBUG."""
    watchers: list[StepObserver] = [_log_step]
    if path := os.environ.get("LAKELOG_STEP_LOG"):
        watchers.append(_append_to(path))
    if name := os.environ.get("LAKELOG_STEP_OBSERVER"):
        module, _, attribute = name.partition(":")
        watchers.append(getattr(import_module(module), attribute))

    def observe(step: Step, user: str, identifier: int, bucket: int | None) -> None:
        for watcher in watchers:
            watcher(step, user, identifier, bucket)

    return observe


def _log_step(step: Step, user: str, identifier: int, bucket: int | None) -> None:
    logger.debug("step %s: user %s, identifier %d, bucket %s", step.value, user, identifier, bucket)


def _append_to(path: str) -> StepObserver:
    def append(step: Step, user: str, identifier: int, bucket: int | None) -> None:
        fields = {"step": step.value, "user": user, "identifier": identifier, "bucket": bucket}
        line = json.dumps(fields | {"pid": os.getpid(), "time": time.time()}) + "\n"
        # One write to an O_APPEND descriptor is not torn by another process, and a SIGKILL cannot undo it.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    return append
