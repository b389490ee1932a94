"""Compaction after a batch: due buckets are merged by the driver, and a COMPACT snapshot takes the result in."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from lakelog.common.errors import LakelogError
from lakelog.filestore.compact.rewriting import CompactResult, compact_bucket, pick_unit
from lakelog.filestore.live_files import BucketId
from lakelog.filestore.options import WRITE_ONLY
from lakelog.filestore.store import TableStore
from lakelog.protocol.driver import commit_compaction
from lakelog.protocol.ports import CompactedBucket
from lakelog.protocol.state import Batch
from lakelog.protocol.steps import process_observer
from lakelog.protocol.stores import DriverSnapshots

logger = logging.getLogger("lakelog.spark")

THREADS_MAX = 2


def compact_due(table: TableStore, batch: Batch, snapshots: DriverSnapshots, buckets: Iterable[BucketId]) -> None:
    """Compact what is due among `buckets`. The batch is in the table already: nothing here fails it."""
    if WRITE_ONLY.of(table.schema.options):
        return
    try:
        live = table.live_files.of(table.snapshots.latest())
        units = [
            (partition, bucket, unit)
            for partition, bucket in sorted(set(buckets))
            if (unit := pick_unit(table, live.files(partition, bucket), is_full=False)) is not None
        ]
        if not units:
            return
        with ThreadPoolExecutor(min(len(units), THREADS_MAX), thread_name_prefix="lakelog-compact") as pool:
            results = list(pool.map(lambda unit: compact_bucket(table, *unit), units))
        compacted = [_compacted(result) for result in results if result is not None]
        if compacted:
            commit_compaction(batch, compacted, snapshots=snapshots, observe=process_observer())
    except LakelogError as error:
        logger.warning("%s: the compaction after batch %d did not happen: %s", table.name, batch.identifier, error)


def _compacted(result: CompactResult) -> CompactedBucket:
    return CompactedBucket(partition=result.partition, bucket=result.bucket, before=result.before, after=result.after)
