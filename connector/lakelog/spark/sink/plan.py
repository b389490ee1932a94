"""The Spark plan of one write, in one action: rows go to the tasks that own them, messages back to the driver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.spark.failures import error_of
from lakelog.spark.projection import Projector, refused_row_error
from lakelog.spark.sink.exchange import BLOCKS_TYPE, SORT_PREFIX, TASK_COLUMN, Sender
from lakelog.spark.sink.task import TaskMessage, parse_messages
from lakelog.spark.worker import MESSAGE_TYPE, map_batches

logger = logging.getLogger("lakelog.spark")

Body = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

ROWS_PER_BATCH_KEY = "spark.sql.execution.arrow.maxRecordsPerBatch"
BYTES_PER_BATCH_KEY = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_PER_BATCH_MAX = 2000
NO_LIMIT = str((1 << 31) - 1)


def rows_by_bucket(rows: DataFrame, sender: Sender, *, order_by: Sequence[str], projector: Projector) -> DataFrame:
    """Checked rows, with every bucket in the task that owns it, as blocks that keep the order of the rows.

    The columns `order_by` come before the rows' own order.
    """
    order = [sf.col(quoted_name(name)).alias(f"{SORT_PREFIX}{at}") for at, name in enumerate(order_by)]
    checked = projector.project(rows, sender.table.schema, table_name=sender.table.name, extra=order)
    return map_batches(checked, sender, BLOCKS_TYPE).repartitionById(sender.task_count, sf.col(TASK_COLUMN))


def run_tasks(rows: DataFrame, body: Body, *, check: Callable[[DataFrame], None]) -> list[TaskMessage]:
    """Run `body`, the tasks of a sink, over every partition; returns its results.

    `check` is called with the plan before it runs. Raises like `messages_of`, and the first error that a task found in
    its rows.
    """
    answers = map_batches(rows, body, MESSAGE_TYPE)
    check(answers)
    return parse_messages(messages_of(answers))


def messages_of(answers: DataFrame) -> list[bytes]:
    """Run a plan whose rows are the results of tasks; returns them.

    Raises the failed check of a row, or the error of the last attempt of one of our tasks.
    """
    try:
        with batches_cut_by_rows(answers.sparkSession):
            messages = answers.collect()
    except Exception as error:
        ours = refused_row_error(error) or error_of(error)
        if ours is None:
            raise
        logger.info("a write has failed: %s", ours, exc_info=error)
        raise ours from None  # Spark's report of the error would hide its message
    return [bytes(message[0]) for message in messages]


@contextmanager
def batches_cut_by_rows(session: SparkSession) -> Iterator[None]:
    """Let Spark limit Arrow batches by the number of rows alone, a few at a time.

    With a limit in bytes, Spark adds up the size of all columns after each row: 40 % of the time that it takes to bring
    rows to Python (Spark 4.3, `BatchedPythonArrowInput`).
    """
    rows_max = session.conf.get(ROWS_PER_BATCH_KEY)
    bytes_max = session.conf.get(BYTES_PER_BATCH_KEY, None)
    is_few = rows_max is not None and 0 < int(rows_max) <= ROWS_PER_BATCH_MAX
    try:
        if not is_few:
            session.conf.set(ROWS_PER_BATCH_KEY, str(ROWS_PER_BATCH_MAX))
        session.conf.set(BYTES_PER_BATCH_KEY, NO_LIMIT)
        yield
    finally:
        if rows_max is not None:
            session.conf.set(ROWS_PER_BATCH_KEY, rows_max)
        if bytes_max is None:
            session.conf.unset(BYTES_PER_BATCH_KEY)
        else:
            session.conf.set(BYTES_PER_BATCH_KEY, bytes_max)


def run_nothing(rows: DataFrame) -> None:
    """Run the plan without using its result: a stateful query fails when a batch is not run to its end."""
    rows.write.format("noop").mode("overwrite").save()
