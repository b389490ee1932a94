"""Options of the log store."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from lakelog.common.errors import InvalidRequestError
from lakelog.common.log_system import ALL_CHANGES, CHANGELOG_MODE_KEY, LOG_SYSTEM_KEY, NO_LOG
from lakelog.common.options import (
    Option,
    choice,
    parse_bool,
    parse_duration_millis,
    parse_size_bytes,
    parse_whole,
    positive,
)
from lakelog.logstore.client_settings import PROFILE as PROFILE_SETTING
from lakelog.logstore.client_settings import check_settings_of_table


class LogSystem(StrEnum):
    """The system in which the changes of a table are logged."""

    NONE = NO_LOG
    KAFKA = "kafka"


class ChangelogMode(StrEnum):
    """Which images the log holds."""

    AUTO = "auto"
    UPSERT = "upsert"
    ALL = ALL_CHANGES


class LogConsistency(StrEnum):
    """When a record becomes visible to readers of the log."""

    TRANSACTIONAL = "transactional"
    EVENTUAL = "eventual"


class LogFormat(StrEnum):
    """What the value of a record is."""

    DEBEZIUM_JSON = "debezium-json"


class LogKeyFormat(StrEnum):
    """What the key of a record is."""

    JSON = "json"


class LogCompression(StrEnum):
    """How records are compressed in the topic. The values are those of Kafka's clients."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class OnUntracked(StrEnum):
    """What a stream does if files have changes that are not in the log."""

    FAIL = "fail"
    SKIP = "skip"


class LogScan(StrEnum):
    """Where a streaming read of a table with a log starts."""

    FULL = "full"
    LATEST = "latest"
    FROM_TIMESTAMP = "from-timestamp"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_OFFSETS = "from-offsets"


INTERVAL_MILLIS_MAX = 600_000


def _parse_interval(text: str) -> int:
    millis = parse_duration_millis(text)
    if millis > INTERVAL_MILLIS_MAX:
        raise ValueError("expected 10 min at most: batches that are in the log alone are read record by record")
    return millis


KAFKA_PREFIX = "log.kafka."
PREFIXES = (KAFKA_PREFIX,)

LOG_SYSTEM = Option(
    key=LOG_SYSTEM_KEY,
    parse=choice(LogSystem),
    default=LogSystem.NONE,
    doc="Where the changes of the table are logged: `none` or `kafka`.",
)
BOOTSTRAP_SERVERS = Option(
    key="log.kafka.bootstrap.servers",
    parse=str,
    default="",
    doc="The Kafka brokers as host:port, with commas. Other `log.kafka.*` keys go to the Kafka clients: time-outs, "
    "sizes, compression and the protocol of the servers. Other settings, passwords above all, are not options of a "
    "table: they come from a profile, the environment or the call.",
)
PROFILE = Option(
    key=f"{KAFKA_PREFIX}{PROFILE_SETTING}",
    parse=str,
    default="",
    doc="The name of the profile in the user's file `~/.config/lakelog/kafka.toml` that has the settings of Kafka "
    "clients for this table, with its servers and passwords. Each user has their own profile of that name.",
)
TOPIC = Option(
    key="log.topic",
    parse=str,
    default="",
    doc="The topic of the table; set when the table is created.",
)
TOPIC_ID = Option(
    key="log.topic-id",
    parse=str,
    default="",
    doc="The id that Kafka gave the topic; set when the table is created. Another topic is refused.",
)
CHANGELOG_MODE = Option(
    key=CHANGELOG_MODE_KEY,
    parse=choice(ChangelogMode),
    default=ChangelogMode.AUTO,
    doc="Which images the log holds: `upsert` (no UPDATE_BEFORE; needs a primary key), `all` (old rows are looked up "
    "in the files; needs `log.consistency`=`transactional`), or `auto`: upsert with a primary key, all without.",
)
CONSISTENCY = Option(
    key="log.consistency",
    parse=choice(LogConsistency),
    default=LogConsistency.TRANSACTIONAL,
    doc="`transactional`: readers of the log see committed batches only. `eventual` (needs a primary key and "
    "`log.changelog-mode`=`upsert`): records can be read before their batch has a snapshot, a batch that runs again "
    "repeats its records, and one stream writes the table.",
)
FORMAT = Option(
    key="log.format",
    parse=choice(LogFormat),
    default=LogFormat.DEBEZIUM_JSON,
    doc="What the values of records are: `debezium-json`.",
)
KEY_FORMAT = Option(
    key="log.key.format",
    parse=choice(LogKeyFormat),
    default=LogKeyFormat.JSON,
    doc="What the keys of records are: `json`, an object of the primary key; null in a table without one.",
)
SCAN = Option(
    key="log.scan",
    parse=choice(LogScan),
    default=LogScan.FULL,
    doc="Where a streaming read starts: `full` reads the newest snapshot, then the log from its offsets; "
    "`latest` the log from now on; `from-timestamp` and `from-snapshot` the log from a point in time; `from-offsets` "
    "the log from `startingOffsets`. A stream with a checkpoint continues from there.",
)
SCAN_TIMESTAMP_MILLIS: Option[int | None] = Option(
    key="log.scan.timestamp-millis",
    parse=parse_whole,
    default=None,
    doc="Milliseconds since 1970 at which `log.scan`=`from-timestamp` starts.",
)
SCAN_TIMESTAMP_MILLS: Option[int | None] = Option(
    key="log.scan.timestamp-mills",
    parse=parse_whole,
    default=None,
    doc="`log.scan.timestamp-millis`, as FLIP-188 spells it.",
)
REPLICATION_FACTOR: Option[int | None] = Option(
    key="log.replication-factor",
    parse=parse_whole,
    default=None,
    doc="Copies of each partition of a new topic; the broker's default when it is not given.",
)
COMPRESSION: Option[LogCompression | None] = Option(
    key="log.compression",
    parse=choice(LogCompression),
    default=None,
    doc="How records are compressed, by writers and in a new topic: `none`, `gzip`, `snappy`, `lz4` or `zstd`. Without "
    "it writers take lz4.",
)
RETENTION = Option(
    key="log.retention",
    parse=parse_duration_millis,
    default=7 * 86_400_000,
    doc="The least time that records stay in the log, such as `7 d`. Older ones are deleted when snapshots expire, "
    "never those that a snapshot, the lease of a stream or an unfinished batch still needs.",
)
UNAVAILABLE_TIMEOUT = Option(
    key="log.unavailable-timeout",
    parse=parse_duration_millis,
    default=5 * 60_000,
    doc="How long a starting or running stream retries when Kafka does not answer, before it fails; `0 s` for not at "
    "all.",
)
MAX_RECORD_SIZE = Option(
    key="log.max-record-size",
    parse=parse_size_bytes,
    default=8 << 20,
    doc="The largest record that a new topic takes, with its key and headers.",
)

