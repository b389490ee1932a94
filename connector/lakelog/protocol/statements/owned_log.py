"""The log of a table, owned by one process: it has the producer of each bucket, and knows what is in the log.

Whoever else logs in a bucket fences its producer first. Source: docs/rfcs/0051-writers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from lakelog.filestore.metadata.tables import TableStore
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.protocol.state.header import CommitHeader
from lakelog.protocol.state.ports import PreparedBucket, Producer
from lakelog.protocol.state.prepared import PreparedCommit
from lakelog.protocol.state.state import TableState
from lakelog.protocol.state.steps import Step, StepObserver
from lakelog.protocol.state.table_position import TablePosition
from lakelog.protocol.statements.statement_runs import LoggedTable
from lakelog.protocol.statements.statements import finish
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.task_stores import TaskFiles, TaskLog
from lakelog.protocol.writing.attempts import BucketAnswer, OvertakenError, check_young
from lakelog.protocol.writing.kept_producers import KeptProducer
from lakelog.protocol.writing.lost_batches import lost
from lakelog.protocol.writing.tail_checks import check_goes_up, checked_tail, unfinished

Part = tuple[PreparedBucket[EncodedRecords], CommitHeader]


class NotOwnError(Exception):
    """Another process has made a snapshot that this one does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedLog:
    """The producer of every bucket, and all that the log has behind the snapshot of `state`."""

    table: TableStore
    target: LogTarget
    state: TableState
    buckets: dict[int, KeptProducer[EncodedRecords]]
    threads: ThreadPoolExecutor
    observe: StepObserver

    @classmethod
    def taken(
        cls,
        table: TableStore,
        target: LogTarget,
        *,
        check_run: Callable[[], None],
        threads: ThreadPoolExecutor,
        observe: StepObserver,
        size_bytes: int,
    ) -> OwnedLog:
        """Fence every bucket; then ask by `check_run` whether this process still has its name, and look.

        Transactions may have `size_bytes` of rows. Raises OvertakenError once it has finished what others had left,
        and what `check_run` raises.
        """
        log, numbers = TaskLog(table, target, size_bytes), range(table.bucket_count)
        producers = list(threads.map(partial(log.fence, patience=0), numbers))
        try:
            check_run()  # behind the fences: an older process can log nothing more
            state = TaskFiles(table, target).newest()
            found = list(threads.map(lambda bucket: _tail(_reader(table, target, bucket), state), numbers))
        except BaseException:
            _close(producers)
            raise
        names = unfinished(state, (header for logged in found for header, _ in logged))
        if names:
            _close(producers)
            LoggedTable.of(table, target, observe=observe).finish(names)
            raise OvertakenError(f"what others had left in the log of table {table.name} is finished")
        buckets = {}
        for bucket, producer, logged in zip(numbers, producers, found, strict=True):
            start = state.logged.position(bucket).offset
            end = logged[-1][1] if logged else start
            buckets[bucket] = KeptProducer(producer=producer, start=start, end=end, logged=logged)
        return cls(table=table, target=target, state=state, buckets=buckets, threads=threads, observe=observe)

    def close(self) -> None:
        """Close the producers."""
        _close(one.producer for one in self.buckets.values())

    def position(self) -> TablePosition:
        """What the log has, as far as this process knows it."""
        offsets = {bucket: at.offset for bucket, at in self.state.logged.positions.items()}
        own = {bucket: one.end for bucket, one in self.buckets.items()}
        return TablePosition(
            table_uuid=self.table.uuid,
            branch=self.table.branch,
            snapshot_id=self.state.snapshot_id,
            topic_id=self.target.topic_id,
            offsets=dict(sorted({**offsets, **own}.items())),
        )

    def log(self, parts: Mapping[int, Part]) -> None:
        """Log parts, each in a transaction of its bucket; returns once all are there. Any error ends the ownership."""
        own = {bucket: self.buckets.pop(bucket) for bucket in parts}  # with an unknown outcome it is not used again
        try:
            for bucket, (part, header) in parts.items():  # what the topic would refuse is refused before any is logged
                own[bucket].producer.begin(part.payload, header)
            found = self._each(lambda bucket: self._log_part(own[bucket], bucket, parts[bucket]), list(parts))
        except BaseException:
            _close(one.producer for one in own.values())
            raise
        self.buckets.update(zip(parts, found, strict=True))

    def take_in(self, names: Sequence[str]) -> None:
        """Make the snapshot of writes. Raises NotOwnError, LostBatchesError, and like `finish`."""
        ports = replace(
            LoggedTable.of(self.table, self.target, observe=self.observe).ports,
            log_in=self._answers,
            behind=lambda: (
                [bucket for bucket, one in self.buckets.items() if one.logged],
                [header for one in self.buckets.values() for header, _ in one.logged],
            ),
        )
        finish(names, ports)

    def behind(self, state: TableState) -> OwnedLog | None:
        """The same behind a newer snapshot; None for one that holds what this process does not know."""
        buckets = {}
        for bucket, one in self.buckets.items():
            start = state.logged.position(bucket).offset
            known = one.since(start)
            if known is None:
                return None
            buckets[bucket] = replace(one, start=start, logged=known.logged)
        return replace(self, state=state, buckets=buckets)

    def _log_part(self, one: KeptProducer[EncodedRecords], bucket: int, part: Part) -> KeptProducer[EncodedRecords]:
        """Log one part, which is begun; returns its producer with what it has logged."""
        prepared, header = part
        self.observe(Step.PRODUCE, header.user, header.identifier, bucket)
        one.producer.produce()
        one.producer.flush()
        check_young(bucket, prepared.age_seconds())
        self.observe(Step.COMMIT, header.user, header.identifier, bucket)
        end = one.producer.commit()
        check_goes_up(_reader(self.table, self.target, bucket), one.end, end)
        self.observe(Step.AFTER_COMMIT, header.user, header.identifier, bucket)
        return replace(one, end=end, logged=(*one.logged, (header, end)))

    def _each(
        self, work: Callable[[int], KeptProducer[EncodedRecords]], buckets: Sequence[int]
    ) -> list[KeptProducer[EncodedRecords]]:
        """The result for each bucket. Raises the first error after all have ended."""
        if len(buckets) == 1:
            return [work(buckets[0])]
        begun = [self.threads.submit(work, bucket) for bucket in buckets]
        errors = [error for one in begun if (error := one.exception()) is not None]
        if errors:
            raise errors[0]
        return [one.result() for one in begun]

    def _answers(
        self, statements: Mapping[str, PreparedCommit], buckets: Iterable[int], own: str | None
    ) -> Sequence[BucketAnswer]:
        """What a snapshot takes in of each bucket, without a fence: this process has logged it itself, or looked.

        What others have logged behind it, after a fence, is not in it.
        """
        del statements, own
        state, log = TaskFiles(self.table, self.target).newest(), TaskLog(self.table, self.target)
        answers = []
        for bucket in buckets:
            base = state.logged.position(bucket).offset
            kept = self.buckets.get(bucket)
            known = None if kept is None else kept.since(base)
            if known is None:
                raise NotOwnError
            if known.logged and not log.holds(bucket, known.logged):
                first, end = known.logged[0]
                raise lost(first.user, bucket, first.identifier, end)
            answer = BucketAnswer(
                bucket=bucket,
                base=base,
                end=known.end,
                leader_epoch=None,
                transactions=tuple(header for header, _ in known.logged),
                has_fenced=False,
                ends=tuple(end for _, end in known.logged),
            )
            answers.append(answer)
        return answers


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
