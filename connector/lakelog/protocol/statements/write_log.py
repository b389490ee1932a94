"""The writes of a Python writer to a table with a log: each is a transaction in every bucket that it touches.

A write is a batch statement whose prepared commit is in its headers: each header names the parts of all buckets. So any
process that finds a write in one bucket finishes it in the others, and the first header that is logged decides that it
happens. Source: docs/rfcs/0051-writers.md.

Before its first write, and after whatever has an unknown outcome, a process takes a *turn*: it fences all buckets, asks
whether it is still the process of its name, and finishes what it finds. From then on its producers stay open, and it
looks no further: whoever else logs in a bucket fences its producer first.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from lakelog.common.errors import (
    CorruptDataError,
    FencedError,
    StalledError,
    TransactionTimeoutError,
    UnavailableError,
    UnknownOutcomeError,
)
from lakelog.common.json_fields import parse_object, whole
from lakelog.common.patience import Patience
from lakelog.common.quoting import cause, shown
from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.filestore.metadata.snapshots import CommitUser, Snapshot
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import FileNames
from lakelog.filestore.write import StatementChanges
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.protocol.state.header import BucketFile, CommitHeader, StagedPart
from lakelog.protocol.state.ports import PartBase, PreparedBucket, Producer
from lakelog.protocol.state.prepared import WRITER_PREFIX, PreparedCommit, write_name
from lakelog.protocol.state.state import TableState
from lakelog.protocol.state.steps import Step, StepObserver, process_observer
from lakelog.protocol.state.table_position import TablePosition
from lakelog.protocol.statements.staging import every_row, write_staged
from lakelog.protocol.statements.statement_runs import LoggedTable
from lakelog.protocol.statements.statement_task import CancelledError
from lakelog.protocol.statements.statements import finish
from lakelog.protocol.stores.encoded_parts import ChangeRows, encode_part
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.logged_rows import split_rows
from lakelog.protocol.stores.task_stores import TaskFiles, TaskLog
from lakelog.protocol.writing.attempts import BucketAnswer, OldFilesError, OvertakenError, check_young
from lakelog.protocol.writing.driver import BucketConflictError
from lakelog.protocol.writing.kept_producers import KeptProducer
from lakelog.protocol.writing.lost_batches import LostBatchesError, lost
from lakelog.protocol.writing.tail_checks import check_goes_up, checked_tail, next_sequence, unfinished
from lakelog.protocol.writing.turns import Turns

BATCH_BYTES_MAX = 32 << 20  # of rows that one write may have, or several that are joined
_THREADS_MAX = 16
_TRIES_MAX = 50  # of one write: each try begins because another process came between
_BACK_OFF_SECONDS_MAX = 1.0


def writer_user(name: str) -> str:
    """The user of a writer in the table's history."""
    return f"{WRITER_PREFIX}{name}"


def digest_of_sources(sources: Mapping[str, int]) -> str | None:
    """The last identifiers of a writer's sources, as the digest of its last write."""
    return json.dumps(dict(sorted(sources.items()))) if sources else None


def sources_of(last: CommitUser | None) -> dict[str, int]:
    """The last identifier of each source of a writer, from its last write. Raises CorruptDataError."""
    if last is None or last.digest is None:
        return {}
    try:
        fields = parse_object(last.digest)
        return {source: whole(fields, source) for source in fields}
    except (KeyError, ValueError) as error:
        raise CorruptDataError(f"the identifiers of a writer are not readable: {cause(error)}") from error


