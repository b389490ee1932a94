"""Compaction of several buckets, on all cores."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.common.progress import counted
from lakelog.common.threads import in_threads
from lakelog.filestore.compact.bucket_work import BucketWork
from lakelog.filestore.compact.result import CompactResult
from lakelog.filestore.compact.rewriting import compact_bucket
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.reading import READ_MEMORY_BUDGET

THREADED_BYTES_MIN = 8 << 20  # below this, threads would lose more time by waiting for each other than they save


def compact_buckets(table: TableStore, work: Sequence[BucketWork]) -> list[CompactResult]:
    """The results of `compact_bucket`, buckets with much to merge at the same time.

    Threads share the memory budget.

    Raises as `in_threads`.
    """
    size_bytes = sum(file.file_size_bytes for one in work for run in one.unit.inputs for file in run.files)
    done = in_threads(
        lambda one, budget_bytes: compact_bucket(table, one, memory_budget_bytes=budget_bytes),
        work,
        budget_bytes=READ_MEMORY_BUDGET.understood(table.schema.options),
        threads_max=None if size_bytes >= THREADED_BYTES_MIN else 1,
        name="lakelog-compact",
    )
    return [result for result in counted(done, "buckets merged", total=len(work)) if result is not None]
