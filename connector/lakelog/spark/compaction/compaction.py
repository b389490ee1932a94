"""Compaction beside a stream: what is due is merged, and the driver commits the result in a COMPACT snapshot.

On one machine the driver merges in its threads. On a cluster Spark's tasks do, on half of the cores while the stream
goes on, and on all of them at its end. Old snapshots expire there too, while the next batch runs.
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import Condition, Lock, get_native_id

from pyspark.sql import SparkSession

from lakelog.common.clock import Stopwatch
from lakelog.common.errors import LakelogError
from lakelog.filestore.compact import (
    CompactResult,
    CompactUnit,
    Pick,
    due_work,
    log_compaction,
    log_failed_compaction,
    must_writers_wait,
    pick_settling_unit,
    pick_unit,
)
from lakelog.filestore.metadata.manifests import BucketId, DataFileMeta
from lakelog.filestore.metadata.snapshots import BATCH_COMMIT_IDENTIFIER, LiveBuckets
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.options import WRITE_ONLY
from lakelog.filestore.read import waiting_buckets
from lakelog.filestore.verbs import expire_after as expire_files_after
from lakelog.protocol.state import Batch, process_observer
from lakelog.protocol.stores import DriverSnapshots
from lakelog.protocol.upkeep import expire_log_after_commit
from lakelog.protocol.writing import commit_compaction
from lakelog.spark.compaction.unit_runs import THREAD_NAME, compact_in_jobs, compact_in_threads
from lakelog.spark.session import is_on_cluster

logger = logging.getLogger("lakelog.spark")

_BACKGROUND_NICENESS = 10


@dataclass(frozen=True, slots=True)
class _Work:
    """Buckets to check, how many files one batch adds to each, and the newest batch that wrote to them.

    `is_settled_later` says that their writer merges them at the end of its stream. `spark` is the session of a cluster
    whose tasks merge; None if this process does.
    """

    batch: Batch
    files: Counter[BucketId]
    is_settled_later: bool = False
    spark: SparkSession | None = None


@dataclass(eq=False, slots=True)
class BackgroundCompaction:
    """Compacts one table beside the streams of this process that write it, while their next batch runs.

    It has its own thread and its own view of the table. A compaction that is killed leaves orphan files.
    """

    snapshots: DriverSnapshots
    _changed: Condition = field(default_factory=Condition)
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, THREAD_NAME))
    _is_running: bool = False
    _has_left: bool = True  # rows that no read shows before a compaction: those of a process that was killed
    _settling_count: int = 0
    _next: _Work | None = None
    _written: _Work | None = None
    _error: BaseException | None = None

    def after_batch(
        self,
        batch: Batch,
        files: Counter[BucketId],
        live: LiveBuckets,
        *,
        is_settled_later: bool,
        spark: SparkSession | None = None,
    ) -> None:
        """Note a committed batch: how many files one batch adds to each bucket, and the live files.

        What is due in these buckets is compacted later, or before this returns when one of them has so many sorted runs
        that writers must wait. The first batch also takes up rows that no read shows before a compaction, and that a
        killed process did not compact. `is_settled_later` says that `settle` is called at the end of the stream,
        `spark` is the session that wrote the batch, if there is one. Raises the error of an earlier compaction, except
        lakelog's own errors, which are logged.
        """
        table = self.snapshots.table
        if WRITE_ONLY.of(table.schema.options):
            return
        cluster = spark if spark is not None and is_on_cluster(spark) else None
        work = _Work(batch, files | Counter(self._take_left()), is_settled_later, cluster)
        if not work.files:
            return
        live.read({bucket.partition for bucket in work.files})
        with self._changed:
            self._next = _joined(self._next, work)
            self._written = _joined(self._written, work)
            if not self._is_running:
                self._is_running = True
                self._threads.submit(self._run)
        if any(
            must_writers_wait(table, live.files(bucket), files_per_batch=count, is_settled_later=is_settled_later)
            for bucket, count in work.files.items()
        ):
            self.wait()
        self._check()

    def wait(self) -> None:
        """Wait until no compaction runs. Raises like `after_batch`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_running)
        self._check()

    def settle(self) -> None:
        """Merge the buckets that are worth it: after the end of a stream no batch will compact them soon.

        It waits for a running compaction, and takes over what is due: otherwise that would be merged twice.
        """
        with self._changed:
            self._settling_count += 1
            self._next = None
        try:
            self.wait()
        finally:
            with self._changed:
                self._settling_count -= 1
        with self._changed:
            written, self._written = self._written, None
        if written is None and not WRITE_ONLY.of(self.snapshots.table.schema.options) and (left := self._take_left()):
            nobody = Batch(user=str(uuid.uuid4()), identifier=BATCH_COMMIT_IDENTIFIER, source_digest=None)
            written = _Work(nobody, Counter(left))
        if written is not None:
            table, counts = self.snapshots.table, written.files

            def pick(bucket: BucketId, files: Sequence[DataFileMeta], marked: Collection[str]) -> CompactUnit | None:
                return pick_settling_unit(table, files, marked=marked, files_per_batch=counts[bucket])

            self._note(_compact(written, self.snapshots, pick))

    def _take_left(self) -> set[BucketId]:
        """The buckets that a killed process, or a compaction that did not happen, has left; empty until the next."""
        with self._changed:
            has_left, self._has_left = self._has_left, False
        return waiting_buckets(self.snapshots.table) if has_left else set()

    def _note(self, is_done: bool) -> None:
        """Look again for what is left after a compaction that did not happen."""
        with self._changed:
            self._has_left = self._has_left or not is_done

    def _run(self) -> None:
        while (work := self._take()) is not None:
            try:
                self._note(_compact(work, self.snapshots, _picked(work, self.snapshots), _stand_back, self._is_wanted))
                expire_after(self.snapshots.table, kafka=self.snapshots.kafka)
            except BaseException as error:  # noqa: BLE001  # the stream's thread raises it
                with self._changed:
                    self._error = error

    def _is_wanted(self) -> bool:
        return not self._settling_count

    def _take(self) -> _Work | None:
        with self._changed:
            work, self._next = self._next, None
            if work is None:
                self._is_running = False
                self._changed.notify_all()
            return work

    def _check(self) -> None:
        with self._changed:
            error, self._error = self._error, None
        if error is not None:
            raise error