@dataclass(slots=True)
class WriteLog:
    """The writes of one name, in this process.

    `opened` gives the table and its log as they are now. `check_run` raises an error if another process has the name.
    `number` is that of the last write that is in the log, `sources` are the last identifiers of its sources.
    """

    user: str
    opened: Callable[[], tuple[TableStore, LogTarget]]
    check_run: Callable[[], None]
    turns: Turns
    observe: StepObserver = field(default_factory=process_observer)
    number: int = -1
    sources: dict[str, int] = field(default_factory=dict)
    file_count: int = 0  # in no snapshot
    size_bytes: int = 0
    pending: list[str] = field(default_factory=list)  # the names of writes that no snapshot has
    is_forgotten: bool = False
    _turn: _Turn | None = None
    _known: int = -1
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS_MAX, thread_name_prefix="lakelog-write")
    )

    def begin(self) -> None:
        """Take a turn unless this process has one: what earlier processes of the name have left is finished.

        Raises UnavailableError, ConflictError for a name that another process has, LostBatchesError.
        """
        self._until_done(lambda: None)

    def write(self, changes: StatementChanges, sources: Mapping[str, int]) -> TablePosition:
        """Log a write in all its buckets; returns the position that shows it. The write is in the log whole, or not.

        `sources` are the last identifiers of the sources that it goes up to.

        Raises UnknownOutcomeError where it may still get there, and like `begin`.
        """
        number: int | None = None

        def log() -> None:
            nonlocal number
            if number is not None and self.number >= number:
                return  # this turn has found it, and finished it
            number = self.number + 1
            if self._log(number, changes, {**self.sources, **sources}):
                self.number = self._known = number
            self.sources |= sources  # of a write that changes nothing too: the next one that is logged has them

        self._until_done(log)
        return self.position()

    def pause(self, *, is_idle: bool) -> None:
        """Between writes: give way to those who wait, once the turn has lasted long enough or nothing is to be written.

        They find a log in which nothing waits. The producers of an idle process stay open, until others fence them.
        """
        if is_idle:
            self.turns.end()
        elif self.turns.is_over():
            try:
                self.take_in()
            finally:
                self.release()
                self.turns.end()

    def position(self) -> TablePosition:
        """What the log has of this process's writes, over the newest snapshot that it knows."""
        turn = self._mine()
        offsets = {bucket: at.offset for bucket, at in turn.state.logged.positions.items()}
        own = {bucket: one.end for bucket, one in turn.own.items()}
        return TablePosition(
            table_uuid=turn.table.uuid,
            branch=turn.table.branch,
            snapshot_id=turn.state.snapshot_id,
            topic_id=turn.target.topic_id,
            offsets=dict(sorted({**offsets, **own}.items())),
        )

    def take_in(self) -> Snapshot | None:
        """Make one snapshot of all writes that are in the log alone; None without any.

        Raises LostBatchesError where the log no longer has one of them, and like `begin`.
        """
        if not self.pending:
            return None
        table, target = self.opened() if self._turn is None else (self._turn.table, self._turn.target)
        logged = LoggedTable.of(table, target, observe=self.observe)
        if self._turn is None:
            logged.finish(self.pending)
        else:
            own = self._turn.own
            ports = replace(
                logged.ports,
                log_in=self._answers,
                behind=lambda: (
                    [bucket for bucket, one in own.items() if one.logged],
                    [header for one in own.values() for header, _ in one.logged],
                ),
            )
            try:
                finish(self.pending, ports)
            except _NotOwnError:
                self.release()
                logged.finish(self.pending)
        self._taken_in(logged.snapshots.newest())
        return table.snapshots.latest()

    def release(self) -> None:
        """Close the producers: the next write takes a turn."""
        turn, self._turn = self._turn, None
        if turn is not None:
            _close(one.producer for one in turn.own.values())

    def close(self) -> None:
        """Close the producers, and end the threads."""
        self.release()
        self.turns.end()
        self._threads.shutdown()

    def _until_done(self, work: Callable[[], None]) -> None:
        """Do the work in a turn, and again in another turn where its outcome is not known or others came between."""
        patience = Patience(60.0)
        for tries in range(_TRIES_MAX):
            try:
                if self._turn is None:
                    self.turns.begin()
                    self._turn = self._take_turn()
                    self.turns.began()
                    patience = Patience(self._turn.target.unavailable_seconds)
                work()
            except _AGAIN as error:
                self.release()
                if tries + 1 == _TRIES_MAX:
                    raise UnknownOutcomeError(
                        f"a write of {shown(self.user)} was interrupted {_TRIES_MAX} times by other writers: {error}. "
                        "If a bucket of it was logged the next writer finishes it; ask for the last identifier of its "
                        "source"
                    ) from error
                time.sleep(random.uniform(0, min(0.01 * 2**tries, _BACK_OFF_SECONDS_MAX)))
            except UnavailableError as error:
                self.release()
                patience.bear(error)
            except BaseException:
                self.release()
                raise
            else:
                self.turns.renew()
                return

    def _mine(self) -> _Turn:
        assert self._turn is not None, "there was a turn"
        return self._turn

    def _take_turn(self) -> _Turn:
        """Own every bucket; afterwards all that is in the logs is whole."""
        table, target = self.opened()
        log = TaskLog(table, target, BATCH_BYTES_MAX)
        numbers = range(table.bucket_count)
        self.observe(Step.FENCE, self.user, self.number + 1, None)
        producers = list(self._threads.map(partial(log.fence, patience=0), numbers))
        try:
            self.check_run()  # behind the fences: an older process can log nothing more
            state = TaskFiles(table, target).newest()
            found = list(self._threads.map(lambda bucket: _tail(_reader(table, target, bucket), state), numbers))
            names = unfinished(state, (header for logged in found for header, _ in logged))
            if not names:
                self._begin_on(state, table.name)
        except BaseException:
            _close(producers)
            raise
        if names:
            _close(producers)
            LoggedTable.of(table, target, observe=self.observe).finish(names)
            raise OvertakenError(f"what others had left in the log of table {table.name} is finished")
        own = {}
        for bucket, producer, logged in zip(numbers, producers, found, strict=True):
            start = state.logged.position(bucket).offset
            end = logged[-1][1] if logged else start
            own[bucket] = KeptProducer(producer=producer, start=start, end=end, logged=logged)
        return _Turn(table=table, target=target, state=state, own=own)

    def _begin_on(self, state: TableState, table_name: str) -> None:
        """Know the last write of the name. Raises LostBatchesError for less than this process has acknowledged."""
        last = state.users.get(self.user)
        self.number = -1 if last is None else last.identifier
        self.is_forgotten = last is None and state.forgotten_millis is not None
        if self.number < self._known:
            raise LostBatchesError(
                f"write {self._known} of {shown(self.user)} was acknowledged, and table {table_name} has its writes up "
                f"to {self.number}: its log or its folder is an older one. Nothing more is written"
            )
        self.sources = sources_of(last)
        self._taken_in(None)

    def _log(self, number: int, changes: StatementChanges, sources: Mapping[str, int]) -> bool:
        """Write the files of all buckets, then log each part. The header of each part names all of them.

        Returns False for a write that changes nothing, of which nothing is logged.
        """
        turn = self._mine()
        table, target, state, own = turn.table, turn.target, turn.state, turn.own
        parts: dict[int, PreparedBucket[EncodedRecords]] = {}
        staged: dict[int, StagedPart] = {}
        self.observe(Step.PREPARE, self.user, number, None)
        for bucket, rows in _by_bucket(table, changes):
            headers = tuple(header for header, _ in own[bucket].logged)
            base = PartBase(
                first_sequence=next_sequence(state, bucket, list(headers)),
                snapshot_id=state.snapshot_id,
                tail=headers,
            )
            part = TaskFiles(table, target).prepare(bucket, partial(encode_part, table, target, bucket, rows), base)
            if part.is_empty:
                continue
            files = part.files
            if table.schema.is_merged_at_write:
                files = _raw_files(table, bucket, rows, base.first_sequence)
            parts[bucket] = part
            staged[bucket] = StagedPart(offset=own[bucket].end, files=files, is_tracked=target.tracking.is_on)
        if not parts:
            return False
        headers_by = {
            bucket: CommitHeader(
                table_uuid=table.uuid,
                user=self.user,
                identifier=number,
                source_digest=digest_of_sources(sources),
                schema_id=table.schema.id,
                base_snapshot_id=state.snapshot_id,
                record_count=part.record_count,
                size_bytes=part.size_bytes,
                files=part.files,
                changelog=part.changelog,
                lineage=dict(table.lineage or {}),
                statement=write_name(self.user, number),
                mark=part.mark,
                parts=staged,
            )
            for bucket, part in parts.items()
        }
        producers = {bucket: own.pop(bucket) for bucket in parts}  # one with an unknown outcome is not used again
        try:
            for bucket, part in parts.items():  # records that the topic would refuse are refused before any is logged
                producers[bucket].producer.begin(part.payload, headers_by[bucket])
            log = partial(self._log_part, parts, headers_by, producers)
            found = dict(zip(parts, self._each(log, list(parts)), strict=True))
        except BaseException:
            _close(one.producer for one in producers.values())
            raise
        own |= found
        self.pending.append(write_name(self.user, number))
        sizes = [file.meta.file_size_bytes for part in parts.values() for file in part.files]
        self.file_count, self.size_bytes = self.file_count + len(sizes), self.size_bytes + sum(sizes)
        return True

    def _log_part(
        self,
        parts: Mapping[int, PreparedBucket[EncodedRecords]],
        headers: Mapping[int, CommitHeader],
        producers: Mapping[int, KeptProducer[EncodedRecords]],
        bucket: int,
    ) -> KeptProducer[EncodedRecords]:
        """Log one part, which is begun; returns its producer with what it has logged."""
        one, header = producers[bucket], headers[bucket]
        self.observe(Step.PRODUCE, self.user, header.identifier, bucket)
        one.producer.produce()
        one.producer.flush()
        check_young(bucket, parts[bucket].age_seconds())
        self.observe(Step.COMMIT, self.user, header.identifier, bucket)
        end = one.producer.commit()
        check_goes_up(_reader(self._mine().table, self._mine().target, bucket), one.end, end)
        self.observe(Step.AFTER_COMMIT, self.user, header.identifier, bucket)
        return replace(one, end=end, logged=(*one.logged, (header, end)))

    def _each(
        self, work: Callable[[int], KeptProducer[EncodedRecords]], buckets: Sequence[int]
    ) -> list[KeptProducer[EncodedRecords]]:
        """The result for each bucket. Raises the first error after all have ended."""
        if len(buckets) == 1:
            return [work(buckets[0])]
        begun = [self._threads.submit(work, bucket) for bucket in buckets]
        errors = [error for one in begun if (error := one.exception()) is not None]
        if errors:
            raise errors[0]
        return [one.result() for one in begun]

    def _answers(
        self, statements: Mapping[str, PreparedCommit], buckets: Iterable[int], own: str | None
    ) -> Sequence[BucketAnswer]:
        """What a snapshot takes in of each bucket, without a look at the log: this process has logged it itself.

        What others have logged behind it, after a fence, is not in it. Raises _NotOwnError where the snapshot is none
        that this process knows.
        """
        del statements, own
        turn = self._mine()
        state = TaskFiles(turn.table, turn.target).newest()
        log = TaskLog(turn.table, turn.target)
        answers = []
        for bucket in buckets:
            kept = turn.own.get(bucket)
            base = state.logged.position(bucket)
            known = None if kept is None else kept.since(base.offset)
            if known is None:
                raise _NotOwnError
            if known.logged and not log.holds(bucket, known.logged):
                first, end = known.logged[0]
                raise lost(first.user, bucket, first.identifier, end)
            answers.append(
                BucketAnswer(
                    bucket=bucket,
                    base=base.offset,
                    end=known.end,
                    leader_epoch=None,
                    transactions=tuple(header for header, _ in known.logged),
                    has_fenced=False,
                    ends=tuple(end for _, end in known.logged),
                )
            )
        return answers

    def _taken_in(self, state: TableState | None) -> None:
        """A snapshot has all writes; producers that others have fenced meanwhile are closed."""
        self.pending.clear()
        self.file_count = self.size_bytes = 0
        turn = self._turn
        if state is None or turn is None:
            return
        kept = {}
        for bucket, one in turn.own.items():
            start = state.logged.position(bucket).offset
            known = one.since(start)
            if known is None:
                self.release()
                return
            kept[bucket] = replace(one, start=start, logged=known.logged)
        self._turn = replace(turn, state=state, own=kept)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Turn:
    """What this process has: the producer of every bucket, and all that the log has behind a snapshot."""

    table: TableStore
    target: LogTarget
    state: TableState
    own: dict[int, KeptProducer[EncodedRecords]]


