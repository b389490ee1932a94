"""The step log: which steps of the commit protocol a run took, and when. Source: `lakelog.protocol.state.steps`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakelog.protocol.state.steps import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTaken:
    """One line of a step log. `bucket` is None for the driver's steps; `at` is seconds since 1970."""

    step: Step
    identifier: int
    bucket: int | None
    at: float

    @classmethod
    def from_json(cls, line: str) -> StepTaken:
        """Parse one line."""
        fields = json.loads(line)
        return cls(
            step=Step(fields["step"]), identifier=fields["identifier"], bucket=fields["bucket"], at=fields["time"]
        )


@dataclass(slots=True)
class StepLog:
    """A step log that may still grow; `read` goes on where the last call stopped."""

    path: Path
    taken: list[StepTaken] = field(default_factory=list)
    _offset: int = 0

    def read(self) -> list[StepTaken]:
        """The steps since the last call; a line that is being written waits for the next."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as log:
            log.seek(self._offset)
            whole, end, _ = log.read().rpartition(b"\n")
        self._offset += len(whole) + len(end)
        new = [StepTaken.from_json(line) for line in whole.decode().splitlines()]
        self.taken += new
        return new


def last_steps(steps: Iterable[StepTaken], identifier: int) -> Mapping[int | None, Step]:
    """The last step that each bucket reached in the batch `identifier`; under None, that of the driver."""
    return {taken.bucket: taken.step for taken in steps if taken.identifier == identifier}


def committed(steps: Iterable[StepTaken]) -> set[int]:
    """The batches whose snapshot was made."""
    return {taken.identifier for taken in steps if taken.step is Step.AFTER_SNAPSHOT}


def logged_at(steps: Iterable[StepTaken]) -> Mapping[int, float]:
    """Batch -> when the last of its transactions was committed in the log."""
    times: dict[int, float] = {}
    for taken in steps:
        if taken.step is Step.AFTER_COMMIT:
            times[taken.identifier] = max(taken.at, times.get(taken.identifier, taken.at))
    return times
