"""The part of the protocol that runs per bucket of a table with an eventual log: read, prepare, send, answer.

The log decides nothing here: a batch takes effect with its snapshot, and its records can be read before that. So there
is no fence and no tail to take in. A batch that runs again sends its records again, after those of the earlier attempt,
and the snapshot's position is after them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from lakelog.common.errors import UnavailableError
from lakelog.common.patience import Patience
from lakelog.logstore.errors import LogTruncatedError
from lakelog.logstore.kafka.clients.offsets import Position
from lakelog.logstore.kafka.records.authors import Author
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.ports import BucketFiles, PartBase, PreparedBucket
from lakelog.protocol.state.state import Batch, LogPosition, TableState
from lakelog.protocol.state.steps import Step, StepObserver
from lakelog.protocol.writing.attempts import BucketAnswer, check_young, is_young
from lakelog.protocol.writing.tail_checks import check_not_stale

Rows = TypeVar("Rows")
Payload = TypeVar("Payload")
Payload_contra = TypeVar("Payload_contra", contravariant=True)


class EventualLog(Protocol[Payload_contra]):
    """The log of one table, to which records are sent without transactions."""

    def send(self, bucket: int, payload: Payload_contra, author: Author, check: Callable[[], None]) -> Position:
        """Send the records; returns the end of the log once the broker has them all.

        `check` is called from time to time before records are sent, and may raise to stop sending.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EventualTask(Generic[Rows, Payload]):
    """One bucket's part of a batch. `check_lease` raises when the writer's lease has ended.

    `patience` bounds the retries of a log that does not answer.
    """

    table_uuid: str
    schema_id: int
    batch: Batch
    bucket: int
    rows: Rows
    log: EventualLog[Payload]
    files: BucketFiles[Rows, Payload]
    check_lease: Callable[[], None]
    observe: StepObserver
    patience: Patience = field(default_factory=partial(Patience, 0))


def write_eventually(task: EventualTask[Rows, Payload]) -> BucketAnswer:
    """Write the files of the bucket's part of the batch, and send its records; sends them again after a broker error.

    Raises StaleAttemptError, WriterLeaseError, LogTruncatedError for a log that has lost records, OldFilesError, and
    what the ports raise for bad rows.
    """
    part: PreparedBucket[Payload] | None = None
    first_sequence = 0
    while True:
        try:
            _observe(task, Step.LOOK)
            state = task.files.newest()
            check_not_stale(state, task.batch)
            position = state.logged.position(task.bucket)
            if part is None or first_sequence != position.sequence or not is_young(part.age_seconds()):
                _observe(task, Step.PREPARE)
                first_sequence = position.sequence
                base = PartBase(first_sequence=first_sequence, snapshot_id=state.snapshot_id, tail=())
                part = task.files.prepare(task.bucket, task.rows, base)
            if part.is_empty:
                return _answer(task, position, Position(offset=position.offset, leader_epoch=None), ())
            part.make_durable()
            _observe(task, Step.PRODUCE)
            end = task.log.send(task.bucket, part.payload, _author(task), task.check_lease)
            _observe(task, Step.AFTER_COMMIT)
            check_young(task.bucket, part.age_seconds())
            return _answer(task, position, end, (_header(task, state, position, part, end),))
        except UnavailableError as error:
            task.patience.bear(error)


def _author(task: EventualTask[Rows, Payload]) -> Author:
    return Author(task.batch.user, task.batch.identifier, task.batch.source_digest)


def _header(
    task: EventualTask[Rows, Payload],
    state: TableState,
    position: LogPosition,
    part: PreparedBucket[Payload],
    end: Position,
) -> CommitHeader:
    """What the snapshot takes in. It also counts the records of earlier attempts: each offset is a record."""
    if end.offset - part.record_count < position.offset:
        raise LogTruncatedError(
            f"the log of bucket {task.bucket} ends at offset {end.offset} after {part.record_count} records were sent, "
            f"and the newest snapshot holds it up to {position.offset}: the broker has lost records, as by an unclean "
            "leader election; `lakelog log check TABLE` names them, and `lakelog log repair TABLE` lets writers "
            "continue"
        )
    return CommitHeader(
        table_uuid=task.table_uuid,
        user=task.batch.user,
        identifier=task.batch.identifier,
        source_digest=task.batch.source_digest,
        schema_id=task.schema_id,
        base_snapshot_id=state.snapshot_id,
        record_count=end.offset - position.offset,
        size_bytes=part.size_bytes,
        files=part.files,
        changelog=part.changelog,
        lineage=task.batch.lineage,
    )


def _answer(
    task: EventualTask[Rows, Payload], position: LogPosition, end: Position, headers: tuple[CommitHeader, ...]
) -> BucketAnswer:
    return BucketAnswer(
        bucket=task.bucket,
        base=position.offset,
        end=end.offset,
        leader_epoch=end.leader_epoch,
        epoch_offset=end.offset,
        transactions=headers,
        has_fenced=False,
        is_decided=False,
    )


def _observe(task: EventualTask[Rows, Payload], step: Step) -> None:
    task.observe(step, task.batch.user, task.batch.identifier, task.bucket)