PROGRESS_TOPIC = Option(
    key="log.progress-topic",
    parse=str,
    default="",
    doc="The topic of one partition that gets a record after each snapshot: table, batch, snapshot, and the end offset "
    "of each bucket's log, at least once. Several tables can share it. It is created when it is missing, and never "
    "deleted by lakelog; none by default.",
    kind="the name of a topic",
)
CHANGE_TRACKING = Option(
    key="change-tracking",
    parse=parse_bool,
    default=True,
    doc="Whether the changes of a table with a log are in the log. With `false` writes change the files alone, the log "
    "says that they did, and streams do as `log.on-untracked` says. A write may have its own, see the guide. Source: "
    "FLIP-188.",
)
UNTRACKED_PARTITIONS = Option(
    key="change-tracking.off-where",
    parse=str,
    default="",
    doc="A condition on partition columns, in Spark SQL: changes of the partitions that meet it are not tracked, as "
    "with `change-tracking`=`false`.",
    kind="a condition",
)
ON_UNTRACKED = Option(
    key="log.on-untracked",
    parse=choice(OnUntracked),
    default=OnUntracked.FAIL,
    doc="What a stream does where files have changes that are not in the log, by `change-tracking` or by another "
    "engine: `fail`, or `skip` them and read on. An option of reads too.",
)
SNAPSHOT_INTERVAL = Option(
    key="snapshot.interval",
    parse=_parse_interval,
    default=0,
    doc="How long batches of a stream may be in the log alone before one snapshot takes all of them in, such as "
    "`30 s`; at most 10 min. With 0 each batch makes a snapshot. Needs a transactional log. `snapshot_interval` of a "
    "stream wins.",
)
PENDING_BATCHES_MAX = Option(
    key="snapshot.pending.max-batches",
    parse=positive,
    default=1_000,
    doc="With `snapshot.interval`: so many batches that are in the log alone make the snapshot at once.",
)
PENDING_FILES_MAX = Option(
    key="snapshot.pending.max-files",
    parse=positive,
    default=10_000,
    doc="With `snapshot.interval`: batches with so many data files that are in the log alone make the snapshot at "
    "once.",
)
PENDING_SIZE_MAX = Option(
    key="snapshot.pending.max-size",
    parse=parse_size_bytes,
    default=8 << 30,
    doc="With `snapshot.interval`: batches with data files of this size that are in the log alone make the snapshot "
    "at once.",
)
FRESH_CACHE_MAX_MEMORY_SIZE = Option(
    key="scan.fresh.cache-max-memory-size",
    parse=parse_size_bytes,
    default=64 << 20,
    doc="Memory of a table handle for the rows of files that the log has behind the newest snapshot: fresh look-ups "
    "read them once. What does not fit is read again.",
)

LOGSTORE_OPTIONS: tuple[Option[object], ...] = (
    LOG_SYSTEM,
    BOOTSTRAP_SERVERS,
    PROFILE,
    TOPIC,
    TOPIC_ID,
    CHANGELOG_MODE,
    CONSISTENCY,
    FORMAT,
    KEY_FORMAT,
    SCAN,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_TIMESTAMP_MILLS,
    REPLICATION_FACTOR,
    RETENTION,
    UNAVAILABLE_TIMEOUT,
    MAX_RECORD_SIZE,
    PROGRESS_TOPIC,
    COMPRESSION,
    CHANGE_TRACKING,
    UNTRACKED_PARTITIONS,
    ON_UNTRACKED,
    SNAPSHOT_INTERVAL,
    PENDING_BATCHES_MAX,
    PENDING_FILES_MAX,
    PENDING_SIZE_MAX,
    FRESH_CACHE_MAX_MEMORY_SIZE,
)


