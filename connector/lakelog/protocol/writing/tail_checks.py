"""The checks of one bucket between the steps of a write: is the attempt still wanted, and does its log go on?"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol  # Any: the payload does not matter for reading a tail

from lakelog.common.errors import CorruptDataError
from lakelog.logstore.errors import SKIP_UNREADABLE, LogTruncatedError
from lakelog.protocol.state.header import GOES_WITH_ANOTHER_FOLDER, CommitHeader, LostFilesError
from lakelog.protocol.state.log_generations import check_goes_on
from lakelog.protocol.state.ports import BucketLog, BucketTail, TableFiles
from lakelog.protocol.state.state import Batch, LogState, TableState, check_same_batch, is_committed
from lakelog.protocol.writing.attempts import OvertakenError, StaleAttemptError
from lakelog.protocol.writing.kept_producers import ReportedTail


class TailReader(Protocol):
    """One bucket of a table's log, and the files that its transactions name: a task of a batch or of statements."""

    @property
    def table_uuid(self) -> str: ...
    @property
    def bucket(self) -> int: ...
    @property
    def log(self) -> BucketLog[Any]: ...
    @property
    def files(self) -> TableFiles: ...


def reported_on(reported: ReportedTail | None, state: TableState, bucket: int) -> ReportedTail | None:
    """What the driver knows of a bucket, if it is behind the snapshot of this state."""
    return reported if reported is not None and reported.base == state.logged.position(bucket).offset else None


def tail_behind(
    task: TailReader, state: TableState, reported: ReportedTail | None
) -> tuple[BucketTail, ReportedTail | None]:
    """The tail behind what the driver knows, and that; a log that no longer reaches it is read from the snapshot on.

    The driver then compares the answer with what it knows, and names what is lost. Raises like `checked_tail`.
    """
    if reported is not None:
        with contextlib.suppress(LogTruncatedError):
            return checked_tail(task, state, reported), reported
    return checked_tail(task, state), None


def checked_tail(task: TailReader, state: TableState, known: ReportedTail | None = None) -> BucketTail:
    """The tail of a bucket after a snapshot, checked: it belongs to this table's history, and its files exist.

    With what is `known` of it, only the rest is read and checked.

    Raises OvertakenError when other writers have taken it in since, and like `check_tail` and `check_files`.
    """
    position = state.logged.position(task.bucket)
    try:
        tail = task.log.read_tail(task.bucket, position if known is None else replace(position, offset=known.end))
        check_tail(task, state, tail, known)
        check_files(task, tail)
        headers = (transaction.header for transaction in tail.transactions)
        check_goes_on(headers, where=f"the log of bucket {task.bucket} of table {task.table_uuid}")
    except (LogTruncatedError, LostFilesError) as error:
        # Other writers may have taken the tail in since; then its records, and compacted files, may be deleted.
        if task.files.newest().logged.position(task.bucket).offset == position.offset:
            raise
        raise OvertakenError from error
    return tail


def unfinished(state: TableState, headers: Iterable[CommitHeader]) -> tuple[str, ...]:
    """The batch statements among the transactions of a tail that the snapshot before it lacks.

    Only their own commit may take in such a tail.
    """
    names = {one.statement: one for one in headers if one.statement is not None}
    return tuple(sorted(name for name, one in names.items() if not state.holds(one.user, one.identifier)))


def check_not_stale(state: TableState, batch: Batch) -> None:
    """Raise StaleAttemptError when the newest snapshot already holds the batch.

    Raises InvalidRequestError when the snapshot holds the batch with other source offsets.
    """
    if is_committed(state, batch):
        raise StaleAttemptError(
            f"batch {batch.identifier} of {batch.user} is in snapshot {state.snapshot_id} already, which holds its "
            f"batches up to {state.users[batch.user].identifier}; this attempt is a leftover and stops"
        )


def is_in_ledger(log: LogState, bucket: int, batch: Batch) -> bool:
    """True when another writer has taken this batch's transaction of `bucket` into a snapshot.

    Raises InvalidRequestError when that transaction was planned from other source offsets.
    """
    taken = log.ledger.get(bucket, {}).get(batch.user)
    if taken is None or taken.identifier < batch.identifier:
        return False
    check_same_batch(batch, taken.identifier, taken.digest, where=f"bucket {bucket} of the newest snapshot")
    return True


