"""The attempts of a micro-batch: which count, and that none ends without an outcome."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast  # Any: a batch without Spark

import pytest

from lakelog.filestore.metadata.origins.record import BatchLineage, UnknownSource
from lakelog.protocol.writing import BucketConflictError
from lakelog.spark.capture.capture import SourcesMovedError
from lakelog.spark.sink import stages
from lakelog.spark.sink.commits import BatchOutcome


def attempt(run: Any, found: Iterator[Exception | None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make attempts that end as `found` says: with an error, or by a commit."""

    def stage(batch: Any) -> None:
        error = next(found)
        if error is not None:
            raise error
        batch.outcome = BatchOutcome.COMMITTED

    monkeypatch.setattr(stages, "ATTEMPT", (stage,))
    monkeypatch.setattr(stages, "plan_write", lambda _run: None)
    stages._attempts(run)


def batch() -> Any:
    micro = SimpleNamespace(identifier=1, user="u")
    return cast(Any, SimpleNamespace(outcome=None, lineage=BatchLineage(), micro=micro))


def test_a_plan_that_moves_behind_many_conflicts_is_run_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    conflicts = [BucketConflictError("another writer")] * (stages.ATTEMPTS_MAX - 1)
    source = UnknownSource(why="of the test")
    run = batch()

    attempt(run, iter([*conflicts, SourcesMovedError([source]), None]), monkeypatch)

    assert run.outcome is BatchOutcome.COMMITTED
    assert run.lineage.sources == (source,)


def test_conflicts_without_end_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    conflicts = [BucketConflictError("another writer")] * stages.ATTEMPTS_MAX
    with pytest.raises(BucketConflictError, match="another writer"):
        attempt(batch(), iter([*conflicts, None]), monkeypatch)
