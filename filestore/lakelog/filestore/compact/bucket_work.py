"""The compactions that are due in the buckets of a table, by its options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lakelog.common.clock import system_millis
from lakelog.filestore.compact.picking import (
    CompactUnit,
    PickRules,
    pick_for_space_amp,
    pick_full,
    pick_small_files,
    pick_universal,
)
from lakelog.filestore.data.data_writer import target_file_bytes
from lakelog.filestore.index.deletion_vectors import DeletionFile
from lakelog.filestore.index.index_manifest import deletion_files
from lakelog.filestore.merge.lookups import needs_lookup
from lakelog.filestore.metadata.manifests.data_file import DataFileMeta, wall_clock_millis
from lakelog.filestore.metadata.manifests.levels import SortedRun, highest_level, runs_of
from lakelog.filestore.metadata.manifests.manifest_entries import BucketId
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.tables.store import TableStore
from lakelog.filestore.options.compaction import (
    COMPACTION_INCREMENTAL_SIZE_THRESHOLD,
    COMPACTION_MIN_FILE_NUM,
    COMPACTION_OFFPEAK_END,
    COMPACTION_OFFPEAK_RATIO,
    COMPACTION_OFFPEAK_START,
    COMPACTION_OPTIMIZATION_INTERVAL,
    COMPACTION_TOTAL_SIZE_THRESHOLD,
    FULL_COMPACTION_DELTA_COMMITS,
    NUM_SORTED_RUNS_SETTLING_TRIGGER,
    NUM_SORTED_RUNS_STOP,
    NUM_SORTED_RUNS_TRIGGER,
    SETTLING_AMPLIFICATION_PERCENT,
    SIZE_AMPLIFICATION_PERCENT,
    SIZE_RATIO_PERCENT,
)
from lakelog.filestore.options.merging import CHANGELOG_PRODUCER, ChangelogProducer
from lakelog.filestore.read.file_pruning import is_merged_on_read

_RUNS_BEFORE_STOP = 3  # beyond the compaction trigger
_SETTLING_TRIGGER_FACTOR = 6
_SMALL_FILE_PERCENT = 70  # of the target size: smaller files are rewritten with their neighbours
_MILLIS_PER_SECOND = 1_000
_ZONES_APART_MAX_MILLIS = 2 * 24 * 3_600_000  # files are dated by the wall clock of their writer's zone

Pick = Callable[[BucketId, Sequence[DataFileMeta], Collection[str]], CompactUnit | None]


@dataclass(frozen=True, slots=True)
class BucketWork:
    """A compaction that is due: the runs to merge, and the deletion vectors of the bucket's files, by their names."""

    bucket: BucketId
    unit: CompactUnit
    deletions: Mapping[str, DeletionFile] = field(default_factory=dict)


def due_work(
    table: TableStore, snapshot: Snapshot | None, buckets: Iterable[BucketId] | None, pick: Pick
) -> list[BucketWork]:
    """The compactions that `pick` gives for buckets of a snapshot (all by default), by partition and bucket.

    `pick` is called with the bucket, its live files, and the names of those that have deletion vectors.
    """
    live = table.live_files.of(snapshot) if buckets is None else table.live_files.near(snapshot)
    deletions = deletion_files(table, snapshot)
    wanted = sorted(live.whole().buckets if buckets is None else buckets)
    live.read({bucket.partition for bucket in wanted})
    picked = ((bucket, pick(bucket, live.files(bucket), deletions.get(bucket, {}))) for bucket in wanted)
    return [BucketWork(bucket, unit, deletions.get(bucket, {})) for bucket, unit in picked if unit is not None]


def pick_unit(
    table: TableStore,
    files: Sequence[DataFileMeta],
    *,
    is_full: bool = False,
    marked: Collection[str] = (),
    files_per_batch: int = 1,
    is_settled_later: bool = False,
    now_millis: int | None = None,
) -> CompactUnit | None:
    """The compaction that is due in a bucket of these files, by the table's options; None if none is due.

    `marked` are the names of files with deletion vectors: a full compaction rewrites these too. `files_per_batch` is
    how many level-0 files one batch adds to the bucket: they count as one run of the trigger. `is_settled_later` means
    that all runs are merged soon, so that there may be more of them until then. `now_millis` is the time since 1970,
    this machine's by default.
    """
    table = table.stored
    options = table.schema.options
    if not table.schema.primary_keys:
        count_min = 2 if is_full else COMPACTION_MIN_FILE_NUM.of(options)
        return pick_small_files(files, small_bytes=small_file_bytes(table), count_min=count_min)
    runs = runs_of(files, table.key_types)
    level_max = highest_level(table.schema.options, (run.level for run in runs))
    commits = _commits_per_full(options)
    if is_full or (commits is not None and sum(run.level == 0 for run in runs) >= commits * files_per_batch):
        return pick_full(runs, level_max=level_max, marked=marked)
    now = system_millis() if now_millis is None else now_millis
    rules = PickRules(
        trigger=_trigger(options, is_settled_later=is_settled_later) * files_per_batch,
        amplification_percent_max=SIZE_AMPLIFICATION_PERCENT.of(options),
        ratio_percent=SIZE_RATIO_PERCENT.of(options) + _offpeak_percent(options, now),
        level_max=level_max,
        total_bytes_small=COMPACTION_TOTAL_SIZE_THRESHOLD.of(options),
        younger_bytes_max=COMPACTION_INCREMENTAL_SIZE_THRESHOLD.of(options),
        is_full_due=_is_full_due(options, runs, level_max, now),
        lifts_level0=needs_lookup(table.schema),
    )
    return pick_universal(runs, rules)