def has_own(batch: Batch, headers: list[CommitHeader]) -> bool:
    """True when an earlier attempt of the batch is in the tail.

    Raises InvalidRequestError when that attempt was planned from other source offsets.
    """
    own = [header for header in headers if header.user == batch.user and header.identifier >= batch.identifier]
    for header in own:
        check_same_batch(batch, header.identifier, header.source_digest, where="the log")
    return bool(own)


def next_sequence(
    state: TableState, bucket: int, headers: list[CommitHeader], known: ReportedTail | None = None
) -> int:
    """The first sequence number after the snapshot's files and those of the tail, what is `known` of it too."""
    first = max(state.logged.position(bucket).sequence, 0 if known is None else known.next_sequence)
    return max(first, last_sequence(headers))


def last_sequence(headers: Sequence[CommitHeader]) -> int:
    """The sequence number after those of transactions in log order; 0 if none has files. It goes up with each."""
    return next((number for one in reversed(headers) if (number := one.next_sequence)), 0)


def check_goes_up(task: TailReader, before: int, end: int) -> None:
    """Raise CorruptDataError for a transaction that a snapshot would take for one that it already has."""
    if end <= before:
        raise CorruptDataError(
            f"a transaction in bucket {task.bucket} of table {task.table_uuid} ends at offset {end}, and the log had "
            f"reached {before}: the topic was deleted, and created again, while it was written. No snapshot takes it "
            "in; `lakelog log renew` makes another topic, and the batch is written again"
        )


def check_tail(task: TailReader, state: TableState, tail: BucketTail, known: ReportedTail | None = None) -> None:
    """Raise CorruptDataError for a transaction, behind what is `known`, that cannot belong to this table's history."""
    sequence = next_sequence(state, task.bucket, [], known)
    newest_id = state.snapshot_id
    for transaction in tail.transactions:
        header = transaction.header
        where = f"offset {transaction.first_offset} of bucket {task.bucket}"
        if header.table_uuid != task.table_uuid:
            raise CorruptDataError(
                f"the log at {where} was written for table {header.table_uuid}, this is table {task.table_uuid}: "
                f"a topic serves one table; give a copied table a log of its own, or: {SKIP_UNREADABLE}"
            )
        if header.record_count != transaction.record_count:
            raise CorruptDataError(
                f"the transaction at {where} has {transaction.record_count} records, its header says "
                f"{header.record_count}, as where another program writes to the topic: it is not taken in. "
                f"{SKIP_UNREADABLE}"
            )
        if header.base_snapshot_id > newest_id:
            # Another writer may have committed since the newest snapshot was read.
            newest_id = task.files.newest().snapshot_id
        if header.base_snapshot_id > newest_id:
            raise CorruptDataError(
                f"the transaction at {where} was written on snapshot {header.base_snapshot_id}, the table's newest is "
                f"{newest_id}: the folder is an older copy, or was rolled back by other means than lakelog. No "
                f"snapshot takes it in. {GOES_WITH_ANOTHER_FOLDER}"
            )
        first = min((file.meta.min_sequence_number for file in header.files), default=sequence)
        if first < sequence:
            raise CorruptDataError(
                f"the transaction at {where} has sequence numbers from {first}, expected {sequence} or more: its "
                f"header is not one of lakelog. {SKIP_UNREADABLE}"
            )
        sequence = max(sequence, header.next_sequence)


def check_files(task: TailReader, tail: BucketTail) -> None:
    """Raise LostFilesError for a transaction with missing files: no snapshot may name these.

    The folder of a table may have been restored to its state before the transaction.
    """
    check_named_files(task.files, task.bucket, ((one.header, one.first_offset) for one in tail.transactions))


def check_named_files(files: TableFiles, bucket: int, headers: Iterable[tuple[CommitHeader, int]]) -> None:
    """Raise LostFilesError for a header with missing files; each comes with an offset that names its place."""
    for header, offset in headers:
        missing = files.first_missing(bucket, (*header.files, *header.changelog, *header.removed))
        if missing is not None:
            batch = f"batch {header.identifier} of {header.user}"
            raise LostFilesError.of(missing, where=f"offset {offset} of bucket {bucket}, {batch},")
