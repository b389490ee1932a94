"""The topics of a table: that of its log, created and deleted with it, and its progress topic. Needs Kafka's client."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from lakelog.common.errors import InvalidRequestError, LakelogError, NotFoundError
from lakelog.filestore.schema import TableSchema
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import create_topic, delete_topic, describe_topic
from lakelog.logstore.kafka.producers.side_topic import ensure_side_topic
from lakelog.logstore.options import PROGRESS_TOPIC, REPLICATION_FACTOR, TOPIC, TOPIC_ID, topic_config
from lakelog.protocol.access.servers import client_config_of
from lakelog.protocol.access.table_log import TableLog, kafka_topic

_LOG_TOPIC = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # see Identifier.topic


@contextmanager
def new_topic(
    topic: str,
    schema: TableSchema,
    warehouse: str,
    *,
    kafka: Mapping[str, str] | None = None,
    is_named: Callable[[TableSchema], bool] = lambda _made: False,
) -> Iterator[TableSchema]:
    """Create the topic `topic` of a table; gives the schema that names it. An error in the block deletes the topic.

    The topic is kept if `is_named`, called with the schema, says that the schema was created all the same. The table's
    progress topic is created before, if it is missing, and stays: other tables may share it. `kafka` are the user's own
    settings of Kafka clients.
    """
    new = KafkaTopic(client_config=client_config_of(schema.options, warehouse, given=kafka), name=topic)
    progress = PROGRESS_TOPIC.of(schema.options)
    if progress:
        ensure_side_topic(progress_topic(progress, new.client_config))
    copies = REPLICATION_FACTOR.of(schema.options)
    topic_id = create_topic(new, schema.bucket_count, copies, topic_config(schema.options))
    made = replace(schema, options={**schema.options, TOPIC.key: topic, TOPIC_ID.key: topic_id})
    try:
        yield made
    except BaseException:
        with contextlib.suppress(LakelogError):
            if not is_named(made):
                delete_topic(new)
        raise


def drop_topic(log: TableLog) -> None:
    """Delete the topic, unless it does not exist or another topic has its name. Raises UnavailableError."""
    with contextlib.suppress(NotFoundError):
        if describe_topic(kafka_topic(log)).topic_id == log.topic_id:
            delete_topic(kafka_topic(log))


def progress_topic(name: str, client_config: Mapping[str, str]) -> KafkaTopic:
    """The progress topic of this name. Raises InvalidRequestError for the topic of a log."""
    if _LOG_TOPIC.search(name):
        raise InvalidRequestError(
            f"option {PROGRESS_TOPIC.key!r} is {name!r}, the name of a table's log, which nothing else may be written"
            " to; name another topic"
        )
    return KafkaTopic(client_config=client_config, name=name)
