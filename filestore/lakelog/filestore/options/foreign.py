"""Options of Paimon that lakelog does not declare: those that it refuses, with what they change.

Every key of Paimon is in one of four tables, whose completeness `tests/filestore/options/test_foreign_options.py`
checks: declared (honoured, `FILESTORE_OPTIONS`), `HONOURED` here (read where they matter), `REFUSED` here, or harmless
(`lakelog.filestore.options.harmless`, with the reason). Other keys are kept and ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lakelog.common.errors import UnsupportedError
from lakelog.filestore.options.field_options import DEFAULT_AGGREGATE, MAP_LAYOUT, field_key, field_option


class OptionUse(StrEnum):
    """A use of a table; an option may matter to one use and not to another."""

    READ = "reads"
    FOLLOW = "reads of its changes"
    WRITE = "writes"
    EXPIRE_PARTITIONS = "expiry of its partitions"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An option that changes what some uses of a table mean, in a way that lakelog does not implement.

    `why` ends the sentence "the option ...". With the `harmless` values, in lower case, the option changes nothing.
    """

    uses: frozenset[OptionUse]
    why: str
    harmless: frozenset[str] = frozenset()


_FALSE = ("false",)
_READS = (OptionUse.READ, OptionUse.FOLLOW, OptionUse.WRITE)  # writers also read: old rows, buckets, files to compact
_TIME_TRAVEL = "chooses which rows every read of the table gives; name them with the read instead"
_PK_INDEX = "is an index that every compaction must keep up"


def _refused(why: str, *uses: OptionUse, unless: tuple[str, ...] = ()) -> Refusal:
    return Refusal(frozenset(uses), why, frozenset(unless))


