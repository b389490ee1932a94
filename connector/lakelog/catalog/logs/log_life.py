"""Adding, removing and renewing the log of an existing table, with checks of the options that users give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.catalog.names.durations import Age, age_millis
from lakelog.common.clock import system_millis
from lakelog.common.errors import OptionError
from lakelog.common.options import check_known
from lakelog.filestore.options import LOG_BRANCH, TABLE_PLACE, TABLE_UUID
from lakelog.filestore.schema import MAIN_BRANCH
from lakelog.logstore.options import (
    BOOTSTRAP_SERVERS,
    LOGSTORE_OPTIONS,
    PREFIXES,
    PROFILE,
    RETENTION,
    TOPIC,
    TOPIC_ID,
    check_log_modes,
    client_config,
)
from lakelog.protocol.access import require_kafka_client

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.schema import TableSchema
    from lakelog.warehouse.identifier import Identifier

SET_BY_LAKELOG = (TOPIC, TOPIC_ID, TABLE_UUID, TABLE_PLACE, LOG_BRANCH)


def check_not_set_by_lakelog(options: Mapping[str, str]) -> None:
    """Raise OptionError for an option that lakelog sets itself."""
    for option in SET_BY_LAKELOG:
        if option.key in options:
            raise OptionError(f"option {option.key!r} is set by lakelog when it makes a table; leave it out")


def with_servers(options: Mapping[str, str], bootstrap_servers: str | None) -> dict[str, str]:
    """The options of a table with a log; where they name no servers, those of its catalog. Raises OptionError."""
    given = dict(options)
    if bootstrap_servers and not BOOTSTRAP_SERVERS.of(given) and not PROFILE.of(given):
        given[BOOTSTRAP_SERVERS.key] = bootstrap_servers
    client_config(given)
    return given


def add_log(
    table: FileStoreTable,
    identifier: Identifier,
    options: Mapping[str, str],
    *,
    kafka: Mapping[str, str],
    bootstrap_servers: str | None,
) -> FileStoreTable:
    """See `Table.log_store.add`."""
    check_not_set_by_lakelog(options)
    check_known(options, LOGSTORE_OPTIONS, PREFIXES)
    given = with_servers(options, bootstrap_servers)
    require_kafka_client()
    from lakelog.protocol.life import add_log as add

    return add(table, given, check=_check, topic_of=identifier.topic, kafka=kafka)


def _check(schema: TableSchema) -> None:
    from lakelog.filestore.verbs import check_new_table
    from lakelog.protocol.state import check_change_tracking

    check_new_table(schema)
    check_log_modes(schema.options, has_primary_key=bool(schema.primary_keys))
    check_change_tracking(schema, table_name="that gets a log")


def remove_log(
    table: FileStoreTable, *, keep_topic: bool, skip_unreadable: bool, kafka: Mapping[str, str]
) -> FileStoreTable:
    """See `Table.log_store.remove`."""
    require_kafka_client()
    from lakelog.protocol.life import remove_log as remove

    return remove(table, keep_topic=keep_topic, skip_unreadable=skip_unreadable, kafka=kafka)


def renew_log(
    table: FileStoreTable, identifier: Identifier, *, keep_topic: bool, skip_unreadable: bool, kafka: Mapping[str, str]
) -> FileStoreTable:
    """See `Table.log_store.renew`."""
    require_kafka_client()
    from lakelog.protocol.life import renew_log as renew

    return renew(table, topic_of=identifier.topic, keep_topic=keep_topic, skip_unreadable=skip_unreadable, kafka=kafka)


def rescale_log(
    table: FileStoreTable, identifier: Identifier, buckets: int, *, kafka: Mapping[str, str]
) -> FileStoreTable:
    """See `Table.upkeep.rescale`, for a table with a log."""
    require_kafka_client()
    from lakelog.protocol.life import rescale_log

    return rescale_log(table, buckets, topic_of=identifier.topic, kafka=kafka)


def drop_ended_logs(table: FileStoreTable, older_than: Age | None, *, kafka: Mapping[str, str]) -> list[str]:
    """See `Table.log_store.drop_ended`."""
    now_millis = system_millis()
    retention = RETENTION.of(table.schema.options)
    age = retention if older_than is None else age_millis(older_than, now_millis=now_millis)
    require_kafka_client()
    from lakelog.protocol.life import drop_ended_logs as drop

    return drop(table, age_millis=age, now_millis=now_millis, kafka=kafka)


def identifier_for_topics(identifier: Identifier | None, path: str, branch: str = MAIN_BRANCH) -> Identifier:
    """The identifier after which the topic of a table or branch is named; a made-up one outside of a warehouse."""
    from lakelog.warehouse.identifier import Identifier

    named = identifier or Identifier("copy", path.rpartition("/")[2])
    return named if branch == MAIN_BRANCH else Identifier(named.database, f"{named.table}-{branch}")
