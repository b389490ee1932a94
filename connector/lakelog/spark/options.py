"""Options of reads and writes by `format("lakelog")`. Spark passes their keys in lower case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING

from lakelog.catalog import Table
from lakelog.catalog.names.peer_words import check_options
from lakelog.common.errors import InvalidRequestError, OptionError, UnsupportedError
from lakelog.common.options import Option, check_known, choice, parse_bool, parse_size_bytes, positive
from lakelog.common.timestamps import zone_of
from lakelog.filestore.io import EXTERNAL_PATHS, S3_OPTIONS, store_options
from lakelog.lineage.records.sources import parse_sources
from lakelog.logstore.client_settings import is_secret
from lakelog.logstore.options import CHANGE_TRACKING, ON_UNTRACKED
from lakelog.logstore.options import SCAN as LOG_SCAN
from lakelog.protocol.access import CALL_PREFIX
from lakelog.spark.logging_level import LOGGING_LEVEL
from lakelog.spark.shown_range import RANGE_OPTIONS, ShownRange, parse_range
from lakelog.spark.tables import resolve_table
from lakelog.streams.options.log_options import LOG_READ_OPTIONS, parse_log_reading
from lakelog.streams.options.normalize_option import SCAN_NORMALIZE, parse_normalize
from lakelog.streams.options.shown_state import (
    BRANCH,
    NEWEST,
    PAIMON_STATE_OPTIONS,
    SCAN_BRANCH,
    STATE_OPTIONS,
    ShownState,
    branch_of,
    named_version,
    parse_state,
)
from lakelog.streams.options.stream_read import CONSUMER_ID, StreamRead

if TYPE_CHECKING:
    from lakelog.filestore.predicate import Predicate


def parse_columns(text: str) -> tuple[str, ...]:
    """Names of columns with commas; a name that has a comma or a backtick is in backticks, as in SQL."""
    found = (quoted.replace("``", "`") or plain.strip() for quoted, plain in _COLUMN.findall(text))
    return tuple(name for name in found if name)


_COLUMN = re.compile(r"\s*`((?:[^`]|``)*)`\s*(?:,|$)|([^,]+)")
PARTITION_OVERWRITE_CONF = "spark.sql.sources.partitionOverwriteMode"


class OverwriteMode(StrEnum):
    """What an overwrite of a partitioned table replaces: everything, or the partitions of the new rows."""

    STATIC = "static"
    DYNAMIC = "dynamic"


PATH = Option(
    key="path",
    parse=str,
    default="",
    doc="The folder of the table; what `load(path)` and `save(path)` set. One in an object store takes `s3.*` options.",
    kind="a folder",
)
TABLE = Option(
    key="table",
    parse=str,
    default="",
    doc="The table's identifier in the warehouse that `warehouse` names, in place of `path`.",
    kind="database.table",
)
WAREHOUSE = Option(
    key="warehouse",
    parse=str,
    default="",
    doc="The folder of the warehouse that holds `table`.",
    kind="a folder",
)
COLUMNS: Option[tuple[str, ...]] = Option(
    key="columns",
    parse=parse_columns,
    default=(),
    doc="The columns to read, with commas, a name with a comma in backticks; all without it. Spark does not tell a "
    "Python source which columns it needs.",
)
WHERE = Option(
    key="where",
    parse=str,
    default="",
    doc="A condition in Spark SQL: only rows that pass are read. Files that cannot hold one are skipped. With "
    '`mode("overwrite")` a condition on partition columns: the partitions that meet it are replaced.',
    kind="a condition",
)
REPLACE_WHERE = Option(
    key="replaceWhere",
    parse=str,
    default="",
    doc="`where` of an overwrite, by the name that Delta has for it.",
    kind="a condition",
)
PARTITION_OVERWRITE_MODE: Option[OverwriteMode | None] = Option(
    key="partitionOverwriteMode",
    parse=choice(OverwriteMode),
    default=None,
    doc='What `mode("overwrite")` replaces: `static` the table, `dynamic` the partitions of the new rows. Without it '
    "the session's `spark.sql.sources.partitionOverwriteMode` says so.",
)
TIMEZONE: Option[tzinfo] = Option(
    key="timezone",
    parse=zone_of,
    default=UTC,
    doc="The zone of timestamps without one in `where` and `timestamp`; `UTC` without it.",
    kind="a zone such as Europe/Berlin or +01:00",
)
ROW_KIND = Option(
    key="row-kind",
    parse=parse_bool,
    default=False,
    doc="Adds the column `_row_kind` (`+I`, `-U`, `+U`, `-D`). Without it a stream gives only rows that are there "
    "after a change (`+I` and `+U`), never deletes and old values.",
)
MAX_ROWS_PER_TRIGGER: Option[int | None] = Option(
    key="maxRowsPerTrigger",
    parse=positive,
    default=None,
    doc="About how many records a micro-batch of a stream reads at most. It ends at a transaction, or "
    "at a snapshot where it follows files: one that is larger is read whole.",
)
MAX_BYTES_PER_TRIGGER: Option[int | None] = Option(
    key="maxBytesPerTrigger",
    parse=parse_size_bytes,
    default=None,
    doc="About how many bytes of files or log a micro-batch of a stream reads at most, as `maxRowsPerTrigger`.",
)
FRESH = Option(
    key="scan.fresh",
    parse=parse_bool,
    default=False,
    doc="Whether a batch read shows, beside the newest snapshot, what is committed in the table's log behind it when "
    "the read is planned. Without a log that is the newest snapshot.",
)
MERGE_SCHEMA = Option(
    key="mergeSchema",
    parse=parse_bool,
    default=False,
    doc="Whether a write adds columns that the table lacks, nullable, in one schema change before it. Without it an "
    "unknown column is an error.",
)
COMMIT_USER = Option(
    key="commit-user",
    parse=str,
    default="",
    doc="The name under which a stream commits, in place of Spark's query id: the same over restarts, for one query.",
)
LINEAGE_JOB = Option(
    key="lineage.job",
    parse=str,
    default="",
    doc="The name of the job that a write records in its commit. Without it a stream has that of its query, else the "
    "query's id, and a batch write none.",
    kind="a name",
)
LINEAGE_JOB_TAKEOVER = Option(
    key="lineage.job.takeover",
    parse=parse_bool,
    default=False,
    doc="Whether a stream takes over the name of its job from another query that has written the table under it. "
    "Without it that is an error.",
)
LINEAGE_SOURCES: Option[tuple[str, ...] | None] = Option(
    key="lineage.sources",
    parse=parse_sources,
    default=None,
    doc="What the rows of a write are made from, with commas: `db.a@12` is snapshot 12 of a table of the same "
    "warehouse, `db.a` one whose snapshot is not known, a folder a table elsewhere, `none` nothing but what the "
    "checkpoint of a stream names. Such a write does not see the plan of its query: without the option its commit "
    "records that the sources are unknown.",
    kind="db.table@snapshot, ...",
)

SPARK_OPTIONS: tuple[Option[object], ...] = (
    PATH,
    TABLE,
    WAREHOUSE,
    COLUMNS,
    WHERE,
    REPLACE_WHERE,
    PARTITION_OVERWRITE_MODE,
    *STATE_OPTIONS,
    *RANGE_OPTIONS,
    TIMEZONE,
    ROW_KIND,
    SCAN_NORMALIZE,
    MAX_ROWS_PER_TRIGGER,
    MAX_BYTES_PER_TRIGGER,
    *LOG_READ_OPTIONS,
    CONSUMER_ID,
    FRESH,
    COMMIT_USER,
    MERGE_SCHEMA,
    LINEAGE_JOB,
    LINEAGE_JOB_TAKEOVER,
    LINEAGE_SOURCES,
    LOGGING_LEVEL,
)
_OF_WRITES = (
    COMMIT_USER,
    REPLACE_WHERE,
    PARTITION_OVERWRITE_MODE,
    MERGE_SCHEMA,
    LINEAGE_JOB,
    LINEAGE_JOB_TAKEOVER,
    LINEAGE_SOURCES,
)
READ_OPTIONS = (
    *(option for option in SPARK_OPTIONS if option not in _OF_WRITES),
    *PAIMON_STATE_OPTIONS,
    SCAN_BRANCH,
    LOG_SCAN,
    ON_UNTRACKED,
    EXTERNAL_PATHS,
    *S3_OPTIONS,
)
WRITE_OPTIONS = (
    CHANGE_TRACKING,
    PATH,
    TABLE,
    WAREHOUSE,
    BRANCH,
    SCAN_BRANCH,
    COMMIT_USER,
    MERGE_SCHEMA,
    LINEAGE_JOB,
    LINEAGE_JOB_TAKEOVER,
    LINEAGE_SOURCES,
    LOGGING_LEVEL,
    EXTERNAL_PATHS,
    *S3_OPTIONS,
)
# What Spark itself adds to the user's options.
_OF_SPARK = frozenset({"checkpointlocation", "queryname", "provider", "owner", "is_managed_location"})
_LOCATION = "location"  # from the path of CREATE TABLE; Spark asks us for the columns
_OPEN_PREFIXES = ("option.", "__", CALL_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions(StreamRead):
    """What a read asks for."""

    between: ShownRange | None = None
    fresh: bool = False
    given: frozenset[str] = frozenset()  # the keys of the options that are given


def open_from_options(given: Mapping[str, str]) -> Table:
    """The table that the options name, or the branch of it.

    Raises InvalidRequestError when they name none, NotFoundError, and UnsupportedError for CREATE TABLE.
    """
    options = {key.lower(): value for key, value in given.items()}
    passed = {key: value for key, value in options.items() if key.startswith(CALL_PREFIX)}
    for key in passed:
        if is_secret(key):
            raise OptionError(
                f"option {key!r} is secret, and Spark keeps options in its plans; put it into a profile, and give the "
                f"option {CALL_PREFIX}profile"
            )
    passed |= store_options(options)
    found = _named_table(options, passed)
    branch = branch_of(options)
    return found if branch is None else found.branch(branch)


def _named_table(options: Mapping[str, str], passed: Mapping[str, str]) -> Table:
    path, table, warehouse = PATH.of(options), TABLE.of(options), WAREHOUSE.of(options)
    if _LOCATION in options:
        raise UnsupportedError(_no_create_table(path or options[_LOCATION]))
    if table:
        if path:
            raise InvalidRequestError(f"give 'path' ({path}) or 'table' ({table}), not both")
        return resolve_table(table, warehouse=warehouse or None, options=passed)
    if not path:
        raise InvalidRequestError(
            "no table is named: give a path, load(path) or save(path), or the options 'table' and 'warehouse'. "
            f"{_no_create_table('/folder')}"
        )
    return resolve_table(path, warehouse=warehouse or None, options=passed)


def open_for_read(given: Mapping[str, str]) -> Table:
    """The table that the options name, or the branch of it. Raises like `open_from_options`."""
    table = open_from_options(given)
    version = named_version(given)
    if version is None:
        return table
    files = table.store.travelled(version=version)[0]
    if files.branch == table.store.branch:
        return table
    return Table(files, identifier=table.identifier, kafka=table.kafka)


def read_of(given: Mapping[str, str], table: Table, named: ShownState = NEWEST) -> tuple[Table, ReadOptions]:
    """A batch read of a table in the columns of a state, which `named` or else its options name.

    A read with an option of the log or of streams has the newest columns. Raises as `parse_read_options`.
    """
    options = known_options(given, READ_OPTIONS)
    state = parse_state(options, TIMEZONE.of(options)) if named == NEWEST else named
    following = (CONSUMER_ID, MAX_ROWS_PER_TRIGGER, MAX_BYTES_PER_TRIGGER, LOG_SCAN, *LOG_READ_OPTIONS)
    if state != NEWEST and not any(option.key in options for option in following):
        table = table._of(table.store.travelled(**state.choice)[0])
    return table, parse_read_options(given, table)


def _no_create_table(path: str) -> str:
    return (
        "CREATE TABLE ... USING lakelog is not supported: Spark gives options and location of such a table to no read. "
        f"Use CREATE TEMPORARY VIEW ... USING lakelog OPTIONS (path '{path}'), or lakelog.spark.read(spark, "
        "path). A new table is made with Catalog.create_table, or `lakelog table create`; a table that Spark has made "
        "of columns is in its own catalog alone: DROP TABLE removes it, and no row"
    )


def parse_read_options(given: Mapping[str, str], table: Table) -> ReadOptions:
    """The options of a read, checked against the table. Raises OptionError, InvalidRequestError."""
    options = known_options(given, READ_OPTIONS)
    columns = COLUMNS.of(options) or None
    if columns is not None:
        columns = tuple(field.name for field in table.schema.chosen(columns))
    where = _parse_where(options, table)
    has_row_kind = ROW_KIND.of(options)
    log = parse_log_reading(options, table.schema.options)
    state, between = parse_state(options, TIMEZONE.of(options)), parse_range(options, TIMEZONE.of(options))
    if between is not None and (state != NEWEST or log.reads_batch):
        raise InvalidRequestError("a read shows the changes between two states, or one state, or the log: give one")
    if FRESH.of(options) and (state != NEWEST or between is not None or log.reads_batch):
        raise InvalidRequestError(f"{FRESH.key} shows the newest state, and another option names other rows: give one")
    return ReadOptions(
        columns=columns,
        where=where,
        state=state,
        between=between,
        has_row_kind=has_row_kind,
        normalizes=parse_normalize(options, log, has_row_kind=has_row_kind),
        log=log,
        max_rows=MAX_ROWS_PER_TRIGGER.of(options),
        max_bytes=MAX_BYTES_PER_TRIGGER.of(options),
        consumer_id=CONSUMER_ID.of(options) or None,
        on_untracked=ON_UNTRACKED.of({**table.schema.options, **options}),
        fresh=FRESH.of(options),
        given=frozenset(options),
    )


def check_stream_write_options(given: Mapping[str, str]) -> str | None:
    """The commit user that the options of a streaming write give, if any. Raises OptionError."""
    if chosen_tracking(given) is not None:
        raise InvalidRequestError(
            f"{CHANGE_TRACKING.key} is for a table with a log, which this stream does not write: leave it out, or use"
            " lakelog.spark.write_stream(..., change_tracking=...)"
        )
    return COMMIT_USER.of(known_options(given, WRITE_OPTIONS)) or None


def declared_lineage(given: Mapping[str, str]) -> tuple[str | None, tuple[str, ...] | None]:
    """The job and the sources that a write declares; None for each that it does not declare. Raises OptionError."""
    options = known_options(given, (*WRITE_OPTIONS, *_OF_WRITES, WHERE, TIMEZONE))
    return LINEAGE_JOB.of(options) or None, LINEAGE_SOURCES.of(options)


def takes_over_job(given: Mapping[str, str]) -> bool:
    """Whether a streaming write takes over the name of its job from another query. Raises OptionError."""
    return LINEAGE_JOB_TAKEOVER.of(known_options(given, WRITE_OPTIONS))


def chosen_tracking(given: Mapping[str, str]) -> bool | None:
    """Whether a write says that its changes are logged or not; None if it says nothing. Raises OptionError."""
    spelled = {key.lower(): value for key, value in given.items()}
    return CHANGE_TRACKING.of(spelled) if CHANGE_TRACKING.key in spelled else None


def merges_schema(given: Mapping[str, str]) -> bool:
    """Whether a write adds columns that the table lacks. Raises OptionError."""
    spelled = {key.lower(): value for key, value in given.items()}
    key = MERGE_SCHEMA.key
    return MERGE_SCHEMA.of({key: spelled[key.lower()]} if key.lower() in spelled else {})


def _parse_where(options: Mapping[str, str], table: Table) -> Predicate | None:
    text = WHERE.of(options)
    if not text:
        return None
    from lakelog.filestore.predicate import predicate_of  # loads polars

    return predicate_of(text, zone=str(TIMEZONE.of(options)), fields=table.schema.fields)


def known_options(given: Mapping[str, str], known: tuple[Option[object], ...]) -> dict[str, str]:
    """The options under their declared keys. Raises OptionError for an unknown key."""
    spelled = {option.key.lower(): option.key for option in known}
    options = {spelled.get(key.lower(), key): value for key, value in given.items()}
    asked = {
        key: value
        for key, value in options.items()
        if key.lower() not in _OF_SPARK and not key.startswith(_OPEN_PREFIXES)
    }
    check_options(asked, {option.key for option in known})
    check_known(asked, known)
    return options
