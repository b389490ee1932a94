"""The part of a batch statement that runs per bucket: fence, read, log, answer.

It logs the parts of a set of statements that the bucket lacks, for the process that finishes them. See `statements`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

from lakelog.common.errors import ConflictError, StalledError
from lakelog.common.patience import Patience
from lakelog.protocol.state.header import CommitHeader, StagedPart
from lakelog.protocol.state.ports import (
    BucketLog,
    BucketTail,
    PartBase,
    PreparedBucket,
    Producer,
    StatementFiles,
    StatementList,
)
from lakelog.protocol.state.prepared import PreparedCommit
from lakelog.protocol.state.state import TableState
from lakelog.protocol.state.steps import Step, StepObserver
from lakelog.protocol.state.writes import batch_of, is_write
from lakelog.protocol.writing.attempts import BucketAnswer, OvertakenError, made_on, retried, sent
from lakelog.protocol.writing.tail_checks import check_goes_up, checked_tail, next_sequence, unfinished

Payload = TypeVar("Payload")

BACK_OFF_SECONDS_MAX = 60.0  # longer than a large transaction: two processes that log the same one fence each other
FENCINGS_MAX = 20  # by streams and by other processes that finish the statement: each of them ends


class CancelledError(ConflictError):
    """The statement was cancelled before anything of it was logged: nothing of it is in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementTask(Generic[Payload]):
    """One bucket's part of statements, by name. `own` is the name of the statement that this process began, if any.

    `back_off` waits before a bucket is fenced again, for a time that differs between processes.
    """

    table_uuid: str
    schema_id: int
    bucket: int
    statements: Mapping[str, PreparedCommit]
    own: str | None
    log: BucketLog[Payload]
    files: StatementFiles[Payload]
    prepared: StatementList
    observe: StepObserver
    patience: Patience = field(default_factory=partial(Patience, 0))
    back_off: Callable[[int], None] = lambda fencings: time.sleep(
        random.uniform(0, min(0.05 * 2**fencings, BACK_OFF_SECONDS_MAX))
    )

    @property
    def here(self) -> Sequence[str]:
        """The statements with a part in the bucket, in the order in which they are logged."""
        return sorted(name for name, one in self.statements.items() if self.bucket in one.parts)


def log_statements(task: StatementTask[Payload]) -> BucketAnswer:
    """Log each statement's part that the bucket lacks; returns what to take in.

    The answer names the unfinished statements that the task does not know; then nothing was logged. Raises
    CancelledError when its own statement was cancelled, and like `write_bucket`.
    """
    return retried(
        lambda slow: _log_with_new(task, slow),
        patience=task.patience,
        fencings_max=FENCINGS_MAX,
        back_off=task.back_off,
        fenced_text=lambda: (
            f"batch statements were fenced from bucket {task.bucket} more than {FENCINGS_MAX} times: other writers "
            "keep "
            "taking it over. What was logged is finished by the next writer"
        ),
    )


def look(task: StatementTask[Payload], *, fences: bool) -> tuple[str, ...]:
    """The unfinished statements in the tail of the task's bucket.

    With `fences`, no process can log there any more without fencing again. Without it, an open transaction may hide a
    statement.
    """
    return task.patience.keep_trying(partial(_look, task, fences=fences))


def _look(task: StatementTask[Payload], *, fences: bool) -> tuple[str, ...]:
    while True:
        if fences:
            task.log.fence(task.bucket, patience=0).close()
        state = task.files.newest()
        try:
            return unfinished(state, [one.header for one in checked_tail(task, state).transactions])
        except OvertakenError:
            continue
        except StalledError:
            if not fences:
                return ()
            raise


def headers_behind(task: StatementTask[Payload]) -> tuple[CommitHeader, ...]:
    """The headers in the log of the task's bucket that are in no snapshot. Raises StalledError during a transaction."""
    while True:
        try:
            return tuple(one.header for one in checked_tail(task, task.files.newest()).transactions)
        except OvertakenError:
            continue


def readable_headers(task: StatementTask[Payload]) -> tuple[CommitHeader, ...]:
    """Those of `headers_behind`; none while an open transaction hides them."""
    with suppress(StalledError):
        return headers_behind(task)
    return ()


def _log_with_new(task: StatementTask[Payload], patience: int) -> BucketAnswer:
    _observe(task, Step.FENCE, task.here)
    producer = task.log.fence(task.bucket, patience=patience)
    try:
        return _log_fenced(task, producer)
    finally:
        producer.close()


