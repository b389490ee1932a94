"""The part of a write that runs in Spark's Python workers.

A task gets rows as Arrow batches, writes their changes, and returns one message for the driver. An error of the rows is
returned in the message, any other error fails the task, see `lakelog.spark.failures`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark import TaskContext

from lakelog.common.errors import LakelogError
from lakelog.common.patience import Patience
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.index import HashIndex, HashIndexChange
from lakelog.filestore.metadata.manifests import ManifestEntry
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.write import (
    AssignRules,
    BucketAssigner,
    places_of_columns,
    split_kinds,
    with_kind_numbers,
    write_batches,
)
from lakelog.logstore.codec.encoded_records import EncodedRecords
from lakelog.protocol.state import Batch, BucketFile, process_observer
from lakelog.protocol.stores import ChangeRows, Encoded, LogTarget, TaskFiles, TaskLog, encode_bucket, encode_part
from lakelog.protocol.writing import (
    FENCINGS_MAX,
    BucketAnswer,
    BucketTask,
    EventualTask,
    KeptProducers,
    ProducerPool,
    ReportedTail,
    TopicOfRecords,
    WriterLease,
    write_bucket,
    write_eventually,
)
from lakelog.spark.failures import ANSWERED
from lakelog.spark.session import CASE_CONF
from lakelog.spark.sink.exchange import check_owned, received
from lakelog.spark.worker import MESSAGE_SCHEMA, attempt_number, spare_modules_from_collection, task_number

SEQUENCES_PER_TASK = 1 << 26
_POOL = ProducerPool[EncodedRecords]()  # of this process


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMessage:
    """What a task reports to the driver: `answers` for buckets with a log, files for a table without one.

    `is_repeated` says that an earlier attempt of the task has failed.
    """

    answers: tuple[BucketAnswer, ...] = ()
    files: tuple[tuple[int, BucketFile], ...] = ()
    changelog: tuple[tuple[int, BucketFile], ...] = ()
    hashes: HashIndexChange | None = None
    row_count: int = 0
    error: LakelogError | None = None
    is_repeated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedWrite:
    """What a task needs to write its buckets, those whose `bucket % task_count` is its number, to log and files.

    `lease` is that of the only writer of an eventual log; None for a transactional log. `reported` has, for each bucket
    with batches that wait for their snapshot, what the driver knows of them.
    """

    table: TableStore
    target: LogTarget
    batch: Batch
    task_count: int
    lease: WriterLease | None = None
    reported: Mapping[int, ReportedTail] = field(default_factory=dict)
    fencings_max: int = FENCINGS_MAX

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The body of mapInArrow after the exchange."""
        message = answered(lambda: self.write(received(batches), task_number()))
        yield _to_batch(replace(message, is_repeated=attempt_number() > 0))

    def write(self, rows: Mapping[int, pa.Table], task: int) -> TaskMessage:
        """Write the rows of each bucket. Raises what the protocol raises."""
        check_owned(rows, self.task_count, task, self.table.name)
        changes = {bucket: _changes(part) for bucket, part in rows.items()}
        return TaskMessage(
            answers=tuple(write_buckets(self, changes)), row_count=sum(part.num_rows for part in rows.values())
        )


def rows_of_task(
    batches: Iterable[pa.RecordBatch], table: TableStore, context: TaskContext
) -> Iterator[pa.RecordBatch]:
    """The rows that Spark plans for one task of a write by `format("lakelog")`, with numbers for their kinds.

    Raises InvalidRequestError, where the session minds the case of names, for a column with the table's in another one.
    """
    is_case_sensitive = context.getLocalProperty(CASE_CONF) == "true"
    for batch in map(with_kind_numbers, batches):
        if is_case_sensitive:
            names = [name for name in batch.schema.names if name != ROW_KIND_COLUMN]
            places_of_columns(table.schema, names, table_name=table.name, is_case_sensitive=True)
        yield batch


def _changes(part: pa.Table) -> ChangeRows:
    rows, kinds = split_kinds(part)
    return ChangeRows(rows=rows, kinds=kinds)


def write_buckets(write: LoggedWrite, changes: Mapping[int, ChangeRows | None]) -> list[BucketAnswer]:
    """Write each bucket, or only visit it if there are no rows, each in its own thread.

    One more thread encodes the records, bucket after bucket, while the others wait for the broker; records that depend
    on what the bucket has are not encoded ahead. Raises the first error after all threads have ended.
    """
    if not changes:
        return []
    with (
        ThreadPoolExecutor(1, thread_name_prefix="lakelog-encode") as encoder,
        ThreadPoolExecutor(len(changes), thread_name_prefix="lakelog-bucket") as pool,
    ):
        encoded = {
            bucket: None if rows is None else _encoding(write, bucket, rows, encoder)
            for bucket, rows in changes.items()
        }
        size_bytes = sum(rows.rows.nbytes for rows in changes.values() if rows is not None)
        if write.lease is not None:
            return list(pool.map(write_eventually, _eventual_tasks(write, write.lease, encoded)))
        return list(pool.map(write_bucket, _bucket_tasks(write, encoded, size_bytes)))


