"""Taking compacted buckets into a table."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from lakelog.common.errors import ConflictError, NotFoundError
from lakelog.filestore.commit.commit import CommitRequest, TableCommit
from lakelog.filestore.commit.commit_clock import CommitClock
from lakelog.filestore.compact.result import CompactResult, discard_result
from lakelog.filestore.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from lakelog.filestore.metadata.store import TableStore


def commit_results(
    table: TableStore, results: Sequence[CompactResult], *, clock: CommitClock | None = None, discards: bool = True
) -> Snapshot:
    """One COMPACT snapshot of results. Refused results are deleted, unless they are to be tried again (`discards`).

    Raises ConflictError when another compaction came first.
    """
    request = compact_request(table, results, user=str(uuid.uuid4()), identifier=BATCH_COMMIT_IDENTIFIER)
    commit = TableCommit(table, clock=clock)
    try:
        snapshot = commit.commit(lambda _: request)
    except (ConflictError, NotFoundError):
        if discards and not commit.has_unknown_outcome:
            for result in results:
                discard_result(table, result)
        raise
    assert snapshot is not None
    return snapshot


def compact_request(
    table: TableStore, results: Sequence[CompactResult], *, user: str, identifier: int
) -> CommitRequest:
    """What a commit of results changes."""
    return CommitRequest(
        commit_user=user,
        commit_identifier=identifier,
        kind=CommitKind.COMPACT,
        entries=[entry for result in results for entry in result.entries(table.bucket_count)],
        changelog=[entry for result in results for entry in result.changelog_entries(table.bucket_count)],
        deletions=[result.deletions for result in results if result.deletions is not None],
    )
