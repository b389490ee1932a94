"""What a killed batch left behind in each bucket, and what the restarted job made of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from demo.steps import StepTaken, last_steps
from lakelog.protocol.state.steps import Step

_LEFT_BEHIND = {
    Step.FENCE: "nothing of this batch",
    Step.LOOK: "nothing of this batch",
    Step.PREPARE: "files that no one names",
    Step.BEGIN: "files that no one names",
    Step.PRODUCE: "an open transaction",
    Step.COMMIT: "a commit, outcome unknown",
    Step.AFTER_COMMIT: "in the log, in no snapshot yet",
}
_LEFT_BEHIND_BY_DRIVER = {
    Step.BEFORE_SNAPSHOT: "the batch is in the log, the snapshot may be there or not",
    Step.AFTER_SNAPSHOT: "the batch is in the table, Spark does not know it yet",
    Step.BETWEEN_APPEND_AND_COMPACT: "the batch is in the table, a compaction is not",
}
STEPS_OF_BATCHES = (*_LEFT_BEHIND, *_LEFT_BEHIND_BY_DRIVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFate:
    """One bucket of the killed batch. `last_step` is None when the batch had not come to the bucket."""

    bucket: int
    last_step: Step | None
    left_behind: str
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledBatch:
    """The batch that was being written when the job was killed.

    `driver_step` is the driver's last step in it, None when the tasks were still at work.
    """

    identifier: int
    driver_step: Step | None
    driver_left_behind: str | None
    buckets: tuple[BucketFate, ...]


def explain_kill(before: Sequence[StepTaken], after: Sequence[StepTaken], *, bucket_count: int) -> KilledBatch:
    """Read the fate of the killed batch from the step logs of the run that was killed and of the one that followed."""
    identifier = max(taken.identifier for taken in before)
    reached = last_steps(before, identifier)
    logged_again = {
        taken.bucket for taken in after if taken.identifier == identifier and taken.step is Step.AFTER_COMMIT
    }
    replayed = any(taken.identifier == identifier and taken.bucket is not None for taken in after)
    driver_step = reached.get(None)
    fates = [
        BucketFate(
            bucket=bucket,
            last_step=reached.get(bucket),
            left_behind=_LEFT_BEHIND[reached[bucket]] if bucket in reached else "nothing of this batch",
            then=_then(reached.get(bucket), is_logged_again=bucket in logged_again, is_replayed=replayed),
        )
        for bucket in range(bucket_count)
    ]
    return KilledBatch(
        identifier=identifier,
        driver_step=driver_step,
        driver_left_behind=_LEFT_BEHIND_BY_DRIVER[driver_step] if driver_step else None,
        buckets=tuple(fates),
    )


def _then(last_step: Step | None, *, is_logged_again: bool, is_replayed: bool) -> str:
    if not is_replayed:
        return "in a snapshot already"
    if not is_logged_again:
        return "found in the log, not logged again"
    match last_step:
        case Step.PRODUCE:
            return "aborted by the next owner, logged once"
        case Step.COMMIT:
            return "looked, not there: logged once"
        case _:
            return "logged once"
