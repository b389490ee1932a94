"""What our code asks of the Spark worker process it runs in."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from functools import cache

import pyarrow as pa
from pyspark import TaskContext


@cache
def spare_modules_from_collection() -> None:
    """Leave what is imported by now out of garbage collections; once a process.

    Spark's workers collect all garbage after each task, and look through every object of every module for it: 30 ms a
    task for Spark's own imports, three times as much with ours (PySpark 4.3, `daemon.py`).
    """
    gc.collect()
    gc.freeze()


def task_number() -> int:
    """Which of the job's tasks runs in this process now, from 0."""
    context = TaskContext.get()
    assert context is not None, "a write task runs in a Spark worker"
    return context.partitionId()


def pieces_of(batches: Iterable[pa.RecordBatch], size_bytes: int) -> Iterator[pa.Table]:
    """The batches as tables of about this size, in their order. Empty ones are left out."""
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
