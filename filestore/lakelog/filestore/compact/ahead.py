"""Compactions that are prepared before their files are committed: those of an overwrite.

Batch reads of tables with deletion vectors, and of `first-row` tables, show rows once they are compacted. The commit of
an overwrite deletes the old rows. If its rows were compacted only then, reads would show nothing for that long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from lakelog.common.clock import Stopwatch
from lakelog.common.errors import LakelogError
from lakelog.filestore.compact.bucket_work import BucketWork, pick_unit
from lakelog.filestore.compact.buckets import compact_buckets
from lakelog.filestore.compact.committing import commit_results, log_compaction, log_failed_compaction
from lakelog.filestore.compact.result import CompactResult, discard_result
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta
from lakelog.filestore.metadata.manifests.manifest import ManifestEntry
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.writing import WRITE_ONLY
from lakelog.filestore.read.waiting_rows import Waits, batch_waits


@contextmanager
def compacted_ahead(table: TableStore, entries: Sequence[ManifestEntry]) -> Iterator[Callable[[], None]]:
    """Compact buckets that will hold the files `entries` and no others; the `with` block gets a function.

    Call it right after the commit of the entries: it commits the compaction. Without the call the compacted files are
    deleted. An error of the compaction is only logged: a later one shows the rows.
    """
    lasted = Stopwatch()
    results = _results(table, entries)
    is_left = bool(results)

    def commit() -> None:
        nonlocal is_left
        if not is_left:
            return
        is_left = False
        try:
            snapshot = commit_results(table, results)
        except LakelogError as error:
            log_failed_compaction(table, "an overwrite", error)
        else:
            log_compaction(table, results, snapshot_id=snapshot.id, lasted=lasted)

    try:
        yield commit
    finally:
        if is_left:
            for result in results:
                discard_result(table, result)


def _results(table: TableStore, entries: Sequence[ManifestEntry]) -> list[CompactResult]:
    if batch_waits(table.schema) is not Waits.LEVEL_0 or WRITE_ONLY.of(table.schema.options):
        return []
    files: dict[BucketId, list[DataFileMeta]] = {}
    for entry in entries:
        files.setdefault(entry.bucket_id, []).append(entry.file)
    picked = ((bucket, pick_unit(table, files[bucket])) for bucket in sorted(files))
    try:
        return compact_buckets(table, [BucketWork(bucket, unit) for bucket, unit in picked if unit is not None])
    except LakelogError as error:
        log_failed_compaction(table, "an overwrite", error)
        return []
