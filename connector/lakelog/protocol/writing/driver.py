"""The driver's part of the protocol: the identity of a batch, and the snapshot that takes its transactions in."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from lakelog.common.errors import ConflictError
from lakelog.filestore.commit import OvertakenError, append_commit, is_replay
from lakelog.filestore.compact import CompactResult
from lakelog.filestore.index import HashIndexChange
from lakelog.filestore.metadata.snapshots import CommitUser, check_not_forgotten, with_user
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.write import add_entry
from lakelog.protocol.state.batch_lineage import lineage_of, of_parts, unique_batches
from lakelog.protocol.state.header import BucketFile, CommitHeader
from lakelog.protocol.state.ports import SnapshotChange, Snapshots
from lakelog.protocol.state.state import (
    Batch,
    LogPosition,
    TableState,
    TakenBatch,
    advance,
    batches_behind,
    check_same_batch,
    is_committed,
)
from lakelog.protocol.state.steps import Step, StepObserver
from lakelog.protocol.state.transaction_ends import TransactionEnd
from lakelog.protocol.writing.attempts import BucketAnswer

logger = logging.getLogger("lakelog.protocol")

Clock = Callable[[], int]


class BucketConflictError(ConflictError):
    """Another writer's snapshot has advanced a bucket: replay the batch."""


class Verdict(Enum):
    """Whether a batch is new in the table's history."""

    NEW = "new"
    REPLAY = "replay"


