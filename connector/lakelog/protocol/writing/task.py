"""The part of the protocol that runs per bucket, in the process that owns it: fence, read, prepare, log, answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar  # Any: the payload does not matter for reading a tail

from lakelog.common.errors import (
    ConflictError,
    CorruptDataError,
    FencedError,
    NotFoundError,
    StalledError,
    TransactionTimeoutError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakelog.common.patience import Patience
from lakelog.filestore.metadata.tables import AGE_MILLIS_MIN
from lakelog.logstore.errors import SKIP_UNREADABLE, LogTruncatedError
from lakelog.logstore.kafka.clients.transaction_timeout import TIMEOUT_MILLIS_MAX
from lakelog.protocol.state.header import GOES_WITH_ANOTHER_FOLDER, CommitHeader, LostFilesError
from lakelog.protocol.state.log_generations import check_goes_on
from lakelog.protocol.state.moved_parts import written_parts
from lakelog.protocol.state.ports import (
    BucketFiles,
    BucketLog,
    BucketTail,
    PartBase,
    PreparedBucket,
    Producer,
    TableFiles,
)
from lakelog.protocol.state.state import Batch, LogPosition, LogState, TableState, check_same_batch, is_committed
from lakelog.protocol.state.steps import Step, StepObserver
from lakelog.protocol.writing.kept_producers import KeptProducers

Rows = TypeVar("Rows")
Payload = TypeVar("Payload")

UNKNOWN_OUTCOMES_MAX = 4
FENCINGS_MAX = 1
STALLS_MAX = 1
TIMEOUTS_MAX = 2
OLD_FILES_MAX = 2

# A logged header must not name a file that may be removed as an orphan. When a transaction is about to be committed, it
# is open at the broker, which aborts it at the latest after TIMEOUT_MILLIS_MAX, and its files are younger than this: so
# they are younger than orphans when it takes effect, however long the process sleeps in between.
_SPARE_MILLIS = 300_000  # brokers check periodically for transactions past their time-out, by default every 10 s
FILES_AGE_SECONDS_MAX = (AGE_MILLIS_MIN - TIMEOUT_MILLIS_MAX - _SPARE_MILLIS) / 1000


class OvertakenError(ConflictError):
    """Other writers have advanced the bucket since it was read, and its log or files have expired: read again."""


class StaleAttemptError(ConflictError):
    """The batch is already in a snapshot: this attempt is a leftover and must change nothing."""


class OldFilesError(UnavailableError):
    """Files are so old that they may be removed as orphans before the log names them: write them again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAnswer:
    """What a task reports to the driver about one bucket.

    `transactions` are the headers between `base` and `end` in the log, in log order, including that of this batch
    unless the snapshot already has it. Equal `base` and `end` mean that there is nothing to take in. `is_decided` says
    that the log has decided on the transactions: the writer of the next snapshot takes them in. Records of an eventual
    log decide nothing. `unfinished` names batch statements in the tail that must be finished first: nothing was logged.
    """

    bucket: int
    base: int
    end: int
    leader_epoch: int | None
    transactions: tuple[CommitHeader, ...]
    has_fenced: bool
    epoch_offset: int = 0
    is_decided: bool = True
    unfinished: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTask(Generic[Rows, Payload]):
    """One bucket's part of a batch. If `rows` is None, only transactions of other writers are to be taken in.

    `patience` bounds the retries of a log that does not answer.
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
    producer = task.kept.take(task.bucket)
    if producer is not None:
        try:
            answer = _write_with_kept(task, prepared, *producer)
        except (FencedError, UnknownOutcomeError, OldFilesError, OvertakenError):
            answer = None
        except TransactionTimeoutError:
            answer, timeouts = None, 1
        if answer is not None:
            return answer
    return retried(
        lambda slow: _write_with_new(task, prepared, others, patience=slow),
        patience=task.patience,
        fencings_max=FENCINGS_MAX,
        timeouts=timeouts,
        fenced_text=lambda: _fenced_text(task, others),
    )


def retried(
    attempt: Callable[[int], BucketAnswer],
    *,
    patience: Patience,
    fencings_max: int,
    fenced_text: Callable[[], str],
    timeouts: int = 0,
    back_off: Callable[[int], None] = lambda _fencings: None,
) -> BucketAnswer:
    """The final result of `attempt`; each try begins with a fence, and finds in the tail what the one before logged.

    `attempt` is called with the number of transactions that were too slow, at first `timeouts`; `back_off` is called
    before the next attempt with how often it was fenced.
    Raises FencedError with `fenced_text` once it was fenced more than `fencings_max` times, and like `write_bucket`.
    """
    fencings = stalls = unknowns = olds = 0
    while True:
        try:
            return attempt(timeouts)
        except FencedError as error:
            fencings += 1
            if fencings > fencings_max:
                raise FencedError(fenced_text()) from error
            back_off(fencings)
        except UnknownOutcomeError:
            unknowns += 1
            if unknowns >= UNKNOWN_OUTCOMES_MAX:
                raise
        except TransactionTimeoutError:
            timeouts += 1
            if timeouts > TIMEOUTS_MAX:
                raise
        except StalledError:
            stalls += 1
            if stalls > STALLS_MAX:
                raise
        except OvertakenError:
            continue
        except OldFilesError:
            olds += 1
            if olds > OLD_FILES_MAX:
                raise
        except UnavailableError as error:
            patience.bear(error)


def _write_with_kept(
    task: BucketTask[Rows, Payload], prepared: _Preparation[Rows, Payload], producer: Producer[Payload], end: int
) -> BucketAnswer | None:
    """Write without fence and tail, which is correct only while the newest snapshot ends where the producer ended."""
    try:
        _observe(task, Step.LOOK)
        state = task.files.newest()
        check_not_stale(state, task.batch)
        position = state.logged.position(task.bucket)
        if not is_at_its_end(position, end) or not task.log.fits(producer):
            producer.close()
            return None
        if is_in_ledger(state.logged, task.bucket, task.batch):
            task.kept.put(task.bucket, producer, end)
            return _nothing_to_take(task, state, has_fenced=False)
        return _log_and_answer(task, prepared, producer, state, _empty_tail(position.offset), has_fenced=False)
    except BaseException:
        producer.close()
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
    tail = checked_tail(task, state)
    left = unfinished(state, [one.header for one in tail.transactions])
    if left:
        producer.close()
        return replace(_nothing_to_take(task, state, has_fenced=True), unfinished=left)
    return _log_and_answer(task, prepared, producer, state, tail, has_fenced=True)


def checked_tail(task: TailReader, state: TableState) -> BucketTail:
    """The tail of a bucket after a snapshot, checked: it belongs to this table's history, and its files exist.

    Raises OvertakenError when other writers have taken it in since, and like `check_tail` and `check_files`.
    """
    position = state.logged.position(task.bucket)
    try:
        tail = task.log.read_tail(task.bucket, position)
        check_tail(task, state, tail)
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
    names = {one.statement: one.user for one in headers if one.statement is not None}
    return tuple(sorted(name for name, user in names.items() if user not in state.users))


def _log_and_answer(
    task: BucketTask[Rows, Payload],
    prepared: _Preparation[Rows, Payload],
    producer: Producer[Payload],
    state: TableState,
    tail: BucketTail,
    *,
    has_fenced: bool,
) -> BucketAnswer:
    base = state.logged.position(task.bucket).offset
    headers = [transaction.header for transaction in tail.transactions]
    end = tail.transactions[-1].end_offset if tail.transactions else base
    if not has_own(task.batch, headers) and task.rows is not None:
        first = next_sequence(state, task.bucket, headers)
        part = prepared.on(
            PartBase(
                first_sequence=first,
                snapshot_id=state.snapshot_id,
                tail=tuple(headers),
                written=written_parts(state.logged, task.batch),
            )
        )
        if not part.is_empty:
            header = _header(task, state, part)
            _observe(task, Step.BEGIN)
            producer.begin(part.payload, header)
            task.patience.succeeded()  # later failures are unknown outcomes, which are counted
            _observe(task, Step.PRODUCE)
            producer.produce()
            producer.flush()
            check_young(task.bucket, part.age_seconds())
            _observe(task, Step.COMMIT)
            before, end = end, producer.commit()
            check_goes_up(task, before, end)
            _observe(task, Step.AFTER_COMMIT)
            headers.append(header)
    task.kept.put(task.bucket, producer, end)
    return BucketAnswer(
        bucket=task.bucket,
        base=base,
        end=end,
        leader_epoch=tail.leader_epoch,
        epoch_offset=tail.epoch_offset,
        transactions=tuple(headers),
        has_fenced=has_fenced,
    )


def check_goes_up(task: TailReader, before: int, end: int) -> None:
    """Raise CorruptDataError for a transaction that does not end after the log's earlier end: a snapshot would take it
    for one that it already has."""
    if end <= before:
        raise CorruptDataError(
            f"a transaction in bucket {task.bucket} of table {task.table_uuid} ends at offset {end}, and the log had "
            f"reached {before}: the topic was deleted, and created again, while it was written. No snapshot takes it "
            "in; `lakelog log renew` makes another topic, and the batch is written again"
        )


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
        try:
            return task.files.prepare(task.bucket, task.rows, base)
        except NotFoundError as error:
            if task.files.newest().snapshot_id == base.snapshot_id:
                raise
            raise OvertakenError from error


def check_not_stale(state: TableState, batch: Batch) -> None:
    """Raise StaleAttemptError when the newest snapshot already holds the batch.

    Raises InvalidRequestError when the snapshot holds the batch with other source offsets.
    """
    if is_committed(state, batch):
        raise StaleAttemptError(
            f"batch {batch.identifier} of {batch.user} is in snapshot {state.snapshot_id} already, which holds its "
            f"batches up to {state.users[batch.user].identifier}; this attempt is a leftover and stops"
        )


def is_young(age_seconds: float) -> bool:
    """True for files that cannot reach the age of orphans before a transaction that is open now has ended."""
    return age_seconds < FILES_AGE_SECONDS_MAX


def check_young(bucket: int, age_seconds: float) -> None:
    """Raise OldFilesError for files that may be removed as orphans before the log names them."""
    if not is_young(age_seconds):
        raise OldFilesError(
            f"bucket {bucket}: the first file of the batch was written {age_seconds:.0f} s ago, at most "
            f"{FILES_AGE_SECONDS_MAX:.0f} s are allowed: the files may be removed as orphans. The machine was asleep, "
            "or the batch is too large: write smaller batches"
        )


def is_at_its_end(position: LogPosition, end: int) -> bool:
    """True when the newest snapshot ends exactly where a kept producer ended."""
    return position.offset == end


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


def next_sequence(state: TableState, bucket: int, headers: list[CommitHeader]) -> int:
    """The first sequence number after the snapshot's files and those of the tail."""
    return max([state.logged.position(bucket).sequence, *(header.next_sequence for header in headers)])


