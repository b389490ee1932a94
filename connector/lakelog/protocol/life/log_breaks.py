"""Breaks of a log: another engine has written rows into the files of a table with a log.

A stream that writes the table records the break before its first batch: each bucket is fenced, its tail is read, a
header record with the mark `break` is logged after it, and one snapshot takes everything in. From that snapshot on log
and files agree again: the positions are after the marks, and sequence numbers continue after those of all files,
including the other engine's. Streams that read the table reach the mark at its place, see
`lakelog.protocol.state.change_tracking`. A call that was cut off is continued by the next one. Source:
docs/rfcs/0028-life-of-a-log.md, "Breaks".
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace

from lakelog.common.errors import ConflictError
from lakelog.filestore import FileStoreTable
from lakelog.filestore.metadata.snapshots import Snapshot
from lakelog.filestore.metadata.tables import carried_by, snapshot_with_rows
from lakelog.protocol.life.log_ending import log_mark, mark_header
from lakelog.protocol.state.header import CommitHeader, LogMark
from lakelog.protocol.state.log_generations import check_goes_on
from lakelog.protocol.state.ports import SnapshotChange
from lakelog.protocol.state.state import Batch, LogState, TableState
from lakelog.protocol.statements.fenced_buckets import FencedBucket, fenced_buckets
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.protocol.writing.driver import BucketConflictError, take_answers

logger = logging.getLogger("lakelog.protocol")

_USER = "lakelog-log-break"
_TRIES_MAX = 10


def record_break(table: FileStoreTable, target: LogTarget) -> int | None:
    """Record what another engine wrote after lakelog's newest snapshot.

    Returns the new snapshot, None without such rows.

    Raises ConflictError when another commit comes first every time, and like `fenced_buckets`.
    """
    for _ in range(_TRIES_MAX):
        found = foreign_snapshot(table)
        if found is None:
            return None
        try:
            return _record(table, target, found)
        except BucketConflictError as error:
            logger.info("the break of %s by snapshot %d is looked at again: %s", table.name, found.id, error)
    raise ConflictError(
        f"table {table.name} was changed by other writers {_TRIES_MAX} times while a break was recorded"
    )


def foreign_snapshot(table: FileStoreTable) -> Snapshot | None:
    """The newest snapshot of another engine with rows after lakelog's newest snapshot; None without one."""
    return snapshot_with_rows(table, carried_by(table, table.snapshots.latest()).foreign)


def _record(table: FileStoreTable, target: LogTarget, found: Snapshot) -> int | None:
    lineage = {"snapshot": found.id, "by": found.commit_user}
    batch = Batch(user=f"{_USER}-{uuid.uuid4()}", identifier=0, source_digest=None, lineage=lineage)
    with fenced_buckets(table, target, batch, allows_foreign=True) as (state, buckets):
        for bucket in buckets:
            headers = (one.header for one in bucket.tail.transactions)
            check_goes_on(headers, where=f"the log of bucket {bucket.number} of table {table.name}")
        answers = [_marked(table, state, batch, bucket) for bucket in buckets]
        snapshots = DriverSnapshots(table, target.topic_id, allows_foreign=True)
        number = snapshots.append(batch, lambda newest: _change(table, newest, batch, answers, found))
    logger.warning(
        "table %s: snapshot %d was written by %r, not by lakelog; its log has a mark there now, and streams that read "
        "it do as log.on-untracked says",
        table.name,
        found.id,
        found.commit_user,
    )
    return number


def _marked(table: FileStoreTable, state: TableState, batch: Batch, bucket: FencedBucket) -> BucketAnswer:
    """What a snapshot takes in from a bucket, including the mark, which an interrupted call may have logged."""
    if any(_is_mark_of(one.header, batch) for one in bucket.tail.transactions):
        return bucket.answer
    header = mark_header(table, state, batch, LogMark.BREAK)
    end = log_mark(bucket.producer, header)
    answer = bucket.answer
    return replace(answer, end=end, transactions=(*answer.transactions, header), ends=(*answer.ends, end))


def _is_mark_of(header: CommitHeader, batch: Batch) -> bool:
    return header.mark is LogMark.BREAK and header.lineage.get("snapshot") == batch.lineage["snapshot"]


def _change(
    table: FileStoreTable, newest: TableState, batch: Batch, answers: Sequence[BucketAnswer], found: Snapshot
) -> SnapshotChange:
    latest = table.snapshots.get(newest.snapshot_id)
    foreign = foreign_snapshot(table)
    if foreign is None or foreign.id != found.id:
        raise BucketConflictError(f"snapshot {newest.snapshot_id} came since")
    change = take_answers(newest, batch, answers, now_millis=latest.time_millis)
    assert change.log is not None
    return replace(change, users=newest.users, log=_after_files(table, latest, change.log))


def _after_files(table: FileStoreTable, latest: Snapshot, log: LogState) -> LogState:
    """The state with sequence numbers that come after those of all files."""
    live = table.live_files.of(latest)
    positions = dict(log.positions)
    for bucket in live.buckets:
        at = log.position(bucket.number)
        positions[bucket.number] = replace(at, sequence=max(at.sequence, live.next_sequence(bucket)))
    return replace(log, positions=positions)