class AnswerDecision(Enum):
    """Whether a snapshot takes in the answer of one bucket."""

    TAKE = "take"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a snapshot commit ended. `snapshot_id` is None when the batch was already in the table."""

    snapshot_id: int | None


def check_identity(state: TableState, batch: Batch) -> Verdict:
    """NEW, or REPLAY for the user's last batch with the same source offsets.

    Raises InvalidRequestError for an identifier below the user's last one, or for the same one with other source
    offsets: the checkpoint was reset or copied.
    """
    check_ledger(state, batch)
    check_not_forgotten(batch.user, batch.identifier, state.users, state.forgotten_millis)
    what = f"batch {batch.identifier} of {batch.user} (newest snapshot: {state.snapshot_id})"
    is_in = is_replay(state.users.get(batch.user), batch.identifier, batch.source_digest, what=what)
    return Verdict.REPLAY if is_in else Verdict.NEW


def check_ledger(state: TableState, batch: Batch) -> None:
    """Raise InvalidRequestError when other writers took in a part of the batch that has other source offsets."""
    ledgers = () if state.log is None else (state.log.ledger, *(one.ledger for one in state.log.moved))
    for bucket, users in ((bucket, users) for ledger in ledgers for bucket, users in ledger.items()):
        taken = users.get(batch.user)
        if taken is not None and taken.identifier >= batch.identifier:
            where = f"bucket {bucket} of snapshot {state.snapshot_id}"
            check_same_batch(batch, taken.identifier, taken.digest, where=where)


def check_left_over(batch: Batch, bucket: int, headers: Iterable[CommitHeader]) -> None:
    """Raise InvalidRequestError when the tail of a bucket holds the batch with other source offsets.

    It is called for all buckets before any is written: otherwise a changed batch would be logged in the other buckets.
    """
    for header in headers:
        if header.user == batch.user and header.identifier >= batch.identifier:
            check_same_batch(batch, header.identifier, header.source_digest, where=f"the log of bucket {bucket}")


def compare_and_set(position: LogPosition, answer: BucketAnswer) -> AnswerDecision:
    """Decide on one bucket from the offset that the newest snapshot holds.

    Raises BucketConflictError when the snapshot has moved past the answer's base but not to its end, or for an answer
    that no other writer takes in, when it has moved at all.
    """
    is_in = answer.is_decided and position.offset >= answer.end and position.offset != answer.base
    if answer.base == answer.end or is_in:
        return AnswerDecision.DROP
    if position.offset == answer.base:
        return AnswerDecision.TAKE
    raise BucketConflictError(
        f"bucket {answer.bucket}: the newest snapshot holds the log up to {position.offset}, the batch was written on "
        f"{answer.base}..{answer.end}; it is replayed"
    )


def take_answers(
    state: TableState,
    batch: Batch,
    answers: Sequence[BucketAnswer],
    *,
    now_millis: int,
    earlier: Sequence[Batch] = (),
) -> SnapshotChange:
    """The snapshot that takes in what the tasks logged and found. Pure. Raises BucketConflictError.

    `earlier` are batches of the same writer that are whole in the log and in no snapshot, the oldest first.
    """
    log = state.logged
    files: list[tuple[int, BucketFile]] = []
    changelog: list[tuple[int, BucketFile]] = []
    removed: list[tuple[int, BucketFile]] = []
    positions = dict(log.positions)
    ledger = {bucket: dict(taken) for bucket, taken in log.ledger.items()}
    lineage: list[Mapping[str, object]] = []
    own: dict[int, list[Mapping[str, object]]] = {}  # what the parts of its batches were made from, by their headers
    parts = [users[batch.user].identifier for users in ledger.values() if batch.user in users]  # in earlier snapshots
    untracked: list[Mapping[str, object]] = []
    ends: dict[int, list[TransactionEnd]] = {}
    waiting = batches_behind(earlier, state.users)  # another writer may have taken in some of them
    watermarks = [one.watermark_millis for one in (*waiting, batch) if one.watermark_millis is not None]
    for answer in answers:
        position = log.position(answer.bucket)
        if compare_and_set(position, answer) is AnswerDecision.DROP:
            continue
        positions[answer.bucket] = _position_after(position, answer)
        if found := _ends_within(position, answer):
            ends[answer.bucket] = found
        taken = ledger.setdefault(answer.bucket, {})
        for header in answer.transactions:
            files.extend((answer.bucket, file) for file in header.files)
            changelog.extend((answer.bucket, file) for file in header.changelog)
            if header.watermark_millis is not None:
                watermarks.append(header.watermark_millis)
            removed.extend((answer.bucket, file) for file in header.removed)
            if header.mark is not None and header.mark.hides_changes:
                untracked.append(_untracked(answer.bucket, header))
            if not header.is_of_batch:
                continue
            before = taken.get(header.user)
            if before is None or header.identifier >= before.identifier:
                taken[header.user] = TakenBatch(identifier=header.identifier, digest=header.source_digest)
            if header.user != batch.user:
                lineage.append(lineage_of(header.user, header.identifier, header.lineage))
            else:
                own.setdefault(header.identifier, []).append(header.lineage)
    last = CommitUser(identifier=batch.identifier, digest=batch.source_digest, time_millis=now_millis, job=batch.job)
    users = with_user(state.users, batch.user, last)
    return SnapshotChange(
        files=files,
        changelog=changelog,
        users=users,
        log=replace(log, positions=positions, ledger=ledger).pruned(users),
        lineage=unique_batches([*_own_lineage(batch, waiting, own, has_others=batch.identifier in parts), *lineage]),
        watermark_millis=max(watermarks, default=None),
        removed=removed,
        untracked=untracked,
        ends=ends,
    )


def _own_lineage(
    batch: Batch, earlier: Sequence[Batch], parts: Mapping[int, Sequence[Mapping[str, object]]], *, has_others: bool
) -> Iterator[Mapping[str, object]]:
    """The sources of the batch, of those before it, and of those that an earlier run of the writer has left."""
    yield lineage_of(
        batch.user, batch.identifier, of_parts(batch.lineage, parts.get(batch.identifier, ()), has_others=has_others)
    )
    for one in earlier:
        yield lineage_of(one.user, one.identifier, of_parts(one.lineage, parts.get(one.identifier, ())))
    for identifier in sorted(parts.keys() - {batch.identifier, *(one.identifier for one in earlier)}):
        yield lineage_of(batch.user, identifier, of_parts(parts[identifier][0], parts[identifier]))


def commit_batch(
    batch: Batch,
    answers: Sequence[BucketAnswer],
    *,
    snapshots: Snapshots,
    observe: StepObserver,
    clock: Clock,
    earlier: Sequence[Batch] = (),
) -> Outcome:
    """Index the batch, and `earlier` ones of its writer, in one APPEND snapshot, unless a snapshot has it.

    Raises BucketConflictError to replay it.
    """

    def decide(state: TableState) -> SnapshotChange | None:
        if is_committed(state, batch):
            return None
        return take_answers(state, batch, answers, now_millis=clock(), earlier=earlier)

    return commit_once(batch, decide, snapshots, observe)


def commit_files(
    table: TableStore,
    batch: Batch,
    files: Sequence[tuple[int, BucketFile]],
    changelog: Sequence[tuple[int, BucketFile]] = (),
    *,
    hashes: HashIndexChange | None = None,
    observe: StepObserver,
) -> Outcome:
    """Index a batch of a table without a log: its files, its changelog files and its user in one APPEND snapshot.

    `hashes` are the changes of the HASH index by the tasks. Raises BucketConflictError to replay it.
    """
    observe(Step.BEFORE_SNAPSHOT, batch.user, batch.identifier, None)
    try:
        snapshot = append_commit(
            table,
            user=batch.user,
            identifier=batch.identifier,
            digest=batch.source_digest,
            entries=[add_entry(table, file.bucket_id(bucket), file.meta) for bucket, file in files],
            changelog=[add_entry(table, file.bucket_id(bucket), file.meta) for bucket, file in changelog],
            hashes=hashes,
            lineage={"batches": [lineage_of(batch.user, batch.identifier, batch.lineage)]},
            watermark_millis=batch.watermark_millis,
            job=batch.job,
        )
    except OvertakenError as error:
        raise BucketConflictError(str(error)) from error
    observe(Step.AFTER_SNAPSHOT, batch.user, batch.identifier, None)
    return Outcome(snapshot_id=None if snapshot is None else snapshot.id)


def commit_compaction(
    batch: Batch, buckets: Sequence[CompactResult], *, snapshots: Snapshots, observe: StepObserver
) -> Outcome:
    """Index a compaction in a COMPACT snapshot; if its inputs were replaced, it is dropped, which loses nothing."""
    observe(Step.BETWEEN_APPEND_AND_COMPACT, batch.user, batch.identifier, None)
    try:
        return Outcome(snapshot_id=snapshots.compact(batch, buckets))
    except ConflictError as error:
        logger.debug("a compaction of batch %d of %s is dropped: %s", batch.identifier, batch.user, error)
        return Outcome(snapshot_id=None)


def commit_once(
    batch: Batch,
    decide: Callable[[TableState], SnapshotChange | None],
    snapshots: Snapshots,
    observe: StepObserver,
) -> Outcome:
    """Make the APPEND snapshot that `decide` gives, unless it gives None."""
    observe(Step.BEFORE_SNAPSHOT, batch.user, batch.identifier, None)
    snapshot_id = snapshots.append(batch, decide)
    observe(Step.AFTER_SNAPSHOT, batch.user, batch.identifier, None)
    return Outcome(snapshot_id=snapshot_id)


def _position_after(position: LogPosition, answer: BucketAnswer) -> LogPosition:
    headers: tuple[CommitHeader, ...] = answer.transactions
    return advance(
        position,
        offset=answer.end,
        leader_epoch=answer.leader_epoch,
        epoch_offset=answer.epoch_offset,
        records=sum(header.record_count for header in headers),
        size_bytes=sum(header.size_bytes for header in headers),
        sequence=max((header.next_sequence for header in headers), default=0),
    )


def _ends_within(position: LogPosition, answer: BucketAnswer) -> list[TransactionEnd]:
    """Where the transactions of an answer end, but the last one; none where the answer does not say it."""
    if not answer.ends:
        return []
    found: list[TransactionEnd] = []
    sequence = position.sequence
    for offset, header in zip(answer.ends[:-1], answer.transactions[:-1], strict=True):
        sequence = max(sequence, header.next_sequence)
        found.append(TransactionEnd(offset=offset, sequence=sequence))
    return found


def _untracked(bucket: int, header: CommitHeader) -> Mapping[str, object]:
    return {"user": header.user, "identifier": header.identifier, "bucket": bucket, "mark": header.mark}
