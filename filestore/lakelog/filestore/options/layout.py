"""Options of a table's layout: keys, partitions, buckets, and where its files are."""

from __future__ import annotations

from enum import StrEnum

from lakelog.common.options import Option, choice, parse_bool, parse_duration_millis, parse_names, positive
from lakelog.filestore.options.parsing import bucket_limit, folder_below, name_start, parse_bucket_count

_NO_NAMES: tuple[str, ...] = ()


class BucketFunction(StrEnum):
    """How the bucket of a row is computed from its bucket key."""

    DEFAULT = "default"
    MOD = "mod"
    HIVE = "hive"


BUCKET = Option(
    key="bucket",
    parse=parse_bucket_count,
    default=1,
    doc="Number of buckets: the unit of parallelism, ordering and ownership. lakelog writes it into every table that "
    "it makes; a table of others without it has dynamic buckets (-1), as many as its keys need.",
)
BUCKET_KEY = Option(
    key="bucket-key",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Columns whose hash gives the bucket; the primary key without partition columns by default, and all columns "
    "in tables without primary key.",
)
BUCKET_FUNCTION = Option(
    key="bucket-function.type",
    parse=choice(BucketFunction),
    default=BucketFunction.DEFAULT,
    doc="How the bucket is computed from the bucket key: `default` (murmur3), `mod` or `hive`.",
)
DYNAMIC_BUCKET_TARGET_ROW_NUM = Option(
    key="dynamic-bucket.target-row-num",
    parse=positive,
    default=2_000_000,
    doc="Keys that a dynamic bucket takes before another one is opened.",
)
DYNAMIC_BUCKET_INITIAL_BUCKETS: Option[int | None] = Option(
    key="dynamic-bucket.initial-buckets",
    parse=positive,
    default=None,
    doc="Dynamic buckets that the first keys of a partition are spread over by their hash, instead of filling one "
    "after the other; as many as `dynamic-bucket.assigner-parallelism` by default.",
)
DYNAMIC_BUCKET_ASSIGNER_PARALLELISM: Option[int | None] = Option(
    key="dynamic-bucket.assigner-parallelism",
    parse=positive,
    default=None,
    doc="How many tasks give the new keys of a partition their dynamic buckets, each filling buckets of its own: as "
    "many as write in Spark, 1 without Spark.",
)
DYNAMIC_BUCKET_MAX_BUCKETS = Option(
    key="dynamic-bucket.max-buckets",
    parse=bucket_limit,
    default=-1,
    doc="Dynamic buckets of a partition at most: once they are full they take more than the target. -1 for no limit.",
)
PRIMARY_KEY = Option(
    key="primary-key",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Primary key columns, where they are given as an option at creation; moved into the schema.",
)
PARTITION = Option(
    key="partition",
    parse=parse_names,
    default=_NO_NAMES,
    doc="Partition columns, where they are given as an option at creation; moved into the schema.",
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
)
PARTITION_EXPIRATION_TIME = Option(
    key="partition.expiration-time",
    parse=parse_duration_millis,
    default=None,
    doc="How old a partition gets before an expiry deletes it, by the time in its values; never by default.",
)
PARTITION_TIMESTAMP_PATTERN = Option(
    key="partition.timestamp-pattern",
    parse=str,
    default=None,
    doc="How the time of a partition is composed of its columns, such as `$day $hour:00:00`; by default its first "
    "column.",
)
PARTITION_TIMESTAMP_FORMATTER = Option(
    key="partition.timestamp-formatter",
    parse=str,
    default=None,
    doc="The form of the time of a partition, such as `yyyyMMdd`; `yyyy-MM-dd HH:mm:ss` and `yyyy-MM-dd` by default.",
)
DATA_FILE_PREFIX = Option(
    key="data-file.prefix",
    parse=name_start,
    default="data-",
    doc="How names of data files begin.",
)
DATA_FILE_DIRECTORY = Option(
    key="data-file.path-directory",
    parse=folder_below,
    default="",
    doc="A folder below the table's that holds the data files; the table's own by default.",
)
CHANGELOG_FILE_PREFIX = Option(
    key="changelog-file.prefix",
    parse=name_start,
    default="changelog-",
    doc="How names of changelog files begin.",
)
TABLE_UUID = Option(
    key="lakelog.table-uuid",
    parse=str,
    default="",
    doc="The identity of the table, given when lakelog makes it: a copied folder keeps it. An option of lakelog.",
)
LOG_BRANCH = Option(
    key="lakelog.log-branch",
    parse=str,
    default="",
    doc="The identity of the branch whose log the options name; the table's own log without it. An option of lakelog.",
)
TABLE_PLACE = Option(
    key="lakelog.place",
    parse=str,
    default="",
    doc="The folder where lakelog made the table; with a log, snapshots name where it is now. By it a copied folder is "
    "distinguished from a moved one. An option of lakelog.",
)
