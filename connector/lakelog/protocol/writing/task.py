"""The part of the protocol that runs per bucket, in the process that owns it: fence, read, prepare, log, answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

from lakelog.common.errors import FencedError, TransactionTimeoutError, UnknownOutcomeError
from lakelog.common.patience import Patience
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.moved_parts import written_parts
from lakelog.protocol.state.ports import BucketFiles, BucketLog, PartBase, PreparedBucket, Producer
from lakelog.protocol.state.state import Batch, TableState
from lakelog.protocol.state.steps import Step, StepObserver
from lakelog.protocol.writing.attempts import (
    FENCINGS_MAX,
    BucketAnswer,
    OldFilesError,
    OvertakenError,
    is_young,
    made_on,
    retried,
    sent,
)
from lakelog.protocol.writing.kept_producers import KeptProducer, KeptProducers, KnownTail, ReportedTail
from lakelog.protocol.writing.tail_checks import (
    check_goes_up,
    check_not_stale,
    has_own,
    is_in_ledger,
    next_sequence,
    reported_on,
    tail_behind,
    unfinished,
)

Rows = TypeVar("Rows")
Payload = TypeVar("Payload")


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTask(Generic[Rows, Payload]):
    """One bucket's part of a batch. If `rows` is None, only transactions of other writers are to be taken in.

    `patience` bounds the retries. `reported` is what the driver has of the bucket from earlier batches: on the same
    snapshot the look at the log begins behind it, and so does the answer. Others may fence it `fencings_max` times.
    """

    table_uuid: str
    schema_id: int
    batch: Batch
    bucket: int
    rows: Rows | None
    log: BucketLog[Payload]
    files: BucketFiles[Rows, Payload]
    kept: KeptProducers[Payload]
    observe: StepObserver
    patience: Patience = field(default_factory=partial(Patience, 0))
    reported: ReportedTail | None = None
    fencings_max: int = FENCINGS_MAX


def write_bucket(task: BucketTask[Rows, Payload]) -> BucketAnswer:
    """Write the bucket's part of the batch into the log once, after any earlier attempt; returns what to take in.

    After an unknown outcome it starts over with a new producer, which finds in the tail whether the transaction took
    effect; also if the log does not answer, as long as the task has patience.
    Raises StaleAttemptError, FencedError (fenced a second time; names the other writer), UnknownOutcomeError,
    TransactionTimeoutError, StalledError, OldFilesError, CorruptDataError (LostFilesError too), and what the ports
    raise for bad rows.
    """
    prepared = _Preparation(task)
    timeouts = 0
    others: dict[str, int] = {}
    kept = task.kept.take(task.bucket) if may_skip_fence(task.rows) else None
    if kept is not None:
        try:
            answer = _write_with_kept(task, prepared, kept)
        except (FencedError, UnknownOutcomeError, OldFilesError, OvertakenError):
            answer = None
        except TransactionTimeoutError:
            answer, timeouts = None, 1
        if answer is not None:
            return answer
    return retried(
        lambda slow: _write_with_new(task, prepared, others, patience=slow),
        patience=task.patience,
        fencings_max=task.fencings_max,
        timeouts=timeouts,
        fenced_text=lambda: _fenced_text(task, others),
    )


def may_skip_fence(rows: object) -> bool:
    """Whether a kept producer may answer: for what it logs itself, never for what others may have logged."""
    return rows is not None


def _write_with_kept(
    task: BucketTask[Rows, Payload], prepared: _Preparation[Rows, Payload], kept: KeptProducer[Payload]
) -> BucketAnswer | None:
    """Write without fence and tail: correct only while the producer knows all that is behind the newest snapshot.

    It answers only for what it logs itself. Whether somebody else has logged in the bucket shows the fence alone, so a
    bucket without changes is never answered here.
    """
    try:
        _observe(task, Step.LOOK)
        state = task.files.newest()
        check_not_stale(state, task.batch)
        reported = reported_on(task.reported, state, task.bucket)
        known = kept.since(_start(task, state, reported))
        if known is None or not task.log.fits(kept.producer):
            kept.producer.close()
            return None
        if is_in_ledger(state.logged, task.bucket, task.batch):
            task.kept.put(task.bucket, kept)
            return _nothing_to_take(task, state, has_fenced=False)
        known = replace(known, reported=reported)
        return _log_and_answer(task, prepared, kept.producer, state, known, has_fenced=False)
    except BaseException:
        kept.producer.close()
        raise


def _write_with_new(
    task: BucketTask[Rows, Payload], prepared: _Preparation[Rows, Payload], others: dict[str, int], *, patience: int
) -> BucketAnswer:
    _observe(task, Step.FENCE)
    producer = task.log.fence(task.bucket, patience=patience)
    try:
        return _write_fenced(task, prepared, producer, others)
    except BaseException:
        producer.close()
        raise


def _write_fenced(
    task: BucketTask[Rows, Payload],
    prepared: _Preparation[Rows, Payload],
    producer: Producer[Payload],
    others: dict[str, int],
) -> BucketAnswer:
    # The read comes after the fence: what an older owner logged is now either in this snapshot or in its tail.
    _observe(task, Step.LOOK)
    state = task.files.newest()
    others.update({user: entry.time_millis for user, entry in state.users.items() if user != task.batch.user})
    check_not_stale(state, task.batch)
    if is_in_ledger(state.logged, task.bucket, task.batch):
        producer.close()
        return _nothing_to_take(task, state, has_fenced=True)
    tail, reported = tail_behind(task, state, reported_on(task.reported, state, task.bucket))
    left = unfinished(state, [one.header for one in tail.transactions])
    if left:
        producer.close()
        return replace(_nothing_to_take(task, state, has_fenced=True), unfinished=left)
    known = KnownTail.of(tail, base=_start(task, state, reported), reported=reported)
    answer = _log_and_answer(task, prepared, producer, state, known, has_fenced=True)
    assert answer is not None, "a fenced bucket has an answer"
    return answer


def _start(task: BucketTask[Rows, Payload], state: TableState, reported: ReportedTail | None) -> int:
    """Where the look at the log begins: behind what is reported, or where the snapshot ends."""
    return state.logged.position(task.bucket).offset if reported is None else reported.end


def _log_and_answer(
    task: BucketTask[Rows, Payload],
    prepared: _Preparation[Rows, Payload],
    producer: Producer[Payload],
    state: TableState,
    known: KnownTail,
    *,
    has_fenced: bool,
) -> BucketAnswer | None:
    """Log the part unless the log has it; None for a part without anything to log in a bucket that was not fenced."""
    reported = known.reported
    base = _start(task, state, reported)
    logged, end = known.logged, known.end
    headers = [header for header, _ in logged]
    if not has_own(task.batch, headers) and task.rows is not None:
        first = next_sequence(state, task.bucket, headers, reported)
        part = prepared.on(
            PartBase(
                first_sequence=first,
                snapshot_id=state.snapshot_id,
                tail=(*(() if reported is None else reported.headers), *headers),
                written=written_parts(state.logged, task.batch),
            )
        )
        if part.is_empty and not has_fenced:
            producer.close()
            return None
        if not part.is_empty:
            header = _header(task, state, part)
            before, end = end, _logged(task, producer, part, header)
            check_goes_up(task, before, end)
            _observe(task, Step.AFTER_COMMIT)
            logged = (*logged, (header, end))
    task.kept.put(task.bucket, KeptProducer(producer=producer, start=base, end=end, logged=logged))
    return BucketAnswer(
        bucket=task.bucket,
        base=base,
        end=end,
        leader_epoch=known.leader_epoch,
        epoch_offset=known.epoch_offset,
        transactions=tuple(header for header, _ in logged),
        has_fenced=has_fenced,
        ends=tuple(at for _, at in logged),
        goes_on=reported is not None,
    )


def _logged(
    task: BucketTask[Rows, Payload], producer: Producer[Payload], part: PreparedBucket[Payload], header: CommitHeader
) -> int:
    """Log a part in one transaction; returns its end."""
    _observe(task, Step.BEGIN)
    producer.begin(part.payload, header)
    task.patience.succeeded()  # later failures are unknown outcomes, which are counted
    _observe(task, Step.PRODUCE)
    sent(producer, task.bucket, part)
    _observe(task, Step.COMMIT)
    return producer.commit()


class _Preparation(Generic[Rows, Payload]):
    """The prepared part, made again only when its sequence numbers must change or its files have become old.

    Every transaction with files changes the sequence numbers: while they stay, the bucket has the same rows.
    """

    def __init__(self, task: BucketTask[Rows, Payload]) -> None:
        self._task = task
        self._base: PartBase | None = None
        self._part: PreparedBucket[Payload] | None = None

    def on(self, base: PartBase) -> PreparedBucket[Payload]:
        """The part on top of what the bucket has; a writer renumbers its files before it logs.

        Raises OvertakenError when other writers have replaced the files in which old rows are looked up.
        """
        is_same = self._base is not None and self._base.first_sequence == base.first_sequence
        if self._part is None or not is_same or not is_young(self._part.age_seconds()):
            self._part = self._prepare(base)
            self._base = base
        return self._part

    def _prepare(self, base: PartBase) -> PreparedBucket[Payload]:
        task = self._task
        assert task.rows is not None
        _observe(task, Step.PREPARE)
        with made_on(task.files, base.snapshot_id):
            return task.files.prepare(task.bucket, task.rows, base)


def _header(task: BucketTask[Rows, Payload], state: TableState, part: PreparedBucket[Payload]) -> CommitHeader:
    return part.header(
        task.batch, table_uuid=task.table_uuid, schema_id=task.schema_id, base_snapshot_id=state.snapshot_id
    )


def _nothing_to_take(task: BucketTask[Rows, Payload], state: TableState, *, has_fenced: bool) -> BucketAnswer:
    offset = state.logged.position(task.bucket).offset
    return BucketAnswer(
        bucket=task.bucket, base=offset, end=offset, leader_epoch=None, transactions=(), has_fenced=has_fenced
    )


def _observe(task: BucketTask[Rows, Payload], step: Step) -> None:
    task.observe(step, task.batch.user, task.batch.identifier, task.bucket)


def _fenced_text(task: BucketTask[Rows, Payload], others: Mapping[str, int]) -> str:
    newest = max(others, key=lambda user: others[user], default=None)
    other = f"the last other writer seen is {newest!r}" if newest else "the other writer has no snapshot yet"
    return (
        f"batch {task.batch.identifier} of {task.batch.user} was fenced twice from bucket {task.bucket}: another "
        f"stream writes the same table now ({other}); stop one of the two, then restart the other from its checkpoint"
    )
