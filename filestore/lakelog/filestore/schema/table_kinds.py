"""Kinds of tables by their options and by whether they have a primary key, for `TableSchema`. Pure.

"As users see it" and "as files have it" differ for two kinds: value-count tables, see `counted_schema`, and logged
tables that are merged when they are written, see `merged_schema`.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakelog.common.errors import InvalidRequestError
from lakelog.common.log_system import has_log, logs_old_values
from lakelog.common.options import Option
from lakelog.common.quoting import listed
from lakelog.filestore.options.merging import (
    CHANGELOG_PRODUCER,
    IGNORE_DELETE,
    MERGE_ENGINE,
    SEQUENCE_FIELD,
    WRITE_MODE,
    ChangelogProducer,
    StoreWriteMode,
)

_OF_KEYS: tuple[Option[object], ...] = (MERGE_ENGINE, SEQUENCE_FIELD, IGNORE_DELETE)
COUNT_MARK = "lakelog.row-count-column"  # only in the files of value-count tables
BY_COMPACTION = "lakelog.changelog-by-compaction"  # only as users see a schema: `lookup` is in the schema file


def is_change_log(options: Mapping[str, str], *, has_key: bool) -> bool:
    """Whether a table, as users see it, is a value-count table."""
    return not has_key and WRITE_MODE.of(options) is StoreWriteMode.CHANGE_LOG


def is_counted(options: Mapping[str, str]) -> bool:
    """Whether a table, as files have it, counts rows."""
    return COUNT_MARK in options


def is_merged_at_write(options: Mapping[str, str], *, has_key: bool) -> bool:
    """Whether a table, as users see it, has a log and does not keep the last row of a key.

    The counts in the files of a value-count table do not count as such: the schema of these files has a key and a log
    too.
    """
    if is_counted(options):
        return False
    if not (has_key and has_log(options)):
        return False
    keeps_last = MERGE_ENGINE.of(options).traits.keeps_last and not SEQUENCE_FIELD.of(options)
    return not keeps_last or IGNORE_DELETE.of(options)


def looks_up_old_rows(options: Mapping[str, str], *, has_key: bool) -> bool:
    """Whether each write looks up the rows that its keys have, for a table as users see it."""
    return is_merged_at_write(options, has_key=has_key) or (has_key and logs_old_values(options))


def has_changelog_at_write(options: Mapping[str, str], *, has_key: bool) -> bool:
    """Whether each batch writes changelog files of its changes, for a table as users see it."""
    if not looks_up_old_rows(options, has_key=has_key) or BY_COMPACTION in options:
        return False
    return CHANGELOG_PRODUCER.of(options) is ChangelogProducer.LOOKUP


def check_need_no_key(options: Mapping[str, str], *, has_key: bool) -> None:
    """Raise InvalidRequestError if a table without primary key gets an option that works on keys alone."""
    for option in () if has_key else _OF_KEYS:
        if option.of(options) != option.default:
            keys = listed(one.key for one in _OF_KEYS)
            raise InvalidRequestError(f"{keys} need a primary key, found {option.key}; give the table one")
