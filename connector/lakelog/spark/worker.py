"""Access to the Spark worker process in which our code runs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MESSAGE_COLUMN = "message"
_SAFE = "__lakelog_name_"
MESSAGE_SCHEMA = pa.schema([pa.field(_MESSAGE_COLUMN, pa.binary())])
MESSAGE_TYPE = StructType([StructField(_MESSAGE_COLUMN, BinaryType())])  # a type in SQL would be parsed for each plan


def spare_modules_from_collection() -> None:
    """Exclude imported modules from garbage collection; again only after more imports.

    Spark's workers collect all garbage after each task, and scan every object of every module: 30 ms per task for
    Spark's own imports, three times as much with ours (PySpark 4.3, `daemon.py`). Modules that the first task imports
    late, such as pandas, are excluded in the second task.
    """
    _freeze(len(sys.modules))


@cache
def _freeze(module_count: int) -> None:  # noqa: ARG001  # once for each count
    gc.collect()
    gc.freeze()


def map_batches(
    rows: DataFrame, body: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], kind: StructType
) -> DataFrame:
    """`rows.mapInArrow` for columns of any name: there PySpark parses names, so that `a.b` would be a member of `a`."""
    names = rows.columns
    odd = {name: f"{_SAFE}{at}" for at, name in enumerate(names) if not name.isidentifier()}
    if not odd:
        return rows.mapInArrow(body, kind)

    def renamed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return body(batch.rename_columns(names) for batch in batches)

    return rows.toDF(*(odd.get(name, name) for name in names)).mapInArrow(renamed, kind)


def task_number() -> int:
    """The number of the job's task that runs in this process now, from 0."""
    context = TaskContext.get()
    assert context is not None, "a write task runs in a Spark worker"
    return context.partitionId()


def attempt_number() -> int:
    """How many attempts of this task have failed before."""
    context = TaskContext.get()
    assert context is not None, "a task runs in a Spark worker"
    return context.attemptNumber()
