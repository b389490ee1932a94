"""How the units of a compaction are run: in threads of this process, or in Spark's tasks, which merge a bucket each.

The driver gets the names of the files.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import SparkSession

from lakelog.common.errors import LakelogError, UnavailableError
from lakelog.common.quoting import cut
from lakelog.common.threads import in_threads
from lakelog.filestore.compact import BucketWork, CompactResult, compact_bucket
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.options import READ_MEMORY_BUDGET
from lakelog.spark.session import task_attempts_max
from lakelog.spark.worker import MESSAGE_SCHEMA, MESSAGE_TYPE, attempt_number

THREADS_MAX = 2
THREAD_NAME = "lakelog-compact"
_JOBS_MAX = 64  # of Spark at a time: each has a thread here
_CAUSE_MAX = 500  # characters: Spark's causes are long

Answer = CompactResult | LakelogError | None


@dataclass(frozen=True, slots=True)
class _CompactTask:
    """The body of mapInArrow: takes numbers of units, gives their results.

    A store that does not answer fails the task, so that Spark tries it again; the last attempt answers with the error,
    as it does with any other error: the other buckets are committed all the same.
    """

    table: TableStore
    work: Sequence[BucketWork]
    attempts_max: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                try:
                    result: Answer = compact_bucket(self.table, self.work[number])
                except LakelogError as error:
                    if isinstance(error, UnavailableError) and attempt_number() + 1 < self.attempts_max:
                        raise
                    result = error
                yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(result)], pa.binary())], schema=MESSAGE_SCHEMA)


def compact_in_tasks(spark: SparkSession, table: TableStore, work: Sequence[BucketWork]) -> list[Answer]:
    """What became of each unit: a job of Spark with a task for each. None where there was nothing to merge.

    A lakelog error of a task is an answer. Raises UnavailableError if Spark cannot run the job, as when it loses
    executors too often, and Spark's PythonException for any other error in a task.
    """
    task = _CompactTask(table, work, task_attempts_max(spark))
    try:
        numbers = spark.range(0, len(work), 1, len(work))
        messages = numbers.mapInArrow(task, MESSAGE_TYPE).collect()
    except PythonException:
        raise
    except (PySparkException, Py4JError) as error:
        raise UnavailableError(f"Spark could not run a compaction: {cut(str(error), _CAUSE_MAX)}") from error
    return [pickle.loads(message[0]) for message in messages]


def compact_in_threads(
    table: TableStore,
    units: Sequence[BucketWork],
    is_wanted: Callable[[], bool],
    prepare: Callable[[], None] | None = None,
) -> list[Answer]:
    """What became of each unit, merged in threads while `is_wanted`, within the budget of a read."""

    def compact(due: BucketWork, budget_bytes: int) -> Answer:
        try:
            return compact_bucket(table, due, memory_budget_bytes=budget_bytes) if is_wanted() else None
        except LakelogError as error:
            return error

    return list(
        in_threads(
            compact,
            units,
            budget_bytes=READ_MEMORY_BUDGET.understood(table.schema.options),
            threads_max=THREADS_MAX,
            name=THREAD_NAME,
            prepare=prepare,
        )
    )


def compact_in_jobs(
    spark: SparkSession,
    table: TableStore,
    units: Sequence[BucketWork],
    is_wanted: Callable[[], bool],
    *,
    is_beside: bool,
) -> list[Answer]:
    """What became of each unit, merged while `is_wanted` in jobs of one task; as many at a time as may have a core.

    Beside a stream these are half of the cluster's cores: its next batch gets the others.
    """
    cores = max(1, spark.sparkContext.defaultParallelism)

    def compact(due: BucketWork) -> Answer:
        if not is_wanted():
            return None
        spark.sparkContext.setJobDescription(f"lakelog compacts bucket {due.bucket.number} of {table.name}")
        try:
            (result,) = compact_in_tasks(spark, table, [due])
        except LakelogError as error:
            return error
        return result

    jobs_max = min(len(units), max(1, cores // 2) if is_beside else cores, _JOBS_MAX)
    with ThreadPoolExecutor(jobs_max, THREAD_NAME) as pool:
        return list(pool.map(compact, units))
