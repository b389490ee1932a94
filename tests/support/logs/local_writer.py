"""A writer in one process over the real stores: what the Spark sink does with a micro-batch, without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakSet

import pyarrow as pa

from lakelog.catalog import Table
from lakelog.common.clock import Stopwatch, system_millis
from lakelog.common.patience import Patience
from lakelog.filestore.encoding.bucket import bucket_of
from lakelog.filestore.write.validate import validate_rows
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.change_tracking import ChangeTracking
from lakelog.protocol.state.state import Batch
from lakelog.protocol.state.steps import StepObserver, silent
from lakelog.protocol.statements.other_writers import newest_and_others
from lakelog.protocol.statements.statement_runs import LoggedTable
from lakelog.protocol.statements.statements import unfinished_in
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots
from lakelog.protocol.stores.encoded_parts import ChangeRows, Encoded, encode_part
from lakelog.protocol.stores.log_target import LogTarget
from lakelog.protocol.stores.task_stores import TaskFiles, TaskLog
from lakelog.protocol.writing.attempts import BucketAnswer
from lakelog.protocol.writing.driver import BucketConflictError, Verdict, check_identity, commit_batch
from lakelog.protocol.writing.eventual import TopicOfRecords
from lakelog.protocol.writing.eventual_task import EventualTask, write_eventually
from lakelog.protocol.writing.interval import IntervalSnapshots
from lakelog.protocol.writing.kept_producers import KeptProducers, ProducerPool
from lakelog.protocol.writing.logged_batches import acknowledge, check_before_first, take_in
from lakelog.protocol.writing.task import BucketTask, write_bucket
from lakelog.protocol.writing.writer_lease import WriterLease, take_lease
from tests.support.logs.log_records import log_of_table


def log_target(table: Table, *, is_tracked: bool | None = None) -> LogTarget:
    """Where the table's log is; its option says which changes are logged, unless `is_tracked` does."""
    assert table.log is not None
    log = table.log
    return LogTarget(
        topic=kafka_topic(log),
        topic_id=log.topic_id,
        mode=log.mode,
        unavailable_seconds=log.unavailable_seconds,
        tracking=ChangeTracking.of(table.schema.options, given=is_tracked),
    )


_POOLS: WeakSet[ProducerPool[EncodedRecords]] = WeakSet()


def _kept_until_the_test_ends() -> KeptProducers[EncodedRecords]:
    pool = ProducerPool[EncodedRecords]()
    _POOLS.add(pool)
    return KeptProducers(pool=pool)


def close_kept_producers() -> None:
    """Close what writers of tests that have ended keep open.

    A client that was fenced leaks its traceback (confluent-kafka 2.16), with the writer in it: of hundreds of open
    clients a process has over 1,024 files, behind which py4j no longer answers a stream of Spark.
    """
    for pool in list(_POOLS):
        with pool._lock:
            kept = list(pool._producers.values())
            pool._producers.clear()
        for one in kept:
            one.producer.close()


