"""The outcome of each micro-batch, for the log and for the progress of its query.

Spark has no place for it: the progress of a foreachBatch sink reports -1 rows and nothing about a commit, and observed
metrics are counted in tasks, before the commit. So this process keeps its last batches, and adds them to a progress
that Spark has made.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock
from typing import Any  # Any: a progress as parsed JSON

from pyspark.sql.streaming.listener import StreamingQueryProgress

from lakelog.common.bounded_cache import BoundedCache
from lakelog.common.events import log_event
from lakelog.common.timestamps import utc_of

logger = logging.getLogger("lakelog.spark")

METRICS_PREFIX = "lakelog:"
BATCHES_MAX = 1000  # kept per process; Spark keeps the progress of 100 batches of a query


class BatchOutcome(StrEnum):
    """What a micro-batch did: made a snapshot, or nothing because it was in the table already or had no rows.

    `logged` is one that is whole in the log, and waits for the snapshot of its interval.
    """

    COMMITTED = "committed"
    LOGGED = "logged"
    REPLAYED = "replayed"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommit:
    """What one micro-batch did to one table.

    `row_count` is the number of rows that were written, one per change; `file_count` that of the data files in the
    snapshot's commit. `commit_millis` is the snapshot's time in milliseconds since 1970, `log_offsets` the next record
    of each bucket's log after it. `millis` is how long the batch took from rows to commit, `lineage_failures` how many
    analyses of its lineage failed, with warnings.
    """

    table: str
    user: str
    batch_id: int
    outcome: BatchOutcome
    millis: int
    row_count: int = 0
    file_count: int = 0
    snapshot_id: int | None = None
    commit_millis: int | None = None
    log_offsets: Mapping[int, int] = field(default_factory=dict)
    lineage_failures: int = 0

    def log(self) -> None:
        """Log the line `batch`: at INFO, or at DEBUG for an empty batch."""
        log_event(
            logger,
            "batch",
            level=logging.DEBUG if self.outcome is BatchOutcome.EMPTY else logging.INFO,
            table=self.table,
            batch=self.batch_id,
            user=self.user,
            outcome=self.outcome.value,
            rows=self.row_count,
            files=self.file_count,
            snapshot=self.snapshot_id,
            log_offsets=self.log_offsets,
            millis=self.millis,
        )

    def metrics(self) -> dict[str, object]:
        """The batch as observed metrics of a progress. Times are written as Spark writes them there."""
        time = None if self.commit_millis is None else utc_of(self.commit_millis, separator="T", suffix="Z")
        return {
            "outcome": self.outcome.value,
            "rows": self.row_count,
            "files": self.file_count,
            "snapshot_id": self.snapshot_id,
            "commit_time": time,
            "log_offsets": {str(bucket): offset for bucket, offset in sorted(self.log_offsets.items())},
            "millis": self.millis,
            "lineage_failures": self.lineage_failures,
        }


class KeptCommits:
    """The last batches of this process, by run of the query and batch id: one per table and writer name."""

    def __init__(self, batches_max: int = BATCHES_MAX) -> None:
        """Remember nothing yet."""
        self._lock = Lock()
        self._batches: BoundedCache[tuple[str, int], dict[str, BatchCommit]] = BoundedCache(batches_max)

    def add(self, run: str | None, commit: BatchCommit, *, writer_name: str | None) -> None:
        """Record a batch; its run is None on Spark Connect, where nothing could ask for it."""
        if run is None:
            return
        name = commit.table if writer_name is None else f"{commit.table}/{writer_name}"
        with self._lock:
            self._batches.put((run, commit.batch_id), self.of(run, commit.batch_id) | {name: commit})

    def of(self, run: str, batch_id: int) -> dict[str, BatchCommit]:
        """What a batch did, by `table` or `table/writer name`; empty for an unknown batch."""
        return dict(self._batches.get((run, batch_id)) or {})


KEPT_COMMITS = KeptCommits()


def progress_with_commits(progress: StreamingQueryProgress) -> StreamingQueryProgress:
    """The progress of a streaming query, with what its batch did to lakelog tables: for a StreamingQueryListener.

    `sink.numOutputRows` is the number of rows written, and `observedMetrics["lakelog:db.t"]` a Row with `outcome`
    (`committed`, `logged`, `replayed` or `empty`), `rows`, `files`, `snapshot_id`, `commit_time`, `log_offsets` (bucket
    -> next record), `millis` and `lineage_failures`; for a sink with a `writer_name` its key is `lakelog:db.t/name`.
    The progress is returned unchanged for a batch that no LakelogSink of this process has written, and on Spark
    Connect.
    The query that `write_stream` returns already has this in `lastProgress` and `recentProgress`.
    """
    commits = KEPT_COMMITS.of(str(progress.runId), progress.batchId)
    if not commits:
        return progress
    fields: dict[str, Any] = json.loads(progress.json)
    fields["sink"]["numOutputRows"] = sum(commit.row_count for commit in commits.values())
    observed = {f"{METRICS_PREFIX}{name}": commit.metrics() for name, commit in sorted(commits.items())}
    fields["observedMetrics"] = {**fields.get("observedMetrics", {}), **observed}
    return StreamingQueryProgress.fromJson(fields)


def progresses_with_commits(given: Sequence[StreamingQueryProgress]) -> list[StreamingQueryProgress]:
    """Like `progress_with_commits`, for several."""
    return [progress_with_commits(progress) for progress in given]