class _NotOwnError(Exception):
    """Another process has made a snapshot that this one does not know."""


_AGAIN = (
    FencedError,
    UnknownOutcomeError,
    TransactionTimeoutError,
    StalledError,
    OldFilesError,
    OvertakenError,
    CancelledError,
    BucketConflictError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    """One bucket of the log, for the checks of its tail."""

    table_uuid: str
    bucket: int
    log: TaskLog
    files: TaskFiles


def _reader(table: TableStore, target: LogTarget, bucket: int) -> _Bucket:
    return _Bucket(table_uuid=table.uuid, bucket=bucket, log=TaskLog(table, target), files=TaskFiles(table, target))


def _tail(reader: _Bucket, state: TableState) -> tuple[tuple[CommitHeader, int], ...]:
    return tuple((one.header, one.end_offset) for one in checked_tail(reader, state).transactions)


def _close(producers: Iterable[Producer[EncodedRecords]]) -> None:
    for one in producers:
        one.close()


def _by_bucket(table: TableStore, changes: StatementChanges) -> list[tuple[int, ChangeRows]]:
    """The rows of each bucket, in arrival order."""
    schema = table.schema
    if table.bucket_count == 1:
        return [(0, ChangeRows(rows=changes.rows, kinds=changes.kinds))] if changes.rows.num_rows else []
    buckets = bucket_of(changes.rows, schema.bucket_fields, table.bucket_count, schema.bucket_function)
    found = []
    for bucket in np.unique(buckets).tolist():
        places = pa.array(np.flatnonzero(buckets == bucket))
        found.append((bucket, ChangeRows(rows=changes.rows.take(places), kinds=changes.kinds.take(places))))
    return found


def _raw_files(table: TableStore, bucket: int, rows: ChangeRows, first_sequence: int) -> tuple[BucketFile, ...]:
    """Files with the changes as they were given: from merged rows the part could not be made again."""
    files: dict[int, list[BucketFile]] = {}
    names = FileNames()
    for part in split_rows(table, rows.rows, rows.kinds):
        write_staged(table, part.bucket_id, every_row(table, part), first_sequence, names, files, [])
    return tuple(files.get(bucket, ()))
