"""The table that a call names: an open table, a folder, or an identifier in a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore import FileStoreTable
from lakelog.protocol.access import kafka_topic
from lakelog.spark.session import named_in, session_kafka_settings

if TYPE_CHECKING:
    from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
    from lakelog.protocol.stores import LogTarget

_DOTS = (1, 2)  # in database.table, and with the catalog before it
TableName = Table | FileStoreTable | str | Path


def resolve_table(
    table: TableName,
    *,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    session: SparkSession | None = None,
) -> Table:
    """Open the table like `resolve_files`, for callers that may use its log.

    Settings of Kafka clients come with the table, or from the Spark session. Only a table with a log needs them: asking
    the session takes some 80 round trips to the JVM.
    """
    found = resolve_files(table, catalog=catalog, warehouse=warehouse, options=options, session=session)
    settings = session_kafka_settings() if found.store.has_log else {}
    if not settings:
        return found
    return Table(found.store, identifier=found.identifier, kafka={**settings, **found.kafka})


def resolve_files(
    table: TableName,
    *,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
    options: Mapping[str, str] | None = None,
    session: SparkSession | None = None,
) -> Table:
    """Open the table for callers that read only its files; the Spark session is not asked how to reach Kafka.

    Without a catalog or a warehouse a string is a name in the SQL of the session, or else a folder; `options` say how
    its file system is reached. Raises NotFoundError, and InvalidRequestError for an identifier without a catalog.
    """
    if isinstance(table, Table):
        return table
    if isinstance(table, FileStoreTable):
        return Table(table)
    if catalog is not None:
        return catalog.load_table(str(table))
    if warehouse is not None:
        return open_table(str(table), warehouse, options=options)
    named = named_in(session, table) if isinstance(table, str) else None
    if named is not None and (named[0].table_exists(named[1]) or not Path(str(table)).exists()):
        return named[0].load_table(named[1])
    if isinstance(table, str) and "/" not in table and "\\" not in table and table.count(".") in _DOTS:
        raise InvalidRequestError(
            f"{table!r} is a table's identifier: say in which catalog, with catalog=Catalog(...) or warehouse=..., or "
            f"attach the warehouse and use spark.table(...); for the folder of that name write './{table}'"
        )
    return open_table(table, options=options)


def log_target(table: Table, *, change_tracking: bool | None = None) -> LogTarget | None:
    """Where the table's log is; None without a log. Starts the embedded broker if it has the log and is down.

    `change_tracking` is what a write asks for; by default the table's option decides.
    """
    if table.log is None:
        return None
    from lakelog.protocol.state import ChangeTracking
    from lakelog.protocol.stores import LogTarget

    return LogTarget(
        topic=kafka_topic(table.log),
        topic_id=table.log.topic_id,
        mode=table.log.mode,
        unavailable_seconds=table.log.unavailable_seconds,
        tracking=ChangeTracking.of(table.schema.options, given=change_tracking),
    )


def find_older_topic(table: Table, topic_id: str) -> KafkaTopic | None:
    """The topic with an id that a table had before; None if it does not exist. Raises UnavailableError."""
    from lakelog.streams.opening import older_topic

    kafka = {**session_kafka_settings(), **table.kafka}
    return older_topic(table.store, topic_id, warehouse=table.warehouse, path=table.path, kafka=kafka)
