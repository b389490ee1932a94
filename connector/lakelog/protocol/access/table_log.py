"""The log of one table: its topic and the settings of its clients."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import cached_property

from lakelog.common.errors import CorruptDataError, OptionError, UnavailableError
from lakelog.common.patience import Patience
from lakelog.common.quoting import listed
from lakelog.filestore.schema import TableSchema
from lakelog.logstore.client_settings import SERVERS, is_secret, refused_of_tables
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.options import (
    FORMAT,
    KAFKA_PREFIX,
    LOG_SYSTEM,
    PROGRESS_TOPIC,
    TOPIC,
    TOPIC_ID,
    UNAVAILABLE_TIMEOUT,
    ChangelogMode,
    LogSystem,
    changelog_mode,
    client_config,
    is_eventual,
    kafka_options,
)
from lakelog.protocol.access.servers import client_config_of, require_kafka_client

logger = logging.getLogger("lakelog.log")


class TableLog:
    """The log that a table's options name.

    `client_config` and `bootstrap_servers` may start the embedded broker; the other attributes do no I/O.
    """

    def __init__(
        self, schema: TableSchema, warehouse: str, *, path: str, kafka: Mapping[str, str] | None = None
    ) -> None:
        """Read the options of the table at `path`. Raises CorruptDataError when they name no topic.

        `kafka` are settings of Kafka clients that came with the call.
        """
        self._options = schema.options
        self._kafka = dict(kafka or {})
        self.warehouse = warehouse
        self._path = path
        self.topic = TOPIC.of(schema.options)
        self.topic_id = TOPIC_ID.of(schema.options)
        self.progress_topic = PROGRESS_TOPIC.of(schema.options)
        self.unavailable_seconds = UNAVAILABLE_TIMEOUT.of(schema.options) / 1000
        self.is_eventual = is_eventual(schema.options)
        self.format = FORMAT.of(schema.options)
        self.bucket_count = schema.bucket_count
        self.mode: ChangelogMode = changelog_mode(schema.options, has_primary_key=bool(schema.primary_keys))
        if not (self.topic and self.topic_id):
            raise CorruptDataError(
                f"table {path} has {LOG_SYSTEM.key}=kafka and lacks {TOPIC.key!r} or {TOPIC_ID.key!r}, which lakelog"
                " sets when it creates a table; restore its schema file"
            )

    @cached_property
    def client_config(self) -> Mapping[str, str]:
        """The configuration of Kafka clients. Starts the embedded broker if it has the log and does not run."""
        return client_config_of(self._options, self.warehouse, given=self._kafka)

    @property
    def bootstrap_servers(self) -> str:
        """The brokers, as host:port with commas. Starts the embedded broker as `client_config` does."""
        return self.client_config["bootstrap.servers"]

    def patience(self) -> Patience:
        """How long a request to Kafka is retried, by `log.unavailable-timeout`."""
        return Patience(self.unavailable_seconds)

    def check_topic(self) -> None:
        """Compare the topic with the table: its id, its partitions, and its deletion and compaction by Kafka.

        Raises CorruptDataError for another topic of the same name and for a topic that has fewer partitions than the
        table has buckets, NotFoundError when the topic does not exist. Settings by which Kafka deletes records, and
        partitions that nothing is written to, are warnings.
        """
        require_kafka_client()
        from lakelog.logstore.kafka.clients.topic import describe_topic  # noqa: PLC0415  # needs the extra

        found = describe_topic(kafka_topic(self))
        if found.topic_id != self.topic_id:
            raise CorruptDataError(
                f"topic {self.topic} at {self.bootstrap_servers} has the id {found.topic_id}, table {self._path}"
                f" expects {self.topic_id}: the topic was deleted and created again, or this is another Kafka. Correct"
                " the servers; or `lakelog log renew TABLE` gives the table another topic, which begins at its newest"
                " snapshot"
            )
        if found.partition_count < self.bucket_count:
            raise CorruptDataError(
                f"topic {self.topic} at {self.bootstrap_servers} has {found.partition_count} partitions, and table"
                f" {self._path} has bucket={self.bucket_count}: each bucket needs the partition of its number. The "
                "option 'bucket' was changed by another engine; take it back there"
            )
        if found.partition_count > self.bucket_count:
            logger.warning(
                "topic %s has %d partitions, and table %s has bucket=%d: nothing is written to the other ones",
                self.topic,
                found.partition_count,
                self._path,
                self.bucket_count,
            )
        if found.deletes_by:
            logger.warning("%s", self.deletion_warning(found.deletes_by))

    def deletion_warning(self, deletes_by: Mapping[str, str]) -> str:
        """The warning about settings by which Kafka deletes records of the topic that may still be needed."""
        settings = listed(f"{key}={value}" for key, value in sorted(deletes_by.items()))
        return (
            f"topic {self.topic} has {settings}: Kafka deletes its records by that, also those that table {self._path}"
            f" and its streams still need; `lakelog log repair {self._path}` takes the settings back, and the table's"
            " option log.retention says how long records stay"
        )


def kafka_topic(log: TableLog) -> KafkaTopic:
    """The topic of a log, with the settings to reach it. Starts the embedded broker like `TableLog.client_config`."""
    return KafkaTopic(
        client_config=log.client_config, name=log.topic, is_transactional=not log.is_eventual, format=log.format
    )


def await_topic(log: TableLog) -> None:
    """Like `check_topic`, but retried for `log.unavailable-timeout` while Kafka does not answer. Streams start with it.

    An embedded broker that does not start is not waited for.
    """
    log.client_config  # noqa: B018  # raises
    patience = log.patience()
    is_said = False
    while True:
        try:
            log.check_topic()
        except UnavailableError as error:
            patience.bear(error)
            if not is_said:
                is_said = True
                logger.warning("topic %s is retried for %g s: %s", log.topic, log.unavailable_seconds, error)
        else:
            return


def log_of(
    schema: TableSchema, warehouse: str, *, path: str, kafka: Mapping[str, str] | None = None
) -> TableLog | None:
    """The log of a table with this schema; None for a table without a log.

    Raises OptionError for a table with settings of Kafka clients that a table must not hold.
    """
    _check_settings(schema, path)
    if LOG_SYSTEM.of(schema.options) is LogSystem.NONE:
        return None
    return TableLog(schema, warehouse, path=path, kafka=kafka)


def _check_settings(schema: TableSchema, path: str) -> None:
    try:
        client_config(schema.options)
    except OptionError as error:
        refused = refused_of_tables(kafka_options(schema.options))
        unset = " ".join(f"--unset {KAFKA_PREFIX}{key}" for key in refused)
        has_secret = any(key == SERVERS or is_secret(key) for key in refused)
        advice = "; change the passwords too: older schema files still hold them" if has_secret else ""
        raise OptionError(f"table {path}: {error}. To remove it: lakelog table alter {path} {unset}{advice}") from None