def _log_fenced(task: StatementTask[Payload], producer: Producer[Payload]) -> BucketAnswer:
    _observe(task, Step.LOOK, task.here)
    state = task.files.newest()
    tail = checked_tail(task, state)
    left = unfinished(state, [one.header for one in tail.transactions])
    answer = _answer(task, state, tail)
    unknown = tuple(name for name in left if name not in task.statements)
    if unknown:
        return replace(answer, end=answer.base, transactions=(), ends=(), unfinished=unknown)
    for name in task.here:
        if state.holds(*batch_of(name)):  # the user may be forgotten before the snapshot is made
            if is_write(name):
                continue
            raise CancelledError(f"the statement {name} was finished by another process meanwhile")
        if name not in left:
            if not is_write(name):  # what happens with a write is decided where it was found
                check_may_log(task.prepared, name, is_own=name == task.own)
            answer = _log_one(task, producer, state, answer, name)
    return answer


def _log_one(
    task: StatementTask[Payload], producer: Producer[Payload], state: TableState, answer: BucketAnswer, name: str
) -> BucketAnswer:
    """Log one statement after what the answer has; returns the answer with it."""
    prepared = task.statements[name]
    base = part_base(state, task.bucket, answer.transactions)
    staged = prepared.parts[task.bucket]
    part = _prepare(task, name, base, has_moved=is_moved(staged, answer.end))
    if part.is_empty:
        return answer
    header = _header(task, name, base, part)
    _observe(task, Step.BEGIN, [name])
    producer.begin(part.payload, header)
    task.patience.succeeded()
    _observe(task, Step.PRODUCE, [name])
    sent(producer, task.bucket, part)
    _observe(task, Step.COMMIT, [name])
    end = producer.commit()
    check_goes_up(task, answer.end, end)
    _observe(task, Step.AFTER_COMMIT, [name])
    assert prepared.user == header.user
    return replace(answer, end=end, transactions=(*answer.transactions, header), ends=(*answer.ends, end))


def part_base(state: TableState, bucket: int, headers: Sequence[CommitHeader]) -> PartBase:
    """The state of the bucket after these transactions, with which an earlier staged part is compared."""
    return PartBase(
        first_sequence=next_sequence(state, bucket, list(headers)), snapshot_id=state.snapshot_id, tail=tuple(headers)
    )


def is_moved(staged: StagedPart, end: int) -> bool:
    """Whether the log of a bucket has advanced since a part of a statement was staged, so that it is outdated."""
    return staged.offset != end


def _prepare(task: StatementTask[Payload], name: str, base: PartBase, *, has_moved: bool) -> PreparedBucket[Payload]:
    _observe(task, Step.PREPARE, [name])
    with made_on(task.files, base.snapshot_id):
        staged = task.statements[name].parts[task.bucket]
        return task.files.prepare_staged(task.bucket, staged, base, has_moved=has_moved)


def check_may_log(prepared: StatementList, name: str, *, is_own: bool) -> None:
    """Raise CancelledError for a deleted statement, and in its own driver for one that is being cancelled.

    It is checked after the fence and the read. A process that cancels first puts a mark, then fences; a process that
    deletes has found the statement in a snapshot, or has cancelled it. The statement's user may be forgotten since.
    """
    # The order matters: the prepared commit is deleted before its mark.
    if (is_own and prepared.is_marked(name)) or not prepared.exists(name):
        raise CancelledError(f"the statement {name} was finished or cancelled by another process meanwhile")


def _header(task: StatementTask[Payload], name: str, base: PartBase, part: PreparedBucket[Payload]) -> CommitHeader:
    prepared = task.statements[name]
    return part.header(
        prepared.batch,
        table_uuid=task.table_uuid,
        schema_id=task.schema_id,
        base_snapshot_id=base.snapshot_id,
        statement=name,
        parts=prepared.parts if is_write(name) else None,
    )


def _answer(task: StatementTask[Payload], state: TableState, tail: BucketTail) -> BucketAnswer:
    """What is to be taken in before anything is logged."""
    base = state.logged.position(task.bucket).offset
    return BucketAnswer(
        bucket=task.bucket,
        base=base,
        end=tail.transactions[-1].end_offset if tail.transactions else base,
        leader_epoch=tail.leader_epoch,
        epoch_offset=tail.epoch_offset,
        transactions=tuple(one.header for one in tail.transactions),
        has_fenced=True,
        ends=tuple(one.end_offset for one in tail.transactions),
    )


def _observe(task: StatementTask[Payload], step: Step, names: Sequence[str]) -> None:
    for name in names:
        batch = task.statements[name].batch
        task.observe(step, batch.user, batch.identifier, task.bucket)