def _encoding(write: LoggedWrite, bucket: int, rows: ChangeRows, encoder: ThreadPoolExecutor) -> Encoded:
    """The encoding of a bucket's part: already running, unless it needs what the bucket has."""
    encode: Encoded = partial(encode_part, write.table, write.target, bucket, rows)
    if write.table.schema.looks_up_old_rows:
        return encode
    under_way = encoder.submit(encode_bucket, write.table, write.target, bucket, rows)
    return lambda base: encode(base) if base.written else under_way.result()


def _bucket_tasks(
    write: LoggedWrite, encoded: Mapping[int, Encoded | None], size_bytes: int
) -> list[BucketTask[Encoded, EncodedRecords]]:
    return [
        BucketTask(
            table_uuid=write.table.uuid,
            schema_id=write.table.schema.id,
            batch=write.batch,
            bucket=bucket,
            rows=rows,
            log=TaskLog(write.table, write.target, size_bytes),
            files=TaskFiles(write.table, write.target),
            kept=KeptProducers(_POOL, write.table.uuid, write.target.topic_id),
            observe=process_observer(),
            patience=Patience(write.target.unavailable_seconds),
            reported=write.reported.get(bucket),
            fencings_max=write.fencings_max,
        )
        for bucket, rows in encoded.items()
    ]


def _eventual_tasks(
    write: LoggedWrite, lease: WriterLease, encoded: Mapping[int, Encoded | None]
) -> list[EventualTask[Encoded, EncodedRecords]]:
    return [
        EventualTask(
            table_uuid=write.table.uuid,
            schema_id=write.table.schema.id,
            batch=write.batch,
            bucket=bucket,
            rows=rows,
            log=TopicOfRecords(write.target.topic),
            files=TaskFiles(write.table, write.target),
            check_lease=lease.check,
            observe=process_observer(),
            patience=Patience(write.target.unavailable_seconds),
        )
        for bucket, rows in encoded.items()
        if rows is not None
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesWrite:
    """What a task needs to write level-0 files of a table without a log.

    Each task has its own range of sequence numbers, in the order of the tasks. No shuffle is needed, unless the user's
    columns give the order of the rows or buckets are dynamic (`is_exchanged`). Dynamic buckets are chosen by `index`,
    the HASH index of the snapshot that is written on, and `rules`; None for a table without them.
    """

    table: TableStore
    first_sequence: int
    is_exchanged: bool = False
    is_overwrite: bool = False
    index: HashIndex | None = None
    rules: AssignRules | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The body of mapInArrow."""
        yield _to_batch(answered(lambda: self.write(self._in_order(batches), task_number())))

    def _in_order(self, batches: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        if self.is_exchanged:
            return (batch for part in received(batches).values() for batch in part.to_batches())
        return batches

    def write(self, batches: Iterable[pa.RecordBatch], task: int) -> TaskMessage:
        """Write the rows, a write buffer at a time."""
        assigner = None if self.index is None else BucketAssigner(self.table, self.index, rules=self.rules)
        written, row_count = write_batches(
            self.table,
            batches,
            first_sequence=self.first_sequence + task * SEQUENCES_PER_TASK,
            assigner=assigner,
            is_overwrite=self.is_overwrite,
            rows_max=SEQUENCES_PER_TASK,
        )
        return TaskMessage(
            files=tuple(_bucket_files(written.entries)),
            changelog=tuple(_bucket_files(written.changelog)),
            hashes=None if assigner is None else assigner.write_index(),
            row_count=row_count,
        )


def _bucket_files(entries: Iterable[ManifestEntry]) -> Iterator[tuple[int, BucketFile]]:
    return ((entry.bucket, BucketFile(partition=entry.partition, meta=entry.file)) for entry in entries)


def parse_messages(messages: Iterable[bytes | bytearray]) -> list[TaskMessage]:
    """The answers of the tasks. Raises the first error that one of them found in its rows."""
    parsed = [pickle.loads(message) for message in messages]
    for message in parsed:
        if message.error is not None:
            raise message.error
    return parsed


def answered(write: Callable[[], TaskMessage]) -> TaskMessage:
    """The result of `write`, or a message with an error of the rows. Raises every other error."""
    spare_modules_from_collection()
    try:
        return write()
    except ANSWERED as error:
        return TaskMessage(error=error)


def _to_batch(message: TaskMessage) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(message)], pa.binary())], schema=MESSAGE_SCHEMA)
