"""Commits of compacted buckets."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence

from lakelog.common.clock import Stopwatch
from lakelog.common.errors import ConflictError, LakelogError
from lakelog.common.events import log_event
from lakelog.filestore.commit.commit import TableCommit
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.commit.requests import CommitRequest
from lakelog.filestore.compact.result import CompactResult, discard_result
from lakelog.filestore.metadata.snapshots.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.metadata.tables.store import TableStore

logger = logging.getLogger("lakelog.filestore")


def commit_results(
    table: TableStore, results: Sequence[CompactResult], *, clock: CommitClock | None = None, discards: bool = True
) -> Snapshot:
    """Commit results as one COMPACT snapshot.

    Refused results are deleted if `discards` is set; else they can be tried again.

    Raises ConflictError if another compaction came first.
    """
    request = compact_request(table, results, user=str(uuid.uuid4()), identifier=BATCH_COMMIT_IDENTIFIER)

    def discard() -> None:
        for result in results:
            discard_result(table, result)

    snapshot = TableCommit(table, clock=clock).commit(lambda _: request, discard=discard if discards else None)
    assert snapshot is not None
    return snapshot


def log_compaction(
    table: TableStore, results: Sequence[CompactResult], *, snapshot_id: int | None, lasted: Stopwatch
) -> None:
    """Log a line of INFO, `compact`, for committed results; `lasted` counts from the start of the merge."""
    before = [file for result in results for file in result.before]
    after = [file for result in results for file in result.after]
    log_event(
        logger,
        "compact",
        table=table.name,
        snapshot=snapshot_id,
        buckets=len(results),
        rows=sum(file.row_count for file in after),
        files_before=len(before),
        files_after=len(after),
        bytes_before=sum(file.file_size_bytes for file in before),
        bytes_after=sum(file.file_size_bytes for file in after),
        millis=lasted.millis(),
    )


def log_failed_compaction(table: TableStore, when: str, error: LakelogError) -> None:
    """Log that a compaction after a write has failed; the written rows are in the table.

    At DEBUG if another compaction came first, after which nothing is left to do; else as a warning.
    """
    level = logging.DEBUG if isinstance(error, ConflictError) else logging.WARNING
    logger.log(level, "%s: the compaction after %s did not happen: %s", table.name, when, error)


def compact_request(
    table: TableStore, results: Sequence[CompactResult], *, user: str, identifier: int
) -> CommitRequest:
    """The request that commits results."""
    return CommitRequest(
        commit_user=user,
        commit_identifier=identifier,
        kind=CommitKind.COMPACT,
        entries=[entry for result in results for entry in result.entries(table.bucket_count)],
        changelog=[entry for result in results for entry in result.changelog_entries(table.bucket_count)],
        deletions=[result.deletions for result in results if result.deletions is not None],
    )
