"""The part of a write that runs in Spark's Python workers.

A task gets rows as Arrow batches, writes what they say, and gives back one message for the driver. An error of ours
comes back in the message, so that the driver raises it as it was; any other error fails the task.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
from pyspark import TaskContext

from lakelog.common.errors import InvalidRequestError, LakelogError
from lakelog.common.types import ROW_KIND_COLUMN
from lakelog.filestore.store import TableStore
from lakelog.filestore.validate import validate_rows
from lakelog.filestore.write import write_rows
from lakelog.logstore.debezium import EncodedRecords
from lakelog.protocol.header import BucketFile
from lakelog.protocol.kept import KeptProducers
from lakelog.protocol.state import Batch
from lakelog.protocol.steps import process_observer
from lakelog.protocol.stores import ChangeRows, LogTarget, TaskFiles, TaskLog
from lakelog.protocol.task import BucketAnswer, BucketTask, write_bucket
from lakelog.spark.worker import spare_modules_from_collection

BUCKET_COLUMN = "_lakelog_bucket"
ORDER_COLUMN = "_lakelog_order"
SORT_PREFIX = "_lakelog_sort_"
MESSAGE_COLUMN = "message"
MESSAGE_SCHEMA = pa.schema([pa.field(MESSAGE_COLUMN, pa.binary())])

SEQUENCES_PER_TASK = 1 << 26
FLUSH_BYTES = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMessage:
    """What a task tells the driver. `answers` are of buckets with a log, `files` of a table without one."""

    answers: tuple[BucketAnswer, ...] = ()
    files: tuple[tuple[int, BucketFile], ...] = ()
    row_count: int = 0
    error: LakelogError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedWrite:
    """What a task needs to write its buckets, those with `bucket % task_count` == its number, to log and files."""

    table: TableStore
    target: LogTarget
    batch: Batch
    task_count: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The body of mapInArrow."""
        yield _to_batch(_answered(lambda: self.write(_all_rows(batches), _task_number())))

    def write(self, rows: pa.Table | None, task_number: int) -> TaskMessage:
        """Write the rows of all buckets side by side. Raises what the protocol raises."""
        if rows is None:
            return TaskMessage()
        parts = split_by_bucket(rows)
        check_owned(parts, self.task_count, task_number, self.table.name)
        changes = {bucket: self._changes(part) for bucket, part in parts.items()}
        return TaskMessage(answers=tuple(write_buckets(self, changes)), row_count=rows.num_rows)

    def _changes(self, part: pa.Table) -> ChangeRows:
        kinds = part.column(ROW_KIND_COLUMN) if ROW_KIND_COLUMN in part.column_names else None
        columns = part.select(self.table.schema.field_names)
        rows = validate_rows(self.table.schema, columns, table_name=self.table.name)
        return ChangeRows(rows=rows, kinds=None if kinds is None else kinds.combine_chunks())


def write_buckets(write: LoggedWrite, changes: Mapping[int, ChangeRows | None]) -> list[BucketAnswer]:
    """Write each bucket, or only visit it where there are no rows, in a thread of its own.

    Raises the first error after all have ended.
    """
    tasks = [
        BucketTask(
            table_uuid=write.table.uuid,
            schema_id=write.table.schema.id,
            batch=write.batch,
            bucket=bucket,
            rows=rows,
            log=TaskLog(write.table.uuid, write.target),
            files=TaskFiles(write.table, write.target),
            kept=kept_producers(write.table.uuid, write.target.topic_id),
            observe=process_observer(),
        )
        for bucket, rows in changes.items()
    ]
    if len(tasks) == 1:
        return [write_bucket(tasks[0])]
    with ThreadPoolExecutor(len(tasks) or 1, thread_name_prefix="lakelog-bucket") as pool:
        return list(pool.map(write_bucket, tasks))