HONOURED: Mapping[str, str] = {
    DEFAULT_AGGREGATE: "the function of columns without a function of their own",
    "force-lookup": "rows above level 0 are whole, see `lakelog.filestore.merge.lookups`",
    "index-file-in-data-file-dir": "where index files are looked for; tables that need new ones are not written",
    "primary-key.nullable": "nulls come first in the order of keys, and equal each other",
    "deduplicate.ignore-delete": "an older key of `ignore-delete`",
    "first-row.ignore-delete": "an older key of `ignore-delete`",
    "partial-update.ignore-delete": "an older key of `ignore-delete`",
    "write.compaction-skip": "an older key of `write-only`",
}
REFUSED_OPTIONS: Mapping[str, Refusal] = {
    "type": _refused("says that the files are not those of a table", *_READS, unless=("table", "materialized-table")),
    "branch": _refused("makes another branch stand for the table; open that branch", *_READS, unless=("main",)),
    "chain-table.enabled": _refused(
        "makes rows of two branches out of snapshots and deltas",
        OptionUse.READ,
        OptionUse.FOLLOW,
        OptionUse.WRITE,
        unless=_FALSE,
    ),
    "query-auth.enabled": _refused(
        "leaves it to a catalog which rows and columns a user may see", OptionUse.READ, OptionUse.FOLLOW, unless=_FALSE
    ),
    "scan.bucket": _refused("leaves out all buckets but one", OptionUse.READ, OptionUse.FOLLOW),
    "scan.partitions": _refused("leaves out all partitions but some", OptionUse.READ, OptionUse.FOLLOW),
    "scan.mode": _refused(
        _TIME_TRAVEL,
        OptionUse.READ,
        OptionUse.FOLLOW,
        unless=("default", "latest-full", "full", "latest", "latest_full"),
    ),
    "scan.snapshot-id": _refused(_TIME_TRAVEL, OptionUse.READ, OptionUse.FOLLOW),
    "scan.tag-name": _refused(_TIME_TRAVEL, OptionUse.READ, OptionUse.FOLLOW),
    "scan.version": _refused(_TIME_TRAVEL, OptionUse.READ, OptionUse.FOLLOW),
    "scan.timestamp": _refused(_TIME_TRAVEL, OptionUse.READ, OptionUse.FOLLOW),
    "scan.timestamp-millis": _refused(_TIME_TRAVEL, OptionUse.READ, OptionUse.FOLLOW),
    "scan.watermark": _refused(_TIME_TRAVEL, OptionUse.READ, OptionUse.FOLLOW),
    "scan.creation-time-millis": _refused(_TIME_TRAVEL, OptionUse.READ, OptionUse.FOLLOW),
    "scan.file-creation-time-millis": _refused(_TIME_TRAVEL, OptionUse.READ, OptionUse.FOLLOW),
    "incremental-between": _refused(_TIME_TRAVEL, OptionUse.READ, OptionUse.FOLLOW),
    "incremental-between-timestamp": _refused(_TIME_TRAVEL, OptionUse.READ, OptionUse.FOLLOW),
    "incremental-to-auto-tag": _refused(_TIME_TRAVEL, OptionUse.READ, OptionUse.FOLLOW),
    "batch-scan-mode": _refused(
        "chooses which files every read looks at", OptionUse.READ, OptionUse.FOLLOW, unless=("none",)
    ),
    "stream-scan-mode": _refused("chooses which files a stream looks at", OptionUse.FOLLOW, unless=("none",)),
    "read.changelog": _refused("gives rows with their kinds", OptionUse.READ, OptionUse.FOLLOW, unless=_FALSE),
    "sequence.snapshot-ordering": _refused(
        "orders rows of a key by the snapshots they came with", *_READS, unless=_FALSE
    ),
    "pk-clustering-override": _refused("orders files by other columns than the key", *_READS, unless=_FALSE),
    "postpone.merge-on-read": _refused("shows rows that have no bucket yet", *_READS, unless=_FALSE),
    "streaming-read-overwrite": _refused("makes the rows of overwrites changes", OptionUse.FOLLOW, unless=_FALSE),
    "streaming-read-append-overwrite": _refused(
        "makes the rows of overwrites changes", OptionUse.FOLLOW, unless=_FALSE
    ),
    "scan.bounded.watermark": _refused("ends streams at a watermark", OptionUse.FOLLOW),
    "consumer-id": _refused("starts every stream where one consumer is; name it with the read", OptionUse.FOLLOW),
    "log.ignore-delete": _refused("leaves deletes out of the changes", OptionUse.FOLLOW, unless=_FALSE),
    "ignore-update-before": _refused("drops the -U rows of what is written", OptionUse.WRITE, unless=_FALSE),
    "upsert-key": _refused("makes inserts replace the rows of equal keys", OptionUse.WRITE),
    "record-level.expire-time": _refused("makes compactions drop old rows", OptionUse.WRITE),
    "row-tracking.enabled": _refused("gives every row a number when it is committed", OptionUse.WRITE, unless=_FALSE),
    "data-evolution.enabled": _refused(
        "joins rows of several files by their numbers", OptionUse.FOLLOW, OptionUse.WRITE, unless=_FALSE
    ),
    "partition.timestamp-format.strict": _refused(
        "refuses rows whose partition values are not a time", OptionUse.WRITE, unless=_FALSE
    ),
    "write.sequence-number-init-mode": _refused(
        "keeps the newest sequence number in snapshots", OptionUse.WRITE, unless=("scan",)
    ),
    "data-file.external-paths.strategy": _refused("puts new files elsewhere", OptionUse.WRITE, unless=("none",)),
    "commit.strict-mode.last-safe-snapshot": _refused("lets commits fail beside certain others", OptionUse.WRITE),
    "manifest.format": _refused("wants manifests in another format", OptionUse.WRITE, unless=("avro",)),
    "pk-vector.index.columns": _refused(_PK_INDEX, OptionUse.WRITE),
    "pk-btree.index.columns": _refused(_PK_INDEX, OptionUse.WRITE),
    "pk-bitmap.index.columns": _refused(_PK_INDEX, OptionUse.WRITE),
    "pk-multivalue.index.columns": _refused(_PK_INDEX, OptionUse.WRITE),
    "pk-full-text.index.columns": _refused(_PK_INDEX, OptionUse.WRITE),
    "partition.expiration-strategy": _refused(
        "takes the age of a partition from other things than its values",
        OptionUse.EXPIRE_PARTITIONS,
        unless=("values-time",),
    ),
}
# `fields.<column>.<suffix>`
REFUSED_OPTION_SUFFIXES: Mapping[str, Refusal] = {
    "nested-key-null-strategy": _refused("drops nested rows with null keys", *_READS, unless=("merge",)),
    MAP_LAYOUT: _refused("stores a map in columns of its keys", *_READS, unless=("default",)),
}


def known_refusals() -> dict[str, Refusal]:
    """Every refused option of Paimon by its key, and those of columns as `fields.*.<suffix>`."""
    return {**REFUSED_OPTIONS, **{field_key("*", suffix): one for suffix, one in REFUSED_OPTION_SUFFIXES.items()}}


def refused_options(options: Mapping[str, str], use: OptionUse) -> Iterator[tuple[str, Refusal]]:
    """The options that change this use of a table in a way that lakelog does not implement, in order."""
    for key in sorted(options):
        option = field_option(key, options[key])
        refusal = REFUSED_OPTIONS.get(key) if option is None else REFUSED_OPTION_SUFFIXES.get(option.suffix)
        if refusal is not None and use in refusal.uses and options[key].strip().lower() not in refusal.harmless:
            yield key, refusal


def check_foreign_options(options: Mapping[str, str], *uses: OptionUse, table_name: str | None = None) -> None:
    """Raise UnsupportedError, naming the option, for a use that lakelog does not implement."""
    for use in uses:
        for key, refusal in refused_options(options, use):
            whose = "" if table_name is None else f" of table {table_name}"
            raise UnsupportedError(
                f"option {key}={options[key]}{whose} {refusal.why}, which {use} by lakelog do not; take the option out "
                "of the table, or use Paimon"
            )
