"""Options of compaction: when runs are merged, and which."""

from __future__ import annotations

from lakelog.common.options import Option, not_negative, parse_duration_millis, parse_size_bytes, positive
from lakelog.filestore.options.parsing import hour

NUM_SORTED_RUNS_TRIGGER = Option(
    key="num-sorted-run.compaction-trigger",
    parse=positive,
    default=5,
    doc="Sorted runs in a bucket at which a compaction is picked; the files that the tasks of one batch add count as "
    "one.",
)
NUM_SORTED_RUNS_STOP = Option(
    key="num-sorted-run.stop-trigger",
    parse=positive,
    default=None,
    doc="Sorted runs in a bucket at which writers wait for a compaction: the compaction trigger and 3 more.",
)
NUM_SORTED_RUNS_SETTLING_TRIGGER = Option(
    key="num-sorted-run.settling-trigger",
    parse=positive,
    default=None,
    doc="Sorted runs in a bucket at which a compaction is picked while a stream that ends by itself (`available_now`) "
    "writes it: its end merges them anyway. 6 times the compaction trigger. An option of lakelog.",
)
NUM_LEVELS = Option(
    key="num-levels",
    parse=positive,
    default=None,
    doc="Levels of a bucket: the compaction trigger and 1 more.",
)
SIZE_AMPLIFICATION_PERCENT = Option(
    key="compaction.max-size-amplification-percent",
    parse=not_negative,
    default=200,
    doc="Bytes of younger runs, in percent of the oldest run's, beyond which all runs are merged.",
)
SETTLING_AMPLIFICATION_PERCENT = Option(
    key="compaction.settling-size-amplification-percent",
    parse=not_negative,
    default=10,
    doc="Bytes of younger runs, in percent of the oldest run's, beyond which all runs are merged at the end of a "
    "stream that ends by itself (`available_now`), so that reads need not merge. Counts where reads merge, so not with "
    "`deletion-vectors.enabled` nor `merge-engine=first-row`. An option of lakelog.",
)
SIZE_RATIO_PERCENT = Option(
    key="compaction.size-ratio",
    parse=not_negative,
    default=1,
    doc="Percent by which the next run may be larger than the runs picked so far and still join them.",
)
COMPACTION_OPTIMIZATION_INTERVAL = Option(
    key="compaction.optimization-interval",
    parse=parse_duration_millis,
    default=None,
    doc="How long after the last full compaction of a bucket all its runs are merged again; never by default.",
)
COMPACTION_TOTAL_SIZE_THRESHOLD = Option(
    key="compaction.total-size-threshold",
    parse=parse_size_bytes,
    default=None,
    doc="Bytes of a bucket below which its runs are always merged.",
)
COMPACTION_INCREMENTAL_SIZE_THRESHOLD = Option(
    key="compaction.incremental-size-threshold",
    parse=parse_size_bytes,
    default=None,
    doc="Bytes of a bucket below its highest level beyond which all runs are merged.",
)
COMPACTION_OFFPEAK_START = Option(
    key="compaction.offpeak.start.hour",
    parse=hour,
    default=-1,
    doc="The hour (UTC) from which compactions may be larger; -1 for none.",
)
COMPACTION_OFFPEAK_END = Option(
    key="compaction.offpeak.end.hour",
    parse=hour,
    default=-1,
    doc="The hour (UTC) up to which compactions may be larger; -1 for none.",
)
COMPACTION_OFFPEAK_RATIO = Option(
    key="compaction.offpeak-ratio",
    parse=not_negative,
    default=0,
    doc="Percent that `compaction.size-ratio` grows by between these hours.",
)
FULL_COMPACTION_DELTA_COMMITS = Option(
    key="full-compaction.delta-commits",
    parse=positive,
    default=None,
    doc="Batches in level 0 of a bucket at which all its runs are merged; 1 with `changelog-producer=full-compaction`.",
)
COMPACTION_MIN_FILE_NUM = Option(
    key="compaction.min.file-num",
    parse=positive,
    default=5,
    doc="Small files that follow each other at which a table without primary key joins them.",
)
