"""Compaction as a job of its own: Spark tasks merge buckets, the driver commits.

It is for tables with `write-only`, whose writers do not compact, and for any other table. It may run beside writers:
they only add level-0 files, so neither loses its commit. Two compactions of one bucket at once are a conflict; the
second one is undone, and tried again by the next job.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from lakelog.catalog import Catalog
from lakelog.common.clock import Stopwatch
from lakelog.common.errors import ConflictError, LakelogError
from lakelog.filestore.compact import (
    CompactResult,
    CompactUnit,
    commit_results,
    due_work,
    log_compaction,
    pick_unit,
)
from lakelog.filestore.metadata.manifests import BucketId, DataFileMeta
from lakelog.filestore.metadata.tables import TableStore
from lakelog.spark.compaction.compaction import expire_after
from lakelog.spark.compaction.unit_runs import compact_in_tasks
from lakelog.spark.session import prepare_session
from lakelog.spark.tables import TableName, resolve_table

logger = logging.getLogger("lakelog.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionSummary:
    """What a compaction did: buckets merged, buckets that another compaction merged meanwhile, files and bytes."""

    bucket_count: int = 0
    conflict_count: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0


def compact(
    spark: SparkSession,
    table: TableName,
    *,
    full: bool = False,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
) -> CompactionSummary:
    """Compact what is due in a table, or with `full` everything, one task per bucket; then expire what is due.

    Raises NotFoundError for the table, and the error of a bucket after the others are committed.
    """
    prepare_session(spark)
    opened = resolve_table(table, catalog=catalog, warehouse=warehouse, session=spark)
    store = opened.store

    def pick(_: BucketId, files: Sequence[DataFileMeta], marked: Collection[str]) -> CompactUnit | None:
        return pick_unit(store, files, is_full=full, marked=marked)

    lasted = Stopwatch()
    work = due_work(store, store.snapshots.latest(), None, pick)
    if not work:
        return CompactionSummary()
    found = compact_in_tasks(spark, store, work)
    results = [result for result in found if isinstance(result, CompactResult)]
    committed = _commit(store, results, lasted)
    if committed:
        expire_after(store, kafka=opened.kafka, is_upkeep=True)
    for error in found:
        if isinstance(error, LakelogError):
            raise error
    return CompactionSummary(
        bucket_count=len(committed),
        conflict_count=len(results) - len(committed),
        files_before=sum(len(result.before) for result in committed),
        files_after=sum(len(result.after) for result in committed),
        bytes_before=sum(file.file_size_bytes for result in committed for file in result.before),
        bytes_after=sum(file.file_size_bytes for result in committed for file in result.after),
    )


def _commit(table: TableStore, results: Sequence[CompactResult], lasted: Stopwatch) -> list[CompactResult]:
    """Commit the results in one snapshot, or if another compaction was faster, those that still fit, one by one."""
    if not results:
        return []
    try:
        snapshot = commit_results(table, results, discards=len(results) == 1)
    except ConflictError:
        if len(results) > 1:
            return [done for result in results for done in _commit(table, [result], lasted)]
        logger.debug("%s: another compaction of bucket %d came first", table.name, results[0].bucket_id.number)
        return []
    log_compaction(table, results, snapshot_id=snapshot.id, lasted=lasted)
    return list(results)
