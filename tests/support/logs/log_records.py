"""What happens to the records of a table's log from outside: deleted as by a retention, aborted, bound by a policy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public names, not declared as exported
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from lakelog.catalog import Table
from lakelog.common.errors import NotFoundError
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.offsets import (
    Position,
    high_watermark,
    high_watermarks,
    last_stable_offsets,
    log_start_offset,
)
from lakelog.logstore.kafka.clients.topic import delete_records, describe_topic
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.protocol.access.table_log import TableLog, kafka_topic
from tests.support.logs.log_topics import leave_open

_DELETED_SECONDS = 10.0


def log_of_table(table: Table) -> TableLog:
    """The log of a table that has one."""
    assert table.log is not None
    return table.log


def log_range(table: Table, bucket: int = 0) -> tuple[int, int]:
    """Where the log of a bucket starts, and its high watermark."""
    partition = kafka_topic(log_of_table(table)).partition(bucket)
    return log_start_offset(partition).offset, high_watermark(partition).offset


def await_committed(table: Table) -> None:
    """Return when readers see all that writers have committed: last stable offsets lag. No transaction may be open."""
    log = log_of_table(table)
    topic, count = kafka_topic(log), log.bucket_count

    def offsets(of: Mapping[int, Position]) -> dict[int, int]:
        return {bucket: at.offset for bucket, at in of.items()}

    # Both are asked for again: the marker that ends a transaction may come after the first answer.
    while offsets(last_stable_offsets(topic, count)) != offsets(high_watermarks(topic, count)):
        pass


def await_deleted(topic: KafkaTopic) -> None:
    """Return when the broker no longer knows a topic: it hears of a deletion some time after the controller's answer.

    Raises AssertionError after ten seconds.
    """
    deadline = time.monotonic() + _DELETED_SECONDS
    with suppress(NotFoundError):
        while True:
            describe_topic(topic)
            assert time.monotonic() < deadline, f"topic {topic.name} is still there"
            time.sleep(0.05)


def lose_records(table: Table, bucket: int = 0, *, before: int | None = None) -> int:
    """Delete the records of a bucket as Kafka's retention does with all segments; gives where the log starts then."""
    log = log_of_table(table)
    _owner(table, bucket).close()  # the end marker of the last transaction may not be there before that
    end = log_range(table, bucket)[1] if before is None else before
    delete_records(kafka_topic(log), {bucket: end})
    return end


def abort_records(table: Table, ids: list[int], bucket: int = 0) -> None:
    """Leave an aborted transaction in the log."""
    producer = _owner(table, bucket)
    leave_open(producer, ids)
    producer.close()


def _owner(table: Table, bucket: int) -> TransactionalProducer:
    log = log_of_table(table)
    return TransactionalProducer(kafka_topic(log).partition(bucket), f"{table.store.uuid}-{bucket}")


def set_topic_config(table: Table, config: Mapping[str, str]) -> None:
    """What an administrator does to a topic."""
    log = log_of_table(table)
    entries = [ConfigEntry(key, text, incremental_operation=AlterConfigOpType.SET) for key, text in config.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, log.topic, incremental_configs=entries)
    admin = AdminClient({**log.client_config})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


def topic_config_of(table: Table) -> dict[str, str]:
    """The settings of a table's topic, as the broker tells them."""
    log = log_of_table(table)
    resource = ConfigResource(ConfigResource.Type.TOPIC, log.topic)
    admin = AdminClient({**log.client_config})
    [future] = admin.describe_configs([resource]).values()
    return {key: entry.value for key, entry in future.result(10).items()}