def client_config(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of Kafka clients that a table's `log.kafka.*` options give, without the prefix and the profile.

    Raises OptionError for settings that a table may not hold, see `lakelog.logstore.client_settings`.
    """
    settings = kafka_options(options)
    check_settings_of_table(settings, prefix=KAFKA_PREFIX)
    settings.pop(PROFILE_SETTING, None)
    return settings


def kafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that begin with `log.kafka.`, without this prefix, unchecked."""
    return {key[len(KAFKA_PREFIX) :]: value for key, value in options.items() if key.startswith(KAFKA_PREFIX)}


# Kafka itself must neither compact a topic nor delete records in it: it cannot know which records are still needed.
COMPACTION = "cleanup.policy"
TOPIC_KEEPS = {COMPACTION: "delete", "retention.ms": "-1", "retention.bytes": "-1"}


COMPRESSION_SETTING = "compression.type"  # of clients and of topics
_UNCOMPRESSED = "uncompressed"  # what a topic calls the clients' `none`


def topic_config(options: Mapping[str, str]) -> dict[str, str]:
    """The configuration of a new topic."""
    config = TOPIC_KEEPS | {"max.message.bytes": str(MAX_RECORD_SIZE.of(options))}
    compression = COMPRESSION.of(options)
    if compression is not None:
        config[COMPRESSION_SETTING] = _UNCOMPRESSED if compression is LogCompression.NONE else compression.value
    return config


def is_eventual(options: Mapping[str, str]) -> bool:
    """Whether records of the log can be read before their batch has a snapshot."""
    return CONSISTENCY.of(options) is LogConsistency.EVENTUAL


def changelog_mode(options: Mapping[str, str], *, has_primary_key: bool) -> ChangelogMode:
    """UPSERT or ALL: `auto` resolved. Raises InvalidRequestError for upsert without a primary key."""
    mode = CHANGELOG_MODE.of(options)
    if mode is ChangelogMode.AUTO:
        return ChangelogMode.UPSERT if has_primary_key else ChangelogMode.ALL
    if mode is ChangelogMode.UPSERT and not has_primary_key:
        raise InvalidRequestError(
            f"option {CHANGELOG_MODE.key!r} has the value 'upsert', which needs a primary key, and the table has none:"
            " without a key no record replaces another one; use 'all' or 'auto'"
        )
    return mode


def check_log_modes(options: Mapping[str, str], *, has_primary_key: bool) -> None:
    """Check that consistency, changelog mode and key go together. Source: FLIP-188, "Consistency & Visibility".

    Raises OptionError for a value that does not exist, InvalidRequestError for values that do not go together.
    """
    FORMAT.of(options)
    KEY_FORMAT.of(options)
    check_snapshot_interval(options)
    if is_eventual(options):
        _check_eventual(changelog_mode(options, has_primary_key=True), has_primary_key=has_primary_key)
    changelog_mode(options, has_primary_key=has_primary_key)


def check_snapshot_interval(options: Mapping[str, str]) -> None:
    """Check that batches can wait for their snapshot, if they are to. Raises OptionError, InvalidRequestError."""
    for pending in (PENDING_BATCHES_MAX, PENDING_FILES_MAX, PENDING_SIZE_MAX):
        pending.of(options)
    if not SNAPSHOT_INTERVAL.of(options):
        return
    if LOG_SYSTEM.of(options) is LogSystem.NONE:
        raise InvalidRequestError(
            f"option {SNAPSHOT_INTERVAL.key!r} is for tables with a log, and the table has no log: leave it out, or "
            f"give {LOG_SYSTEM.key}={LogSystem.KAFKA.value}"
        )
    if is_eventual(options):
        raise InvalidRequestError(
            f"option {SNAPSHOT_INTERVAL.key!r} is for transactional logs: records of an eventual log decide nothing "
            f"before their batch has a snapshot; leave it out, or use {CONSISTENCY.key}=transactional"
        )


def _check_eventual(mode: ChangelogMode, *, has_primary_key: bool) -> None:
    found = f"option {CONSISTENCY.key!r} has the value 'eventual', which"
    if not has_primary_key:
        raise InvalidRequestError(
            f"{found} needs a primary key, and the table has none: a batch that runs again repeats its records, and"
            " readers know repeated ones by their key; give the table a primary key, or use 'transactional'"
        )
    if mode is ChangelogMode.ALL:
        raise InvalidRequestError(
            f"{found} does not go with {CHANGELOG_MODE.key}=all: a batch that runs again repeats its records, and an"
            f" UPDATE_BEFORE that is read twice is subtracted twice; use {CHANGELOG_MODE.key}=upsert, or"
            " 'transactional'"
        )