@cache
def kept_producers(table_uuid: str, topic_id: str) -> KeptProducers[EncodedRecords]:
    """The producers that this process keeps for a table's log."""
    del table_uuid, topic_id
    return KeptProducers()


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesWrite:
    """What a task needs to write level-0 files of a table without a log.

    Each task has a range of sequence numbers of its own, in the order of the tasks: no shuffle is needed.
    """

    table: TableStore
    first_sequence: int
    flush_bytes: int = FLUSH_BYTES

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The body of mapInArrow."""
        yield _to_batch(_answered(lambda: self.write(batches, _task_number())))

    def write(self, batches: Iterable[pa.RecordBatch], task_number: int) -> TaskMessage:
        """Write the rows, `flush_bytes` at a time."""
        sequence = self.first_sequence + task_number * SEQUENCES_PER_TASK
        row_count = 0
        files: list[tuple[int, BucketFile]] = []
        for rows in _pieces(batches, self.flush_bytes):
            if row_count + rows.num_rows > SEQUENCES_PER_TASK:
                raise InvalidRequestError(
                    f"table {self.table.name}: a task has more than {SEQUENCES_PER_TASK:,} rows; repartition the rows"
                )
            ordered = in_order(rows)
            kinds = (
                ordered.column(ROW_KIND_COLUMN).combine_chunks() if ROW_KIND_COLUMN in ordered.column_names else None
            )
            columns = ordered.select(self.table.schema.field_names)
            entries = write_rows(self.table, columns, kinds, first_sequence=_always(sequence + row_count))
            files.extend((one.bucket, BucketFile(partition=one.partition, meta=one.file)) for one in entries)
            row_count += rows.num_rows
        return TaskMessage(files=tuple(files), row_count=row_count)


def _always(sequence: int) -> Callable[[bytes, int], int]:
    return lambda _partition, _bucket: sequence


def split_by_bucket(rows: pa.Table) -> dict[int, pa.Table]:
    """The rows of each bucket, in their order; the columns that brought bucket and order are left out."""
    ordered = in_order(rows)
    buckets: npt.NDArray[np.int32] = ordered.column(BUCKET_COLUMN).to_numpy()
    columns = ordered.select([name for name in ordered.column_names if name != BUCKET_COLUMN])
    grouping = np.argsort(buckets, kind="stable")
    numbers, starts = np.unique(buckets[grouping], return_index=True)
    if len(numbers) == 1:
        return {int(numbers[0]): columns}
    ends = [*starts[1:], len(buckets)]
    return {
        int(bucket): columns.take(pa.array(grouping[start:end]))
        for bucket, start, end in zip(numbers, starts, ends, strict=True)
    }


def in_order(rows: pa.Table) -> pa.Table:
    """The rows in the order of the user's columns, then of their places in the batch; without these columns."""
    sort_columns = [name for name in rows.column_names if name.startswith(SORT_PREFIX)]
    order_columns = [*sort_columns, *(name for name in [ORDER_COLUMN] if name in rows.column_names)]
    columns = rows.select([name for name in rows.column_names if name not in order_columns])
    if not order_columns:
        return columns
    if not sort_columns:
        places: npt.NDArray[np.int64] = rows.column(ORDER_COLUMN).to_numpy()
        if np.all(places[1:] >= places[:-1]):
            return columns
        return columns.take(pa.array(np.argsort(places, kind="stable")))
    keys = pl.from_arrow(rows.select(order_columns))
    assert isinstance(keys, pl.DataFrame)
    places_in_order = keys.select(pl.arg_sort_by(order_columns, nulls_last=False)).to_series()
    return columns.take(places_in_order.to_arrow())


def check_owned(buckets: Iterable[int], task_count: int, task_number: int, table_name: str) -> None:
    """Raise InvalidRequestError for a bucket that another task writes: two owners would fence each other for ever."""
    for bucket in buckets:
        if bucket % task_count != task_number:
            raise InvalidRequestError(
                f"task {task_number} of {task_count} was given rows of bucket {bucket} of table {table_name}, which "
                f"belongs to task {bucket % task_count}: rows of a table with a log must come through "
                "lakelog.spark.write_stream or LakelogSink, which bring each bucket to one task"
            )


def parse_messages(messages: Iterable[bytes | bytearray]) -> list[TaskMessage]:
    """What the tasks answered. Raises the first error that one of them met."""
    parsed = [pickle.loads(message) for message in messages]
    for message in parsed:
        if message.error is not None:
            raise message.error
    return parsed


def _answered(write: Callable[[], TaskMessage]) -> TaskMessage:
    spare_modules_from_collection()
    try:
        return write()
    except LakelogError as error:
        return TaskMessage(error=error)


def _to_batch(message: TaskMessage) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([pickle.dumps(message)], pa.binary())], schema=MESSAGE_SCHEMA)


def _all_rows(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    held = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(held) if held else None


def _pieces(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= size_bytes:
            yield pa.Table.from_batches(held)
            held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _task_number() -> int:
    context = TaskContext.get()
    assert context is not None, "a write task runs in a Spark worker"
    return context.partitionId()
