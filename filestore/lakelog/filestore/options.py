"""Every option of the file store. Names and defaults are Paimon's, unless the doc says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from lakelog.common.options import Option, check_known, parse_bool, parse_duration_millis, parse_size_bytes
from lakelog.filestore.stats_mode import stats_mode_text


class MergeEngine(StrEnum):
    """What becomes of several rows with one key."""

    DEDUPLICATE = "deduplicate"
    PARTIAL_UPDATE = "partial-update"
    AGGREGATION = "aggregation"
    FIRST_ROW = "first-row"


class StoreWriteMode(StrEnum):
    """What rows do that are written to a table."""

    AUTO = "auto"  # change-log with a primary key, append-only without
    APPEND_ONLY = "append-only"
    CHANGE_LOG = "change-log"


class ChangelogProducer(StrEnum):
    """Where changelog files come from."""

    NONE = "none"
    INPUT = "input"
    LOOKUP = "lookup"
    FULL_COMPACTION = "full-compaction"


class BucketFunction(StrEnum):
    """How a bucket follows from the bucket key."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


class FileFormat(StrEnum):
    """The format of data files."""

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"


class SortOrder(StrEnum):
    """Which end of an order comes last."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class ScanMode(StrEnum):
    """Which rows a read gives."""

    DEFAULT = "default"
    LATEST_FULL = "latest-full"
    FULL = "full"
    LATEST = "latest"
    FROM_TIMESTAMP = "from-timestamp"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"


Value = TypeVar("Value")
_NO_NAMES: tuple[str, ...] = ()
_DYNAMIC_BUCKETS_MAX = 32_767  # Paimon numbers dynamic buckets in 16 bits


def parse_names(text: str) -> tuple[str, ...]:
    """Column names with commas between them."""
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _by_level(parse: Callable[[str], Value]) -> Callable[[str], Mapping[int, Value]]:
    """A parser of pairs such as `0:avro,3:parquet`. Raises ValueError."""

    def parse_pairs(text: str) -> Mapping[int, Value]:
        pairs = (part.split(":", 1) for part in parse_names(text))
        return {_not_negative(level.strip()): parse(value.strip()) for level, value in pairs}

    return parse_pairs


def parse_bucket_count(text: str) -> int:
    """A number of buckets, -1 (dynamic, or none for append tables) or -2 (postponed). Raises ValueError."""
    count = int(text)
    if count == 0 or count < -2:
        raise ValueError("expected a positive number, -1 or -2")
    return count


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("expected at least 1")
    return number


def _at_least_two(text: str) -> int:
    number = int(text)
    if number < 2:
        raise ValueError("expected at least 2")
    return number


def _not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError("expected at least 0")
    return number


def _bucket_limit(text: str) -> int:
    number = int(text)
    if number != -1 and not 1 <= number <= _DYNAMIC_BUCKETS_MAX:
        raise ValueError(f"expected a number from 1 to {_DYNAMIC_BUCKETS_MAX}, or -1 for none")
    return number


def _hour(text: str) -> int:
    number = int(text)
    if not -1 <= number <= 23:
        raise ValueError("expected an hour from 0 to 23, or -1 for none")
    return number


BUCKET = Option(
    key="bucket",
    parse=parse_bucket_count,
    default=1,
    doc="Number of buckets: the unit of parallelism, ordering and ownership. lakelog writes it into every table that "
    "it makes; a table of others without it has dynamic buckets (-1), as many as its keys need.",
    kind="a positive number, -1 or -2",
)
BUCKET_KEY = Option(
    key="bucket-key",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Columns whose hash gives the bucket; the primary key without partition columns by default, and all columns "
    "in tables without primary key.",
    kind="column names with commas",
)
BUCKET_FUNCTION = Option(
    key="bucket-function.type",
    parse=BucketFunction,
    default=BucketFunction.DEFAULT,
    doc="How the bucket follows from the bucket key: `default` (murmur3), `mod` or `hive`.",
    kind="default, mod or hive",
)
DYNAMIC_BUCKET_TARGET_ROW_NUM = Option(
    key="dynamic-bucket.target-row-num",
    parse=_positive,
    default=2_000_000,
    doc="Keys that a dynamic bucket takes before another one is opened.",
    kind="a positive number",
)
DYNAMIC_BUCKET_INITIAL_BUCKETS: Option[int | None] = Option(
    key="dynamic-bucket.initial-buckets",
    parse=_positive,
    default=None,
    doc="Dynamic buckets that the first keys of a partition are spread over by their hash, instead of filling one "
    "after the other; as many as `dynamic-bucket.assigner-parallelism` by default.",
    kind="a positive number",
)
DYNAMIC_BUCKET_ASSIGNER_PARALLELISM: Option[int | None] = Option(
    key="dynamic-bucket.assigner-parallelism",
    parse=_positive,
    default=None,
    doc="How many tasks give the new keys of a partition their dynamic buckets, each filling buckets of its own: as "
    "many as write in Spark, 1 without Spark.",
    kind="a positive number",
)
DYNAMIC_BUCKET_MAX_BUCKETS = Option(
    key="dynamic-bucket.max-buckets",
    parse=_bucket_limit,
    default=-1,
    doc="Dynamic buckets of a partition at most: once they are full they take more than the target. -1 for no limit.",
    kind="a positive number, or -1",
)
PRIMARY_KEY = Option(
    key="primary-key",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Primary key columns, where they are given as an option at creation; moved into the schema.",
    kind="column names with commas",
)
PARTITION = Option(
    key="partition",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Partition columns, where they are given as an option at creation; moved into the schema.",
    kind="column names with commas",
)
PARTITION_DEFAULT_NAME = Option(
    key="partition.default-name",
    parse=str,
    default="__DEFAULT_PARTITION__",
    doc="The folder name of null and blank partition values.",
)
PARTITION_LEGACY_NAME = Option(
    key="partition.legacy-name",
    parse=parse_bool,
    default=True,
    doc="Whether dates, times and timestamps in folder names have Paimon's older form (days since 1970 for a DATE).",
    kind="true or false",
)
PARTITION_EXPIRATION_TIME = Option(
    key="partition.expiration-time",
    parse=parse_duration_millis,
    default=None,
    doc="How old a partition gets before an expiry deletes it, by the time that its values tell; never by default.",
    kind="a duration such as 7 d",
)
PARTITION_TIMESTAMP_PATTERN = Option(
    key="partition.timestamp-pattern",
    parse=str,
    default=None,
    doc="How the time of a partition is made of its columns, such as `$day $hour:00:00`; the first column by default.",
)
PARTITION_TIMESTAMP_FORMATTER = Option(
    key="partition.timestamp-formatter",
    parse=str,
    default=None,
    doc="The form of the time of a partition, such as `yyyyMMdd`; `yyyy-MM-dd HH:mm:ss` and `yyyy-MM-dd` by default.",
)
WRITE_MODE = Option(
    key="write-mode",
    parse=StoreWriteMode,
    default=StoreWriteMode.AUTO,
    doc="What rows do that are written: `append-only` tables take inserts alone, `change-log` tables deletes too, each "
    "of which takes one equal row away where there is no primary key. `auto` is `change-log` with a primary key and "
    "`append-only` without. The option of FLIP-188; Paimon has dropped it.",
    kind="auto, append-only or change-log",
)
MERGE_ENGINE = Option(
    key="merge-engine",
    parse=MergeEngine,
    default=MergeEngine.DEDUPLICATE,
    doc="What becomes of several rows with one key; `deduplicate` keeps the last.",
    kind="deduplicate, partial-update, aggregation or first-row",
)
IGNORE_DELETE = Option(
    key="ignore-delete",
    parse=parse_bool,
    default=False,
    doc="Whether deletes are skipped.",
    kind="true or false",
)
SEQUENCE_FIELD = Option(
    key="sequence.field",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Columns that decide which row of a key is the last, before the order of arrival.",
    kind="column names with commas",
)
SEQUENCE_FIELD_SORT_ORDER = Option(
    key="sequence.field.sort-order",
    parse=SortOrder,
    default=SortOrder.ASCENDING,
    doc="Whether the row with the largest values of `sequence.field` is the last, or that with the smallest.",
    kind="ascending or descending",
)
PARTIAL_UPDATE_REMOVE_ON_DELETE = Option(
    key="partial-update.remove-record-on-delete",
    parse=parse_bool,
    default=False,
    doc="Whether a -D deletes the row of a table with `merge-engine=partial-update`.",
    kind="true or false",
)
PARTIAL_UPDATE_REMOVE_ON_SEQUENCE_GROUP = Option(
    key="partial-update.remove-record-on-sequence-group",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Columns that order sequence groups: a -D that is the newest of such a group deletes the whole row.",
    kind="column names with commas",
)
AGGREGATION_REMOVE_ON_DELETE = Option(
    key="aggregation.remove-record-on-delete",
    parse=parse_bool,
    default=False,
    doc="Whether a -D deletes the row of a table with `merge-engine=aggregation`.",
    kind="true or false",
)
ROWKIND_FIELD = Option(
    key="rowkind.field",
    parse=str,
    default=None,
    doc="A column whose text (+I, -U, +U or -D) is the row kind of what is written, without a log.",
    kind="a column name",
)
CHANGELOG_PRODUCER = Option(
    key="changelog-producer",
    parse=ChangelogProducer,
    default=ChangelogProducer.NONE,
    doc="Where changelog files come from: `none`, `input`, `lookup` or `full-compaction`.",
    kind="none, input, lookup or full-compaction",
)
CHANGELOG_ROW_DEDUPLICATE = Option(
    key="changelog-producer.row-deduplicate",
    parse=parse_bool,
    default=False,
    doc="Whether an update that leaves a row as it was is left out of the changelog.",
    kind="true or false",
)
CHANGELOG_ROW_DEDUPLICATE_IGNORED = Option(
    key="changelog-producer.row-deduplicate-ignore-fields",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Columns that do not count when `changelog-producer.row-deduplicate` compares rows.",
    kind="column names with commas",
)
DELETION_VECTORS = Option(
    key="deletion-vectors.enabled",
    parse=parse_bool,
    default=False,
    doc="Whether compactions mark overwritten rows in deletion vectors, so that reads need not merge; rows are seen "
    "once they are compacted.",
    kind="true or false",
)
DELETION_VECTORS_64_BIT = Option(
    key="deletion-vectors.bitmap64",
    parse=parse_bool,
    default=False,
    doc="Whether deletion vectors are written in the 64 bit form, which is Iceberg's too.",
    kind="true or false",
)
DELETION_VECTORS_MERGE_ON_READ = Option(
    key="deletion-vectors.merge-on-read",
    parse=parse_bool,
    default=False,
    doc="Whether reads of a table with deletion vectors show rows that are not compacted yet.",
    kind="true or false",
)
FILE_FORMAT = Option(
    key="file.format",
    parse=FileFormat,
    default=FileFormat.PARQUET,
    doc="The format of new data files: `parquet`, `orc` or `avro`.",
    kind="parquet, orc or avro",
)
FILE_FORMAT_PER_LEVEL = Option(
    key="file.format.per.level",
    parse=_by_level(FileFormat),
    default=None,
    doc="Formats of new data files by level, such as `0:avro,5:parquet`; `file.format` elsewhere.",
    kind="pairs of a level and a format with commas",
)
FILE_COMPRESSION = Option(
    key="file.compression",
    parse=str,
    default="zstd",
    doc="The compression of new data files: `zstd`, `gzip` or `none`, not in Avro also `snappy` and `lz4`.",
)
FILE_COMPRESSION_PER_LEVEL = Option(
    key="file.compression.per.level",
    parse=_by_level(str),
    default=None,
    doc="Compressions of new data files by level, such as `0:lz4,5:zstd`; `file.compression` elsewhere.",
    kind="pairs of a level and a compression with commas",
)
FILE_COMPRESSION_ZSTD_LEVEL = Option(
    key="file.compression.zstd-level",
    parse=int,
    default=1,
    doc="The level of zstd in Parquet and Avro: higher is smaller and slower. ORC files have level 1.",
    kind="a number",
)
FILE_BLOCK_SIZE = Option(
    key="file.block-size",
    parse=parse_size_bytes,
    default=None,
    doc="Bytes of one Parquet row group before compression, or of one ORC stripe; 64 and 16 mb unless it is set.",
    kind="a size such as 64 mb",
)
ORC_TIMESTAMP_LTZ_LEGACY_TYPE = Option(
    key="orc.timestamp-ltz.legacy.type",
    parse=parse_bool,
    default=True,
    doc="Whether Paimon's readers and writers of ORC shift TIMESTAMP_LTZ by the zone of their machine. lakelog does "
    "not, and sets `false` in the tables that it makes with such columns.",
    kind="true or false",
)
TARGET_FILE_SIZE = Option(
    key="target-file-size",
    parse=parse_size_bytes,
    default=None,
    doc="The size from which a writer starts another data file: 128 mb with a primary key, else 256 mb.",
    kind="a size such as 128 mb",
)
DATA_FILE_PREFIX = Option(
    key="data-file.prefix",
    parse=str,
    default="data-",
    doc="How names of data files begin.",
)
DATA_FILE_DIRECTORY = Option(
    key="data-file.path-directory",
    parse=str,
    default="",
    doc="A folder below the table's that holds the data files; the table's own by default.",
)
CHANGELOG_FILE_PREFIX = Option(
    key="changelog-file.prefix",
    parse=str,
    default="changelog-",
    doc="How names of changelog files begin.",
)
THIN_MODE = Option(
    key="data-file.thin-mode",
    parse=parse_bool,
    default=False,
    doc="Whether data files leave out the key columns that they hold as value columns too.",
    kind="true or false",
)
STATS_MODE = Option(
    key="metadata.stats-mode",
    parse=stats_mode_text,
    default="truncate(16)",
    doc="Which statistics of value columns manifests hold, to skip files by: `none`, `counts` of nulls, `full`, or "
    "`truncate(N)`: texts up to N characters, 16 by default. `fields.NAME.stats-mode` is for one column.",
    kind="none, counts, truncate(N) or full",
)
STATS_DENSE_STORE = Option(
    key="metadata.stats-dense-store",
    parse=parse_bool,
    default=True,
    doc="Whether columns without statistics are left out of them; Paimon before 0.9 reads `false` only.",
    kind="true or false",
)
MANIFEST_COMPRESSION = Option(
    key="manifest.compression",
    parse=str,
    default="zstd",
    doc="The compression of manifests: `zstd`, `deflate` or `none`.",
)
MANIFEST_TARGET_FILE_SIZE = Option(
    key="manifest.target-file-size",
    parse=parse_size_bytes,
    default=8 << 20,
    doc="The size up to which small manifests are joined.",
    kind="a size such as 8 mb",
)
MANIFEST_MERGE_MIN_COUNT = Option(
    key="manifest.merge-min-count",
    parse=_positive,
    default=30,
    doc="Small manifests at which a commit joins them.",
    kind="a positive number",
)
MANIFEST_FULL_COMPACTION_SIZE = Option(
    key="manifest.full-compaction-threshold-size",
    parse=parse_size_bytes,
    default=16 << 20,
    doc="Bytes of manifests with deletes at which a commit rewrites all manifests.",
    kind="a size such as 16 mb",
)
WRITE_BUFFER_SIZE = Option(
    key="write-buffer-size",
    parse=parse_size_bytes,
    default=256 << 20,
    doc="Memory for the rows of one writing task of a table without a log; sorting them takes as much again. More rows "
    "are spilled, or go to another level-0 file.",
    kind="a size such as 256 mb",
)
WRITE_BUFFER_SPILLABLE = Option(
    key="write-buffer-spillable",
    parse=parse_bool,
    default=True,
    doc="Whether full write buffers of a table with a primary key are sorted, spilled to the folder for temporary "
    "files (`TMPDIR`) and merged at the end of the task; else each goes to level-0 files of its own.",
    kind="true or false",
)
WRITE_BUFFER_SPILL_MAX_DISK_SIZE = Option(
    key="write-buffer-spill.max-disk-size",
    parse=parse_size_bytes,
    default=None,
    doc="Bytes of spilled rows of one task at which they go to level-0 files of their own; without a limit by default.",
    kind="a size such as 10 gb",
)
LOCAL_SORT_MAX_NUM_FILE_HANDLES = Option(
    key="local-sort.max-num-file-handles",
    parse=_at_least_two,
    default=128,
    doc="Spilled files of one task at which they are merged into one.",
    kind="a number from 2 on",
)
SPILL_COMPRESSION = Option(
    key="spill-compression",
    parse=str,
    default="zstd",
    doc="The compression of spilled rows: `zstd`, `lz4` or `none`.",
)
SPILL_COMPRESSION_ZSTD_LEVEL = Option(
    key="spill-compression.zstd-level",
    parse=int,
    default=1,
    doc="The level of zstd in spilled rows.",
    kind="a number",
)
NUM_SORTED_RUNS_TRIGGER = Option(
    key="num-sorted-run.compaction-trigger",
    parse=_positive,
    default=5,
    doc="Sorted runs in a bucket at which a compaction is picked; the files that the tasks of one batch add count as "
    "one.",
    kind="a positive number",
)
NUM_SORTED_RUNS_STOP = Option(
    key="num-sorted-run.stop-trigger",
    parse=_positive,
    default=None,
    doc="Sorted runs in a bucket at which writers wait for a compaction: the compaction trigger and 3 more.",
    kind="a positive number",
)
NUM_SORTED_RUNS_SETTLING_TRIGGER = Option(
    key="num-sorted-run.settling-trigger",
    parse=_positive,
    default=None,
    doc="Sorted runs in a bucket at which a compaction is picked while a stream that ends by itself (`available_now`) "
    "writes it: its end merges them anyway. 6 times the compaction trigger. An option of lakelog.",
    kind="a positive number",
)
NUM_LEVELS = Option(
    key="num-levels",
    parse=_positive,
    default=None,
    doc="Levels of a bucket: the compaction trigger and 1 more.",
    kind="a positive number",
)
SIZE_AMPLIFICATION_PERCENT = Option(
    key="compaction.max-size-amplification-percent",
    parse=_not_negative,
    default=200,
    doc="Bytes of younger runs, in percent of the oldest run's, beyond which all runs are merged.",
    kind="a number from 0 on",
)
SETTLING_AMPLIFICATION_PERCENT = Option(
    key="compaction.settling-size-amplification-percent",
    parse=_not_negative,
    default=10,
    doc="Bytes of younger runs, in percent of the oldest run's, beyond which all runs are merged at the end of a "
    "stream that ends by itself (`available_now`), so that reads need not merge. An option of lakelog.",
    kind="a number from 0 on",
)
SIZE_RATIO_PERCENT = Option(
    key="compaction.size-ratio",
    parse=_not_negative,
    default=1,
    doc="Percent by which the next run may be larger than the runs picked so far and still join them.",
    kind="a number from 0 on",
)
COMPACTION_OPTIMIZATION_INTERVAL = Option(
    key="compaction.optimization-interval",
    parse=parse_duration_millis,
    default=None,
    doc="How long after the last full compaction of a bucket all its runs are merged again; never by default.",
    kind="a duration such as 1 h",
)
COMPACTION_TOTAL_SIZE_THRESHOLD = Option(
    key="compaction.total-size-threshold",
    parse=parse_size_bytes,
    default=None,
    doc="Bytes of a bucket below which its runs are always merged.",
    kind="a size such as 64 mb",
)
COMPACTION_INCREMENTAL_SIZE_THRESHOLD = Option(
    key="compaction.incremental-size-threshold",
    parse=parse_size_bytes,
    default=None,
    doc="Bytes of a bucket below its highest level beyond which all runs are merged.",
    kind="a size such as 256 mb",
)
COMPACTION_OFFPEAK_START = Option(
    key="compaction.offpeak.start.hour",
    parse=_hour,
    default=-1,
    doc="The hour (UTC) from which compactions may be larger; -1 for none.",
    kind="a number from 0 to 23, or -1",
)
COMPACTION_OFFPEAK_END = Option(
    key="compaction.offpeak.end.hour",
    parse=_hour,
    default=-1,
    doc="The hour (UTC) up to which compactions may be larger; -1 for none.",
    kind="a number from 0 to 23, or -1",
)
COMPACTION_OFFPEAK_RATIO = Option(
    key="compaction.offpeak-ratio",
    parse=_not_negative,
    default=0,
    doc="Percent that `compaction.size-ratio` grows by between these hours.",
    kind="a number from 0 on",
)
FULL_COMPACTION_DELTA_COMMITS = Option(
    key="full-compaction.delta-commits",
    parse=_positive,
    default=None,
    doc="Batches in level 0 of a bucket at which all its runs are merged; 1 with `changelog-producer=full-compaction`.",
    kind="a positive number",
)
COMPACTION_MIN_FILE_NUM = Option(
    key="compaction.min.file-num",
    parse=_positive,
    default=5,
    doc="Small files that follow each other at which a table without primary key joins them.",
    kind="a positive number",
)
WRITE_ONLY = Option(
    key="write-only",
    parse=parse_bool,
    default=False,
    doc="Whether writers leave compaction and expiry to somebody else.",
    kind="true or false",
)
COMMIT_MAX_RETRIES = Option(
    key="commit.max-retries",
    parse=_not_negative,
    default=10,
    doc="How often a commit that lost a race is tried again.",
    kind="a number from 0 on",
)
COMMIT_TIMEOUT = Option(
    key="commit.timeout",
    parse=parse_duration_millis,
    default=None,
    doc="How long a commit is tried again; without end by default.",
    kind="a duration such as 10 min",
)
COMMIT_MIN_RETRY_WAIT = Option(
    key="commit.min-retry-wait",
    parse=parse_duration_millis,
    default=10,
    doc="The wait before the first retry of a commit.",
    kind="a duration such as 10 ms",
)
COMMIT_MAX_RETRY_WAIT = Option(
    key="commit.max-retry-wait",
    parse=parse_duration_millis,
    default=10_000,
    doc="The longest wait between retries of a commit.",
    kind="a duration such as 10 s",
)
SNAPSHOT_NUM_RETAINED_MIN = Option(
    key="snapshot.num-retained.min",
    parse=_positive,
    default=10,
    doc="Snapshots that an expiry keeps at least.",
    kind="a positive number",
)
SNAPSHOT_NUM_RETAINED_MAX = Option(
    key="snapshot.num-retained.max",
    parse=_positive,
    default=2_147_483_647,
    doc="Snapshots that an expiry keeps at most.",
    kind="a positive number",
)
SNAPSHOT_TIME_RETAINED = Option(
    key="snapshot.time-retained",
    parse=parse_duration_millis,
    default=3_600_000,
    doc="How long snapshots are kept.",
    kind="a duration such as 1 h",
)
SNAPSHOT_EXPIRE_LIMIT = Option(
    key="snapshot.expire.limit",
    parse=_positive,
    default=50,
    doc="Snapshots that one expiry deletes at most.",
    kind="a positive number",
)
CHANGELOG_NUM_RETAINED_MIN: Option[int | None] = Option(
    key="changelog.num-retained.min",
    parse=_positive,
    default=None,
    doc="Snapshots whose changes are kept at least, living ones among them; `snapshot.num-retained.min` by default. "
    "Where this or its kin is more than the option of snapshots, changes outlive their snapshots.",
    kind="a positive number",
)
CHANGELOG_NUM_RETAINED_MAX: Option[int | None] = Option(
    key="changelog.num-retained.max",
    parse=_positive,
    default=None,
    doc="Snapshots whose changes are kept at most; `snapshot.num-retained.max` by default.",
    kind="a positive number",
)
CHANGELOG_TIME_RETAINED: Option[int | None] = Option(
    key="changelog.time-retained",
    parse=parse_duration_millis,
    default=None,
    doc="How long changes are kept; `snapshot.time-retained` by default.",
    kind="a duration such as 7 d",
)
CONSUMER_EXPIRATION_TIME: Option[int | None] = Option(
    key="consumer.expiration-time",
    parse=parse_duration_millis,
    default=None,
    doc="How long a consumer that records no progress keeps snapshots; without end by default, but for the leases of "
    "streams, which end after a day.",
    kind="a duration such as 7 d",
)
SCAN_MODE = Option(
    key="scan.mode",
    parse=ScanMode,
    default=ScanMode.DEFAULT,
    doc="Which rows a read gives; by default the newest snapshot, or the one that another scan option names.",
    kind="default, latest-full, full, latest, from-timestamp, from-snapshot or from-snapshot-full",
)
SCAN_SNAPSHOT_ID = Option(
    key="scan.snapshot-id",
    parse=_positive,
    default=None,
    doc="The snapshot to read.",
    kind="a positive number",
)
SCAN_TIMESTAMP = Option(
    key="scan.timestamp",
    parse=str,
    default=None,
    doc="The moment whose state is read, as text such as 2026-01-31 12:00:00; UTC unless a zone is given.",
    kind="a timestamp",
)
SCAN_TIMESTAMP_MILLIS = Option(
    key="scan.timestamp-millis",
    parse=_not_negative,
    default=None,
    doc="The moment whose state is read, in milliseconds since 1970 UTC.",
    kind="a number from 0 on",
)
SOURCE_SPLIT_TARGET_SIZE = Option(
    key="source.split.target-size",
    parse=parse_size_bytes,
    default=128 << 20,
    doc="Bytes of files that one split of a read holds; files that share keys stay together.",
    kind="a size such as 128 mb",
)
SOURCE_SPLIT_OPEN_FILE_COST = Option(
    key="source.split.open-file-cost",
    parse=parse_size_bytes,
    default=4 << 20,
    doc="Bytes that a file counts at least for in a split: opening many small ones takes time too.",
    kind="a size such as 4 mb",
)
READ_MEMORY_BUDGET = Option(
    key="read.memory-budget",
    parse=parse_size_bytes,
    default=256 << 20,
    doc="Memory that merging one bucket may use; larger buckets are merged in key ranges. An option of lakelog.",
    kind="a size such as 256 mb",
)
TABLE_UUID = Option(
    key="lakelog.table-uuid",
    parse=str,
    default="",
    doc="The identity of the table, given when lakelog makes it: a copied folder keeps it. An option of lakelog.",
)

PREFIXES = ("fields.",)
FILESTORE_OPTIONS: tuple[Option[object], ...] = tuple(
    value for value in globals().copy().values() if isinstance(value, Option)
)


def check_options(
    given: Mapping[str, str], *, also: Iterable[Option[object]] = (), also_prefixes: Iterable[str] = ()
) -> None:
    """Raise OptionError for the first key that nobody declares and for the first value outside its type.

    `also` and `also_prefixes` are the options of other parts of a table. For options that a user gives: unknown
    options that a table holds already are kept and ignored.
    """
    declared = (*FILESTORE_OPTIONS, *also)
    check_known(given, declared, (*PREFIXES, *also_prefixes))
    for option in declared:
        option.of(given)
