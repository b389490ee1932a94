"""What a stream of a table reads: its log or its files, and the older topics of its log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakelog.common.errors import CorruptDataError, NotFoundError
from lakelog.filestore.metadata.tables import TableStore
from lakelog.protocol.access import TableLog, kafka_topic, log_of, original_of, recorded_place
from lakelog.protocol.state import older_schema

if TYPE_CHECKING:
    from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic

logger = logging.getLogger("lakelog.streams")


def log_to_read(table: TableStore, log: TableLog | None) -> TableLog | None:
    """The log that a stream of a table reads; None for a table without a log, and for a copy of another one."""
    if log is None:
        return None
    original = original_of(table, recorded_place(table))
    if original is not None:
        logger.warning("%s is a copy of %s: its files are followed, not the log", table.name, original)
        return None
    return log


def older_topic(
    table: TableStore, topic_id: str, *, warehouse: str, path: str, kafka: Mapping[str, str]
) -> KafkaTopic | None:
    """The topic with an id that a table had before; None if it does not exist. Raises UnavailableError."""
    schema = older_schema(table, topic_id)
    log = None if schema is None else log_of(schema, warehouse, path=path, kafka=kafka)
    if log is None:
        return None
    try:
        log.check_topic()
    except (NotFoundError, CorruptDataError):  # deleted, or another topic with its name
        return None
    return kafka_topic(log)
