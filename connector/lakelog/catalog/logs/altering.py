"""Changes of the schema of a table with a log: only those after which older records in the topic stay readable.

Records are JSON objects whose keys are column names. A reader ignores columns that its schema lacks, and takes null for
columns that a record lacks. So newer and older schemas read a log correctly as long as no name changes its meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lakelog.common.errors import InvalidRequestError, UnsupportedError
from lakelog.common.types import DataField, DataType, TypeRoot
from lakelog.filestore import FileStoreTable
from lakelog.filestore.alter import SchemaChanges, SchemaCheck, alter_schema
from lakelog.filestore.schema import ColumnPath, TableSchema, dotted, named_fields
from lakelog.logstore.client_settings import PROFILE as PROFILE_SETTING
from lakelog.logstore.client_settings import refused_of_tables
from lakelog.logstore.options import (
    COMPRESSION,
    KAFKA_PREFIX,
    LOG_SYSTEM,
    LOGSTORE_OPTIONS,
    MAX_RECORD_SIZE,
    ON_UNTRACKED,
    PREFIXES,
    PROGRESS_TOPIC,
    REPLICATION_FACTOR,
    RETENTION,
    SCAN,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_TIMESTAMP_MILLS,
    UNAVAILABLE_TIMEOUT,
    LogSystem,
    check_snapshot_interval,
    client_config,
    kafka_options,
)
from lakelog.protocol.access import log_of
from lakelog.protocol.state import check_change_tracking, check_loggable

_LOG_PREFIX = "log."
_OF_THE_TOPIC = (REPLICATION_FACTOR.key, MAX_RECORD_SIZE.key, COMPRESSION.key)
_CHANGEABLE = (
    SCAN.key,
    SCAN_TIMESTAMP_MILLIS.key,
    SCAN_TIMESTAMP_MILLS.key,
    RETENTION.key,
    UNAVAILABLE_TIMEOUT.key,
    PROGRESS_TOPIC.key,
    ON_UNTRACKED.key,
)


def alter_table(
    store: FileStoreTable,
    warehouse: str,
    changes: SchemaChanges,
    *,
    kafka: Mapping[str, str] | None = None,
    check: SchemaCheck | None = None,
) -> TableSchema:
    """Apply changes that keep the log readable to the newest schema of a table. See `Table.alter`.

    `kafka` has the user's own settings of Kafka clients, `check` is one more check of the newest schema and the next.
    Raises UnsupportedError for changes that would make records in the log unreadable.
    """

    def check_all(old: TableSchema, new: TableSchema) -> None:
        if check is not None:
            check(old, new)
        check_log_options(old.options, new.options)
        check_snapshot_interval(new.options)
        if LOG_SYSTEM.of(new.options) is LogSystem.NONE:
            return
        check_change_tracking(new, table_name=store.name)
        older = [store.schemas.get(number) for number in store.schemas.list_ids()]
        check_log_is_read(old, new, older, table_name=store.name)
        if client_config(new.options) != _without_refused(old.options):
            log = log_of(new, warehouse, path=store.path, kafka=kafka)
            assert log is not None
            log.check_topic()

    return alter_schema(store, changes, check=check_all, also=LOGSTORE_OPTIONS, also_prefixes=PREFIXES)


def check_log_options(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise InvalidRequestError for a change of a log option that is fixed for a table or would have no effect.

    The start of streams, the retention of records and the settings of clients can be changed.
    """
    client_config(new)
    has_log = LOG_SYSTEM.of(old) is LogSystem.KAFKA
    for key in sorted(key for key in old.keys() | new.keys() if key.startswith(_LOG_PREFIX)):
        if old.get(key) == new.get(key):
            continue
        is_of_clients = key.startswith(KAFKA_PREFIX)
        if has_log and (key in _CHANGEABLE or is_of_clients):
            continue
        if is_of_clients and key not in new:  # settings that no table may hold can be removed from any table
            continue
        if key in _OF_THE_TOPIC:
            raise InvalidRequestError(
                f"option {key!r} is given to a topic when it is made, and changing it here would have no effect; "
                "change the topic with Kafka's own tools, or make another one: lakelog log renew"
            )
        why = (
            "log and files would hold different rows"
            if has_log
            else "the table has no log; `lakelog log add` or Table.log_store.add gives it one, with these options"
        )
        values = "" if is_of_clients else f" from {old.get(key)} to {new.get(key)}"  # settings of clients may be secret
        raise InvalidRequestError(f"option {key!r} cannot be changed{values}: {why}")


def _without_refused(options: Mapping[str, str]) -> dict[str, str]:
    """The options without the settings of clients that a table must not hold."""
    settings = kafka_options(options)
    refused = {PROFILE_SETTING, *refused_of_tables(settings)}
    return {key: value for key, value in settings.items() if key not in refused}


def check_log_is_read(old: TableSchema, new: TableSchema, older: Iterable[TableSchema], *, table_name: str) -> None:
    """Raise UnsupportedError unless every schema reads records of every other one correctly. Pure.

    `older` has all schemas that the table has had: each of their names belongs to its column forever, since records
    hold values under that name.
    """
    check_loggable(new, table_name=table_name)
    before = {field.id: (path, field) for path, field in named_fields(old.fields)}
    after = {field.id: (path, field) for path, field in named_fields(new.fields)}
    for number, (path, field) in before.items():
        if number in after:
            _check_same(path, field, *after[number], table_name=table_name)
        elif not field.type.nullable:
            raise UnsupportedError(
                f"column {dotted(path)!r} of table {table_name} is NOT NULL and cannot be dropped: the table has a "
                "log, whose running readers would find no value for it"
            )
    meanings = {path: field.id for schema in older for path, field in named_fields(schema.fields)}
    for number, (path, _) in after.items():
        if meanings.get(path, number) != number:
            raise UnsupportedError(
                f"table {table_name} had another column {dotted(path)!r} before, and its log may still hold values "
                "under that name; choose another name"
            )


def _check_same(old_path: ColumnPath, old: DataField, new_path: ColumnPath, new: DataField, *, table_name: str) -> None:
    if old_path != new_path:
        raise UnsupportedError(
            f"column {dotted(old_path)!r} of table {table_name} cannot be renamed: the table has a log, whose records "
            "hold values by the names of columns"
        )
    if _without_members(old.type) != _without_members(new.type):
        raise UnsupportedError(
            f"column {dotted(old_path)!r} of table {table_name} is {old.type} and cannot become {new.type}: the table "
            "has a log, which streams with the older type read; add a column instead"
        )


def _without_members(kind: DataType) -> object:
    """A type without the members of its row types, which are compared one by one."""
    if not kind.is_nested:
        return kind
    if kind.root is TypeRoot.ROW:
        return kind.root, kind.nullable
    inner = tuple(None if part is None else _without_members(part) for part in (kind.element, kind.key, kind.value))
    return kind.root, kind.nullable, inner
