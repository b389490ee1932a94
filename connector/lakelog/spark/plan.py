"""The Spark plan of one write: rows to the tasks that own them, messages back to the driver. One action."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.schema import TableSchema
from lakelog.spark.bucketing import bucket_column_of
from lakelog.spark.projection import project_rows, quoted, refused_row_error
from lakelog.spark.task import (
    BUCKET_COLUMN,
    MESSAGE_COLUMN,
    ORDER_COLUMN,
    SORT_PREFIX,
    TaskMessage,
    parse_messages,
)

Body = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def rows_by_bucket(
    rows: DataFrame, table: TableSchema, *, table_name: str, task_count: int, order_by: Sequence[str]
) -> DataFrame:
    """Checked rows, every bucket in the task `bucket % task_count`, with the columns that give their order back.

    A shuffle keeps no order: the place of each row is taken along, after the columns of `order_by`.
    """
    order = [sf.col(quoted(name)).alias(f"{SORT_PREFIX}{at}") for at, name in enumerate(order_by)]
    place = sf.monotonically_increasing_id().alias(ORDER_COLUMN)
    placed = project_rows(rows, table, table_name=table_name, extra=[*order, place])
    bucketed = placed.withColumn(BUCKET_COLUMN, bucket_column_of(table))
    return bucketed.repartitionById(task_count, _owner(task_count))


def _owner(task_count: int) -> Column:
    return (sf.col(BUCKET_COLUMN) % task_count).cast("int")


def run_tasks(rows: DataFrame, body: Body) -> list[TaskMessage]:
    """Run `body` over every partition. Raises what a task of ours met, or a row's failed check, as it was."""
    try:
        messages = rows.mapInArrow(body, f"{MESSAGE_COLUMN} BINARY").collect()
    except Exception as error:
        refused = refused_row_error(error)
        if refused is None:
            raise
        raise refused from error
    return parse_messages(message[0] for message in messages)


def run_nothing(rows: DataFrame) -> None:
    """Run the plan for nothing: a stateful query fails when a batch is not run to its end."""
    rows.write.format("noop").mode("overwrite").save()


def check_order(rows: DataFrame, order_by: Sequence[str]) -> None:
    """Raise InvalidRequestError for a column of `order_by` that the rows lack."""
    for name in order_by:
        if name not in rows.columns:
            raise InvalidRequestError(f"order_by names {name!r}; the rows have {', '.join(rows.columns)}")
