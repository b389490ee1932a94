"""Compaction of several buckets, on all cores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lakelog.common.progress import counted
from lakelog.filestore.compact.bucket_work import BucketWork
from lakelog.filestore.compact.result import CompactResult
from lakelog.filestore.compact.rewriting import compact_bucket
from lakelog.filestore.metadata.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET

THREADED_BYTES_MIN = 8 << 20  # below, threads would wait for each other longer than they save


def compact_buckets(table: TableStore, work: Sequence[BucketWork]) -> list[CompactResult]:
    """The results of `compact_bucket` for buckets with much to merge at once; the threads share the memory budget.

    Raises the error of the first bucket that failed, once all others have ended.
    """
    size_bytes = sum(file.file_size_bytes for one in work for run in one.unit.inputs for file in run.files)
    workers = min(len(work), os.cpu_count() or 1) if size_bytes >= THREADED_BYTES_MIN else 1
    budget_bytes = READ_MEMORY_BUDGET.of(table.schema.options) // workers
    compact = partial(compact_bucket, table, memory_budget_bytes=budget_bytes)
    if workers == 1:
        done = counted(map(compact, work), "buckets merged", total=len(work))
        return [result for result in done if result is not None]
    with ThreadPoolExecutor(workers, "lakelog-compact") as pool:
        done = counted(pool.map(compact, work), "buckets merged", total=len(work))
        return [result for result in done if result is not None]
