"""Options of reads."""

from __future__ import annotations

from enum import StrEnum

from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import Option, choice, not_negative, parse_size_bytes, positive
from lakelog.common.quoting import listed, shown
from lakelog.filestore.options.parsing import parse_branch


class ChangeSource(StrEnum):
    """Where a reader takes changes from."""

    AUTO = "auto"  # changelog files if the table has a changelog producer, else deltas
    CHANGELOG = "changelog"
    DELTA = "delta"
    DIFFERENCE = "difference"  # the net difference of two states, neither changelog files nor deltas


def change_source(given: ChangeSource | str) -> ChangeSource:
    """The source with this name. Raises InvalidRequestError."""
    try:
        return ChangeSource(given)
    except ValueError as error:
        known = listed(one.value for one in ChangeSource)
        raise InvalidRequestError(f"the source of changes is {shown(given)}; expected one of {known}") from error


class ScanMode(StrEnum):
    """Which rows a read returns."""

    DEFAULT = "default"
    LATEST_FULL = "latest-full"
    FULL = "full"
    LATEST = "latest"
    FROM_TIMESTAMP = "from-timestamp"
    FROM_SNAPSHOT = "from-snapshot"
    FROM_SNAPSHOT_FULL = "from-snapshot-full"


SCAN_MODE = Option(
    key="scan.mode",
    parse=choice(ScanMode),
    default=ScanMode.DEFAULT,
    doc="Which rows a read gives; by default the newest snapshot, or the one that another scan option names.",
)
SCAN_SNAPSHOT_ID = Option(
    key="scan.snapshot-id",
    parse=positive,
    default=None,
    doc="The snapshot to read.",
)
SCAN_TIMESTAMP = Option(
    key="scan.timestamp",
    parse=str,
    default=None,
    doc="The time whose state is read, such as 2026-01-31 12:00:00; UTC unless a zone is given.",
    kind="a timestamp",
)
SCAN_TIMESTAMP_MILLIS = Option(
    key="scan.timestamp-millis",
    parse=not_negative,
    default=None,
    doc="The time whose state is read, in milliseconds since 1970 UTC.",
)
SCAN_FALLBACK_BRANCH: Option[str | None] = Option(
    key="scan.fallback-branch",
    parse=parse_branch,
    default=None,
    doc="A branch whose partitions reads of rows show where the table itself has none.",
)
SCAN_PRIMARY_BRANCH: Option[str | None] = Option(
    key="scan.primary-branch",
    parse=parse_branch,
    default=None,
    doc="A branch whose partitions reads of rows show in place of the table's own.",
)
SOURCE_SPLIT_TARGET_SIZE = Option(
    key="source.split.target-size",
    parse=parse_size_bytes,
    default=128 << 20,
    doc="Bytes of files that one split of a read holds; files that share keys stay together.",
)
SOURCE_SPLIT_OPEN_FILE_COST = Option(
    key="source.split.open-file-cost",
    parse=parse_size_bytes,
    default=4 << 20,
    doc="Bytes that a file counts for at least in a split: opening many small files takes time too.",
)
READ_MEMORY_BUDGET = Option(
    key="read.memory-budget",
    parse=parse_size_bytes,
    default=256 << 20,
    doc="Memory that merging may use; buckets merged at once share it, larger ones are merged in key ranges. An option "
    "of lakelog.",
)
LOOKUP_CACHE_MAX_MEMORY_SIZE = Option(
    key="lookup.cache-max-memory-size",
    parse=parse_size_bytes,
    default=256 << 20,
    doc="Memory of each Python process of Spark for what lookups of old rows have read: key columns, then rows. More "
    "is read again for each batch. Counts for tables with a log that look old rows up when they are written "
    "(`log.changelog-mode`=`all`, and tables that merge), and for streams with `scan.normalize`.",
)