def _joined(older: _Work | None, newer: _Work) -> _Work:
    """The union of both; for a bucket in both, the larger number of files."""
    if older is None:
        return newer
    return replace(
        newer, files=older.files | newer.files, is_settled_later=older.is_settled_later and newer.is_settled_later
    )


_lock = Lock()
_compactions: dict[tuple[object, ...], BackgroundCompaction] = {}


def compaction_beside(snapshots: DriverSnapshots) -> BackgroundCompaction:
    """The compaction of a table in this process, which calls its listeners."""
    table = snapshots.table
    key = (table.path, table.branch, table.uuid, table.schema.id, snapshots.topic_id, id(table.listeners_of))
    with _lock:
        if key not in _compactions:
            _compactions[key] = BackgroundCompaction(replace(snapshots, table=replace(table)))
        return _compactions[key]


def compact_due(batch: Batch, snapshots: DriverSnapshots, files: Iterable[BucketId]) -> None:
    """Compact what is due in the buckets of files that one batch has added. lakelog's errors are logged, not raised."""
    if not WRITE_ONLY.of(snapshots.table.schema.options):
        work = _Work(batch, Counter(files))
        _compact(work, snapshots, _picked(work, snapshots))
        expire_after(snapshots.table, kafka=snapshots.kafka)


def expire_after(table: TableStore, *, kafka: Mapping[str, str] | None = None, is_upkeep: bool = False) -> None:
    """Expire old snapshots if that is due. The batch is already in the table, so lakelog's errors are only logged.

    `kafka` are the user's own settings of Kafka clients, for the table's log.
    """
    try:
        newest = table.snapshots.latest()
    except LakelogError as error:
        logger.warning("%s: the expiry of old snapshots did not happen: %s", table.name, error)
        return
    if newest is None:
        return
    if expire_files_after(table, newest, is_upkeep=is_upkeep):
        expire_log_after_commit(table, kafka=kafka)


def _picked(work: _Work, snapshots: DriverSnapshots) -> Pick:
    """What is due in the buckets of `work`."""

    def pick(bucket: BucketId, files: Sequence[DataFileMeta], marked: Collection[str]) -> CompactUnit | None:
        return pick_unit(
            snapshots.table,
            files,
            marked=marked,
            files_per_batch=work.files[bucket],
            is_settled_later=work.is_settled_later,
        )

    return pick


def _stand_back() -> None:
    """Lower the priority of this thread: the stream's next batch goes first."""
    if sys.platform == "linux":  # where threads have their own priority
        os.setpriority(os.PRIO_PROCESS, get_native_id(), _BACKGROUND_NICENESS)


def _compact(
    work: _Work,
    snapshots: DriverSnapshots,
    pick: Pick,
    prepare: Callable[[], None] | None = None,
    is_wanted: Callable[[], bool] = lambda: True,
) -> bool:
    """Compact the picked units while `is_wanted`; `prepare` says that a stream goes on beside it.

    The batch is already in the table: nothing here can fail it. False if the compaction, or a part of it, did not
    happen: lakelog's own errors are logged, and a compaction is dropped if another one has replaced its files.
    """
    table = snapshots.table
    lasted = Stopwatch()
    try:
        units = due_work(table, table.snapshots.latest(), work.files, pick)
        if not units:
            return True
        if work.spark is None:
            found = compact_in_threads(table, units, is_wanted, prepare)
        else:
            found = compact_in_jobs(work.spark, table, units, is_wanted, is_beside=prepare is not None)
        compacted = [result for result in found if isinstance(result, CompactResult)]
        if compacted:
            done = commit_compaction(work.batch, compacted, snapshots=snapshots, observe=process_observer())
            if done.snapshot_id is None:
                return False
            log_compaction(table, compacted, snapshot_id=done.snapshot_id, lasted=lasted)
        failed = next((result for result in found if isinstance(result, LakelogError)), None)
        if failed is not None:
            raise failed
    except LakelogError as error:
        log_failed_compaction(table, f"batch {work.batch.identifier}", error)
        return False
    return True