def check_tail(task: TailReader, state: TableState, tail: BucketTail) -> None:
    """Raise CorruptDataError for a transaction that cannot belong to this table's history."""
    sequence = state.logged.position(task.bucket).sequence
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
    for transaction in tail.transactions:
        header = transaction.header
        missing = task.files.first_missing(task.bucket, (*header.files, *header.changelog, *header.removed))
        if missing is not None:
            raise LostFilesError.of(missing, where=f"offset {transaction.first_offset} of bucket {task.bucket}")


def _header(task: BucketTask[Rows, Payload], state: TableState, part: PreparedBucket[Payload]) -> CommitHeader:
    return CommitHeader(
        table_uuid=task.table_uuid,
        user=task.batch.user,
        identifier=task.batch.identifier,
        source_digest=task.batch.source_digest,
        schema_id=task.schema_id,
        base_snapshot_id=state.snapshot_id,
        record_count=part.record_count,
        size_bytes=part.size_bytes,
        files=part.files,
        changelog=part.changelog,
        lineage=task.batch.lineage,
        watermark_millis=task.batch.watermark_millis,
        mark=part.mark,
    )


def _nothing_to_take(task: BucketTask[Rows, Payload], state: TableState, *, has_fenced: bool) -> BucketAnswer:
    offset = state.logged.position(task.bucket).offset
    return BucketAnswer(
        bucket=task.bucket, base=offset, end=offset, leader_epoch=None, transactions=(), has_fenced=has_fenced
    )


def _empty_tail(base: int) -> BucketTail:
    return BucketTail(transactions=(), high_watermark=base, leader_epoch=None)


def _observe(task: BucketTask[Rows, Payload], step: Step) -> None:
    task.observe(step, task.batch.user, task.batch.identifier, task.bucket)


def _fenced_text(task: BucketTask[Rows, Payload], others: Mapping[str, int]) -> str:
    newest = max(others, key=lambda user: others[user], default=None)
    other = f"the last other writer seen is {newest!r}" if newest else "the other writer has no snapshot yet"
    return (
        f"batch {task.batch.identifier} of {task.batch.user} was fenced twice from bucket {task.bucket}: another "
        f"stream writes the same table now ({other}); stop one of the two, then restart the other from its checkpoint"
    )