@dataclass(slots=True)
class LocalWriter:
    """One writing process; `observe` is called with each step and may raise to die there."""

    table: Table
    user: str
    observe: StepObserver = silent
    lineage: Mapping[str, object] = field(default_factory=dict)  # of the batch, in its header
    is_first: bool = True
    is_tracked: bool | None = None
    kept: KeptProducers[EncodedRecords] = field(default_factory=_kept_until_the_test_ends)
    lease: WriterLease | None = None
    by_interval: IntervalSnapshots = field(default_factory=lambda: IntervalSnapshots.of({}, millis=600_000))

    def write(self, identifier: int, rows: pa.Table, kinds: pa.Array | None) -> Verdict:
        """Write a batch; a replay of the last one changes nothing."""
        batch = Batch(user=self.user, identifier=identifier, source_digest=str(identifier), lineage=dict(self.lineage))
        snapshots = DriverSnapshots(self.table.store, log_target(self.table).topic_id)
        verdict = check_identity(snapshots.newest(), batch)
        logged = LoggedTable.of(self.table.store, log_target(self.table), observe=self.observe)
        while verdict is Verdict.NEW:
            logged.finish_left_over()
            tasks = self._tasks(batch, rows, kinds)
            answers = (
                self._sent(tasks) if log_of_table(self.table).is_eventual else [write_bucket(one) for one in tasks]
            )
            met = unfinished_in(answers)
            if met:
                logged.finish(met)
                continue
            try:
                commit_batch(batch, answers, snapshots=snapshots, observe=self.observe, clock=system_millis)
            except BucketConflictError:
                continue
            break
        self.is_first = False
        return verdict

    def log(self, identifier: int, rows: pa.Table, kinds: pa.Array | None = None) -> None:
        """Write a batch that waits for its snapshot, as the sink does with `snapshot.interval`."""
        batch = Batch(user=self.user, identifier=identifier, source_digest=str(identifier), lineage=dict(self.lineage))
        store, target, pending = self.table.store, log_target(self.table), self.by_interval.pending
        snapshots = DriverSnapshots(store, target.topic_id)
        while True:
            state, others = newest_and_others(snapshots)
            if check_identity(state, batch) is not Verdict.NEW:
                break
            logged = partial(LoggedTable.of, store, target, observe=self.observe)
            if others.have_left:
                logged().finish_left_over()
            self.is_first = pending.is_blind
            left, lasted = None, Stopwatch()
            if self.is_first:
                left = check_before_first(store, target, batch, snapshots.newest(), snapshots=snapshots)
            answers = [write_bucket(one) for one in self._tasks(batch, rows, kinds)]
            met = unfinished_in(answers)
            if met:
                pending.forget()
                logged().finish(met)
                continue
            acknowledge(self.by_interval, store, target, batch, answers, snapshots=snapshots, lasted=lasted, left=left)
            break

    def take_in(self) -> None:
        """Make the snapshot of what waits for it; where another writer came between, a later batch does it."""
        target = log_target(self.table)
        if self.by_interval.pending:
            with suppress(BucketConflictError):
                take_in(
                    self.by_interval,
                    self.table.store,
                    target,
                    snapshots=DriverSnapshots(self.table.store, target.topic_id),
                )

    def _sent(self, tasks: list[BucketTask[Encoded, EncodedRecords]]) -> list[BucketAnswer]:
        """Write the rows of tasks to an eventual log, under the lease of this process."""
        store, target = self.table.store, log_target(self.table)
        if self.lease is None:
            self.lease = take_lease(store, user=self.user, run=str(uuid.uuid4()))
        self.lease.renew()
        return [
            write_eventually(
                EventualTask(
                    table_uuid=task.table_uuid,
                    schema_id=task.schema_id,
                    batch=task.batch,
                    bucket=task.bucket,
                    rows=task.rows,
                    log=TopicOfRecords(target.topic),
                    files=task.files,
                    check_lease=self.lease.check,
                    observe=self.observe,
                    patience=task.patience,
                )
            )
            for task in tasks
            if task.rows is not None
        ]

    def _tasks(self, batch: Batch, rows: pa.Table, kinds: pa.Array | None) -> list[BucketTask[Encoded, EncodedRecords]]:
        store, target = self.table.store, log_target(self.table, is_tracked=self.is_tracked)
        schema = store.schema
        rows = validate_rows(schema, rows, table_name=store.name)
        buckets = bucket_of(rows, schema.bucket_fields, store.bucket_count, schema.bucket_function)
        reported = self.by_interval.pending.reported(with_headers=schema.looks_up_old_rows)
        tasks = []
        for bucket in range(store.bucket_count):
            is_mine = pa.array(buckets == bucket)
            mine = rows.filter(is_mine)
            changes = ChangeRows(rows=mine, kinds=None if kinds is None else kinds.filter(is_mine))
            encode: Encoded = partial(encode_part, store, target, bucket, changes)
            if mine.num_rows or self.is_first:
                tasks.append(
                    BucketTask(
                        table_uuid=store.uuid,
                        schema_id=schema.id,
                        batch=batch,
                        bucket=bucket,
                        rows=encode if mine.num_rows else None,
                        log=TaskLog(store, target),
                        files=TaskFiles(store, target),
                        kept=self.kept,
                        observe=self.observe,
                        patience=Patience(target.unavailable_seconds),
                        reported=reported.get(bucket),
                    )
                )
        return tasks
