"""Adding, removing and renewing the log of an existing table, with checks of the options that users give."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lakelog.catalog.logs.log_verbs import settle_newest, settled, waiting
from lakelog.catalog.names.durations import Age, age_millis
from lakelog.common.clock import system_millis
from lakelog.common.errors import LakelogError, OptionError
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
from lakelog.protocol.access import is_copy, require_kafka_client

if TYPE_CHECKING:
    from lakelog.filestore import FileStoreTable
    from lakelog.filestore.schema import TableSchema
    from lakelog.warehouse.handle import TableHandle

logger = logging.getLogger("lakelog.catalog")

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


def add_log(table: TableHandle, options: Mapping[str, str]) -> FileStoreTable:
    """See `Table.log_store.add`."""
    check_not_set_by_lakelog(options)
    check_known(options, LOGSTORE_OPTIONS, PREFIXES)
    given = with_servers(options, table._bootstrap_servers)
    require_kafka_client()
    from lakelog.protocol.life import add_log as add

    return add(table.store, given, check=_check, topic_of=_topic_of(table), kafka=table.kafka)


def _check(schema: TableSchema) -> None:
    from lakelog.filestore.verbs import check_new_table
    from lakelog.protocol.state import check_change_tracking

    check_new_table(schema)
    check_log_modes(schema.options, has_primary_key=bool(schema.primary_keys))
    check_change_tracking(schema, table_name="that gets a log")


def remove_log(table: TableHandle, *, keep_topic: bool, skip_unreadable: bool) -> FileStoreTable:
    """See `Table.log_store.remove`."""
    require_kafka_client()
    from lakelog.protocol.life import remove_log as remove

    try:
        settle_newest(table, {})
    except LakelogError:  # `remove` warns of what it leaves out
        if not skip_unreadable:
            raise
    return remove(table.store, keep_topic=keep_topic, skip_unreadable=skip_unreadable, kafka=table.kafka)


def renew_log(table: TableHandle, *, keep_topic: bool, skip_unreadable: bool) -> FileStoreTable:
    """See `Table.log_store.renew`."""
    require_kafka_client()
    from lakelog.protocol.life import renew_log as renew

    return renew(
        table.store,
        topic_of=_topic_of(table),
        keep_topic=keep_topic,
        skip_unreadable=skip_unreadable,
        kafka=table.kafka,
    )


def rescale_log(table: TableHandle, buckets: int) -> FileStoreTable:
    """See `Table.upkeep.rescale`, for a table with a log."""
    require_kafka_client()
    from lakelog.protocol.life import rescale_log

    return rescale_log(table.store, buckets, topic_of=_topic_of(table), kafka=table.kafka)


def lost_with_identity(table: TableHandle) -> str | None:
    """What the log alone has and no snapshot can take in, as a sentence; what can be taken in, is.

    A copy has what its snapshots have: the log is that of its original. A table that has lost its state says nothing.
    """
    try:
        names = "" if is_copy(table.store) else waiting(table)
    except LakelogError:  # the folder of the original cannot be read, or the state is lost: this verb is the way out
        return None
    if not names:
        return None
    try:
        settled(table, None)
    except LakelogError as error:
        return f"the log of table {table.name} alone has {names} and what is before it, and no snapshot has it: {error}"
    return None


def new_identity(table: TableHandle) -> FileStoreTable:
    """See `Table.upkeep.new_identity`."""
    from lakelog.protocol.life import new_identity

    left = lost_with_identity(table)
    if left is not None:
        logger.warning("%s; it is left out", left)
    return new_identity(table.store, topic_of=_topic_of(table), kafka=table.kafka)


def drop_ended_logs(table: TableHandle, older_than: Age | None) -> list[str]:
    """See `Table.log_store.drop_ended`."""
    now_millis = system_millis()
    retention = RETENTION.of(table.store.schema.options)
    age = retention if older_than is None else age_millis(older_than, now_millis=now_millis)
    require_kafka_client()
    from lakelog.protocol.life import drop_ended_logs as drop

    return drop(table.store, age_millis=age, now_millis=now_millis, kafka=table.kafka)


def _topic_of(table: TableHandle) -> Callable[[str], str]:
    """Names the topics of a table or branch; after its folder if it is outside of a warehouse."""
    from lakelog.warehouse.identifier import Identifier

    named, branch = table.identifier or Identifier("copy", table.path.rpartition("/")[2]), table.store.branch
    return (named if branch == MAIN_BRANCH else Identifier(named.database, f"{named.table}-{branch}")).topic
