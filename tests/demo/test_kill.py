from __future__ import annotations

from demo.kill import explain_kill
from demo.steps import StepTaken
from lakelog.protocol.state.steps import Step

TO_COMMIT = (Step.FENCE, Step.LOOK, Step.PREPARE, Step.BEGIN, Step.PRODUCE, Step.COMMIT, Step.AFTER_COMMIT)


def taken(identifier: int, bucket: int | None, *steps: Step) -> list[StepTaken]:
    return [StepTaken(step=step, identifier=identifier, bucket=bucket, at=float(n)) for n, step in enumerate(steps)]


def up_to(last: Step) -> tuple[Step, ...]:
    return TO_COMMIT[: TO_COMMIT.index(last) + 1]


def test_the_killed_batch_is_the_last_one_of_the_run() -> None:
    before = [
        *taken(3, 0, *TO_COMMIT),
        *taken(3, None, Step.BEFORE_SNAPSHOT, Step.AFTER_SNAPSHOT),
        *taken(4, 0, Step.LOOK),
    ]
    assert explain_kill(before, [], bucket_count=1).identifier == 4


def test_each_bucket_is_explained_by_the_step_that_it_reached() -> None:
    before = [*taken(4, 0, *TO_COMMIT), *taken(4, 1, *up_to(Step.PRODUCE)), *taken(4, 2, *up_to(Step.COMMIT))]
    after = [
        *taken(4, 0, Step.FENCE, Step.LOOK),
        *taken(4, 1, *TO_COMMIT),
        *taken(4, 2, *TO_COMMIT),
        *taken(4, 3, *TO_COMMIT),
    ]
    batch = explain_kill(before, after, bucket_count=4)
    assert [fate.last_step for fate in batch.buckets] == [Step.AFTER_COMMIT, Step.PRODUCE, Step.COMMIT, None]
    assert [fate.then for fate in batch.buckets] == [
        "found in the log, not logged again",
        "aborted by the next owner, logged once",
        "looked, not there: logged once",
        "logged once",
    ]
    assert batch.driver_step is None


def test_a_batch_that_was_in_its_snapshot_needs_nothing_more() -> None:
    before = [*taken(4, 0, *TO_COMMIT), *taken(4, None, Step.BEFORE_SNAPSHOT, Step.AFTER_SNAPSHOT)]
    batch = explain_kill(before, taken(5, 0, *TO_COMMIT), bucket_count=1)
    assert batch.driver_step is Step.AFTER_SNAPSHOT
    assert batch.buckets[0].then == "in a snapshot already"
