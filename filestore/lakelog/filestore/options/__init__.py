"""Every option of the file store, by topic. Names and defaults are Paimon's, unless the doc says otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakelog.common.errors import OptionError
from lakelog.common.options import Option, check_known
from lakelog.common.quoting import shown, typed
from lakelog.filestore.options import compaction, files, layout, merging, reading, retention, tagging, writing
from lakelog.filestore.options.field_options import PREFIX, check_suffix
from lakelog.filestore.options.files import FILE_FORMAT
from lakelog.filestore.options.flink_options import computed_column, is_flink_key, watermark
from lakelog.filestore.options.foreign import (
    REFUSED_OPTIONS,
    OptionUse,
    check_foreign_options,
    known_refusals,
)
from lakelog.filestore.options.layout import (
    CHANGELOG_FILE_PREFIX,
    LOG_BRANCH,
    TABLE_PLACE,
    TABLE_UUID,
    BucketFunction,
)
from lakelog.filestore.options.merging import (
    CHANGELOG_PRODUCER,
    CHANGELOG_ROW_DEDUPLICATE,
    CHANGELOG_ROW_DEDUPLICATE_IGNORED,
    DELETION_VECTORS,
    ROWKIND_FIELD,
    ChangelogProducer,
    MergeEngine,
)
from lakelog.filestore.options.parsing import parse_branch
from lakelog.filestore.options.reading import (
    LOOKUP_CACHE_MAX_MEMORY_SIZE,
    READ_MEMORY_BUDGET,
    SCAN_SNAPSHOT_ID,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
)
from lakelog.filestore.options.retention import USERS_TIME_RETAINED
from lakelog.filestore.options.writing import LINEAGE_CAPTURE, LINEAGE_FIELDS, WRITE_ONLY

__all__ = [
    "CHANGELOG_FILE_PREFIX",
    "CHANGELOG_PRODUCER",
    "CHANGELOG_ROW_DEDUPLICATE",
    "CHANGELOG_ROW_DEDUPLICATE_IGNORED",
    "DELETION_VECTORS",
    "FILESTORE_OPTIONS",
    "FILE_FORMAT",
    "LEFT_OUT",
    "LINEAGE_CAPTURE",
    "LINEAGE_FIELDS",
    "LOG_BRANCH",
    "LOOKUP_CACHE_MAX_MEMORY_SIZE",
    "READ_MEMORY_BUDGET",
    "ROWKIND_FIELD",
    "SCAN_SNAPSHOT_ID",
    "SCAN_TIMESTAMP",
    "SCAN_TIMESTAMP_MILLIS",
    "TABLE_PLACE",
    "TABLE_UUID",
    "USERS_TIME_RETAINED",
    "WRITE_ONLY",
    "BucketFunction",
    "ChangelogProducer",
    "MergeEngine",
    "OptionUse",
    "check_foreign_options",
    "check_options",
    "computed_column",
    "is_same",
    "known_refusals",
    "parse_branch",
    "watermark",
]

FILESTORE_OPTIONS: tuple[Option[object], ...] = tuple(
    value
    for topic in (layout, merging, files, writing, compaction, retention, tagging, reading)
    for value in vars(topic).values()
    if isinstance(value, Option)
)


# What writers leave out, with a warning in the log, while they do not understand such an option of a table.
LEFT_OUT: Mapping[str, str] = {
    option.key: effect
    for topic, effect in (
        (retention, "writers expire no snapshots"),
        (compaction, "writers do not compact"),
        (tagging, "writers make no tags"),
    )
    for option in FILESTORE_OPTIONS
    if option in vars(topic).values()
}
_DECLARED = {option.key: option for option in FILESTORE_OPTIONS}


def is_same(key: str, one: str, other: str) -> bool:
    """Whether two texts are one value of an option, such as `1 d` and `24 h`; other options have no two spellings."""
    option = _DECLARED.get(key)
    if one == other or option is None:
        return one == other
    try:
        return option.of({key: one}) == option.of({key: other})
    except OptionError:
        return False


def check_options(
    given: Mapping[str, str], *, also: Iterable[Option[object]] = (), also_prefixes: Iterable[str] = ()
) -> None:
    """Raise OptionError for the first unknown key, or value that is not a string or is outside its type.

    The error for an option of Paimon that changes what a table means, in a way that lakelog does not implement, says
    so.

    `also` and `also_prefixes` are the options of other parts of a table. It is for options that a user gives: unknown
    options that a table already has are kept and ignored.
    """
    for key, value in given.items():
        if not isinstance(value, str):
            raise OptionError(
                f"option {shown(key)} is {typed(value)}; expected a string, such as {str(value).lower()!r}"
            )
    declared = (*FILESTORE_OPTIONS, *also)
    keys = {option.key for option in declared}
    for key, refusal in REFUSED_OPTIONS.items():
        if key in given and key not in keys:
            raise OptionError(f"option {key!r} of Paimon {refusal.why}, which lakelog does not do; leave it out")
    given = {key: value for key, value in given.items() if not is_flink_key(key)}
    check_known(given, declared, (PREFIX, *also_prefixes))
    for key in given:
        if key.startswith(PREFIX):
            check_suffix(key)
    for option in declared:
        option.of(given)