def _commits_per_full(options: Mapping[str, str]) -> int | None:
    """The batches in level 0 at which all runs are merged."""
    is_followed = CHANGELOG_PRODUCER.of(options) is ChangelogProducer.FULL_COMPACTION
    return FULL_COMPACTION_DELTA_COMMITS.of(options) or (1 if is_followed else None)


def _is_full_due(options: Mapping[str, str], runs: Sequence[SortedRun], level_max: int, now_millis: int) -> bool:
    """Whether the last full merge, dated by the files of the highest level, is long ago.

    A file with a date more than two days ahead comes from a wrong clock, and does not count.
    """
    interval = COMPACTION_OPTIMIZATION_INTERVAL.of(options)
    if interval is None:
        return False
    now = wall_clock_millis(now_millis)
    dates = [file.creation_time_millis or 0 for run in runs if run.level == level_max for file in run.files]
    made = [date for date in dates if date <= now + _ZONES_APART_MAX_MILLIS]
    return now - max(made, default=0) > interval


def _offpeak_percent(options: Mapping[str, str], now_millis: int) -> int:
    start, end = COMPACTION_OFFPEAK_START.of(options), COMPACTION_OFFPEAK_END.of(options)
    if start < 0 or end < 0 or start == end:
        return 0
    hour = datetime.fromtimestamp(now_millis / _MILLIS_PER_SECOND, UTC).hour
    is_offpeak = start <= hour < end if start < end else hour >= start or hour < end
    return COMPACTION_OFFPEAK_RATIO.of(options) if is_offpeak else 0


def pick_settling_unit(
    table: TableStore, files: Sequence[DataFileMeta], *, marked: Collection[str] = (), files_per_batch: int = 1
) -> CompactUnit | None:
    """The compaction of a bucket at the end of a stream, so that reads need not merge; None if it would save little.

    If it would save little, the compaction that is due by `pick_unit`, if any: rows and changes of level 0 that only a
    compaction shows would wait for the next writer. If reads never merge, as with deletion vectors, only that one.
    """
    table = table.stored
    if is_merged_on_read(table.schema):
        runs = runs_of(files, table.key_types)
        level_max = highest_level(table.schema.options, (run.level for run in runs))
        percent = SETTLING_AMPLIFICATION_PERCENT.of(table.schema.options)
        unit = pick_for_space_amp(runs, trigger=2, percent_max=percent, level_max=level_max)
        if unit is not None:
            return unit
    return pick_unit(table, files, marked=marked, files_per_batch=files_per_batch)


def must_writers_wait(
    table: TableStore, files: Sequence[DataFileMeta], *, files_per_batch: int = 1, is_settled_later: bool = False
) -> bool:
    """Whether a bucket has so many runs that it must be compacted before more are written. See `pick_unit`."""
    table = table.stored
    if not table.schema.primary_keys:
        return False
    options = table.schema.options
    stop = None if is_settled_later else NUM_SORTED_RUNS_STOP.of(options)
    if stop is None:
        stop = _trigger(options, is_settled_later=is_settled_later) + _RUNS_BEFORE_STOP
    return len(runs_of(files, table.key_types)) >= stop * files_per_batch


def _trigger(options: Mapping[str, str], *, is_settled_later: bool) -> int:
    trigger = NUM_SORTED_RUNS_TRIGGER.of(options)
    if not is_settled_later:
        return trigger
    return NUM_SORTED_RUNS_SETTLING_TRIGGER.of(options) or trigger * _SETTLING_TRIGGER_FACTOR


def small_file_bytes(table: TableStore) -> int:
    """The size below which a file is rewritten with its neighbours."""
    return target_file_bytes(table.stored.schema) * _SMALL_FILE_PERCENT // 100
