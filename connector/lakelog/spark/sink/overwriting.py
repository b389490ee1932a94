"""What a batch write with `mode("overwrite")` replaces, by its options and the session's conf."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from lakelog.catalog import Table
from lakelog.common.errors import InvalidRequestError
from lakelog.common.options import Option
from lakelog.filestore import FileStoreTable
from lakelog.filestore.predicate import required_predicate
from lakelog.filestore.write import Overwrite, PartitionFilter, Replaced
from lakelog.spark.options import (
    PARTITION_OVERWRITE_CONF,
    PARTITION_OVERWRITE_MODE,
    REPLACE_WHERE,
    TIMEZONE,
    WHERE,
    WRITE_OPTIONS,
    OverwriteMode,
    known_options,
)

_CONF_OVERWRITE_MODE = replace(PARTITION_OVERWRITE_MODE, key=PARTITION_OVERWRITE_CONF)  # as it is named in the session
_OF_OVERWRITES: tuple[Option[object], ...] = (WHERE, REPLACE_WHERE, PARTITION_OVERWRITE_MODE, TIMEZONE)


def parse_overwrite(given: Mapping[str, str], table: Table, *, is_overwrite: bool) -> Replaced | None:
    """What a batch write replaces; None means nothing, or for an overwrite, what the session's conf says.

    Raises OptionError, and InvalidRequestError for a condition on columns that are not partition columns.
    """
    options = known_options(given, (*WRITE_OPTIONS, *_OF_OVERWRITES))
    conditions = [option for option in (WHERE, REPLACE_WHERE) if option.of(options)]
    mode = PARTITION_OVERWRITE_MODE.of(options)
    if not conditions:
        return None if mode is None or not is_overwrite else replaced_by(mode, table.store)
    option = conditions[0]
    if not is_overwrite:
        raise InvalidRequestError(
            f'{option.key} chooses what an overwrite replaces, and this write adds rows: say mode("overwrite"), or '
            "filter the rows"
        )
    if len(conditions) > 1 or mode is OverwriteMode.DYNAMIC:
        other = PARTITION_OVERWRITE_MODE if mode is OverwriteMode.DYNAMIC else REPLACE_WHERE
        raise InvalidRequestError(
            f"{option.key} and {other.key}={other.of(options)} both say what an overwrite replaces; give one"
        )
    condition = required_predicate(option.of(options), zone=str(TIMEZONE.of(options)))
    return PartitionFilter(table.store.schema, condition)


def replaced_by(mode: OverwriteMode, table: FileStoreTable) -> Overwrite:
    """What an overwrite in a mode replaces: a table without partitions is replaced as a whole, as in Spark."""
    is_dynamic = mode is OverwriteMode.DYNAMIC and bool(table.schema.partition_keys)
    return Overwrite.WRITTEN_PARTITIONS if is_dynamic else Overwrite.EVERYTHING


def chosen_overwrite(
    table: FileStoreTable, replaces: Replaced | None, conf: str | None, partitions: Set[bytes]
) -> Replaced:
    """What an overwrite replaces by rows of these partitions; without `replaces` what the session's conf says.

    Raises OptionError, and InvalidRequestError for rows outside of its condition.
    """
    if replaces is None:
        mode = _CONF_OVERWRITE_MODE.of({} if conf is None else {PARTITION_OVERWRITE_CONF: conf})
        return replaced_by(mode or OverwriteMode.STATIC, table)
    if isinstance(replaces, PartitionFilter):
        replaces.check_inside(partitions)
    return replaces
