"""Start a query that takes the changes of a Debezium topic into a table."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.catalog import Catalog, Table
from lakelog.common.column_names import given_names
from lakelog.common.errors import InvalidRequestError
from lakelog.common.quoting import listed
from lakelog.filestore.options import ROWKIND_FIELD
from lakelog.lineage.columns.dataset_names import dataset_of_topic
from lakelog.lineage.columns.declared_fields import fields_of_topic
from lakelog.logstore.client_settings import SERVERS, check_servers
from lakelog.logstore.codec.foreign_records import RECORD_BYTES_MAX, beside_key
from lakelog.logstore.codec.foreign_unavailable import UNAVAILABLE
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.records.foreign_topic import describe_foreign, sample_key
from lakelog.logstore.options import LogFormat
from lakelog.protocol.access import BOOTSTRAP_KEY, CALL_PREFIX, call_settings, require_kafka_client, user_settings
from lakelog.spark.ingesting.dead_letters import letter_box
from lakelog.spark.ingesting.ingest_sink import IngestSink, MakeRules, OnError
from lakelog.spark.ingesting.rules import RulesOf, parse_forms, parse_partition_changes, parse_size
from lakelog.spark.session import prepare_session, session_kafka_settings
from lakelog.spark.sink.sink import LakelogSink, knowing_fields, start_stream
from lakelog.spark.source.streams.kafka_records import STARTS, KafkaRecords
from lakelog.spark.tables import TableName, resolve_table

logger = logging.getLogger("lakelog.spark")

BATCH_RECORDS_MAX = 500_000


def ingest(
    spark: SparkSession,
    topic: str,
    table: TableName,
    *,
    catalog: Catalog | None = None,
    warehouse: str | Path | None = None,
    checkpoint_location: str | Path | None = None,
    bootstrap_servers: str | None = None,
    kafka: Mapping[str, str] | None = None,
    value_format: str = "debezium-json",
    starting_offsets: str = "earliest",
    max_offsets_per_trigger: int | None = BATCH_RECORDS_MAX,
    fail_on_data_loss: bool = True,
    on_error: str = "fail",
    dead_letter_table: Table | str | None = None,
    merge_schema: bool = False,
    drop_unknown_members: bool = False,
    ignore_columns: str | Sequence[str] = (),
    max_record_bytes: int | str = RECORD_BYTES_MAX,
    unavailable_value: str = UNAVAILABLE,
    binary_handling_mode: str = "bytes",
    decimal_handling_mode: str = "precise",
    time_precision_mode: str = "adaptive",
    time_units: Mapping[str, str] | None = None,
    partition_changes: str = "before",
    available_now: bool = False,
    processing_time: str | None = None,
    query_name: str | None = None,
    commit_user: str | None = None,
    task_count: int | None = None,
) -> StreamingQuery:
    """Start a query that takes the changes of a Debezium topic into a table, each exactly once.

    Records may include their schema or not. Kafka is given by `bootstrap_servers` with the librdkafka settings `kafka`,
    else by a profile, by `LAKELOG_KAFKA_*` or by the Spark session. `starting_offsets` is `earliest` or `latest`, for a
    new checkpoint. A batch has at most about `max_offsets_per_trigger` records; None means all that are available.

    A record that is malformed, larger than `max_record_bytes`, of another type or unknown ends the query
    (`on_error="fail"`), is left out (`"skip"`), or becomes a row of `dead_letter_table` (`"dead-letter"`), by default
    `<table>_dead_letters`, before anything of its batch is written; see `replay_dead_letters`.

    With `merge_schema`, columns that the table lacks are added to it, nullable; those in `ignore_columns` are left out;
    any other unknown column makes a record bad. The same holds for members of nested columns, which `ignore_columns`
    names by their path (`s.new`, `items.element.new`); `drop_unknown_members` leaves all of them out, and the log
    counts them. Values that an update leaves out as unchanged, `unavailable_value`, are taken from the previous row.
    `binary_handling_mode`, `decimal_handling_mode` and `time_precision_mode` are the options of these names of the
    connector; the last two say what values mean that have no schema beside them. `time_units` names the unit (s, ms, us
    or ns) of the numbers in a column of times, or in a member by its path. A batch whose times of a column are all near
    1970 or beyond the year 9999 ends the query: their unit is another one.

    Where the table's primary key has more columns than the record keys, an update needs its old row
    (`partition_changes="before"`), or these columns never change (`"never"`).
    `available_now`, `processing_time`, `query_name`, `commit_user` and `task_count` are those of `write_stream`.

    Before anything starts, it raises NotFoundError for table or topic, InvalidRequestError for what does not fit.
    """
    require_kafka_client()
    opened = resolve_table(table, catalog=catalog, warehouse=warehouse, session=spark)
    _check_reading(value_format, starting_offsets, max_offsets_per_trigger)
    config = client_config(bootstrap_servers, kafka)
    prepare_session(spark)
    source = KafkaTopic(client_config=config, name=topic)
    found = describe_foreign(source)
    keys_stay = parse_partition_changes(partition_changes)
    if opened.schema.primary_keys and not keys_stay:
        _say_narrow_keys(opened, topic, sample_key(source, found.partition_count))
    sink = ingest_sink(
        opened,
        RulesOf(
            takes_new_columns=merge_schema,
            drops_members=drop_unknown_members,
            ignored=given_names(ignore_columns, what="ignore_columns"),
            bytes_max=parse_size(max_record_bytes, what="max_record_bytes"),
            unavailable=unavailable_value,
            forms=parse_forms(
                binaries=binary_handling_mode,
                decimals=decimal_handling_mode,
                times=time_precision_mode,
                units=time_units,
            ),
            keys_stay=keys_stay,
        ),
        on_error=parse_on_error(on_error),
        dead_letter_table=dead_letter_table,
        catalog=catalog,
        topic=topic,
        topic_id=found.topic_id,
        orders_truncations=found.partition_count == 1,
        servers=config.get(SERVERS),
        commit_user=commit_user,
        task_count=task_count,
    )
    return start_stream(
        KafkaRecords(
            client_config=config,
            topic=topic,
            starting_offsets=starting_offsets,
            rows_max=max_offsets_per_trigger,
            fails_on_data_loss=fail_on_data_loss,
        ).load(spark),
        sink.sink,
        sink,
        checkpoint_location=checkpoint_location,
        available_now=available_now,
        processing_time=processing_time,
        query_name=query_name,
    )


def _say_narrow_keys(table: Table, topic: str, key: bytes | None) -> None:
    """Log a warning if a record key of the topic lacks columns of the table's primary key."""
    lacking = [] if key is None else beside_key(key, table.schema.primary_keys)
    if lacking:
        logger.warning(
            "the records of topic %s have keys without %s, which the primary key of table %s has: an update or delete"
            " is taken in only with its old row, so set REPLICA IDENTITY FULL in the database; or say"
            " partition_changes='never' if an update never changes these columns",
            topic,
            listed(lacking),
            table.name,
        )


def _check_reading(value_format: str, starting_offsets: str, max_offsets_per_trigger: int | None) -> None:
    """Raise InvalidRequestError for unknown values of the arguments that say how a topic is read."""
    if value_format not in tuple(LogFormat):
        raise InvalidRequestError(f"value_format is {value_format!r}; known are {', '.join(LogFormat)}")
    if starting_offsets not in STARTS:
        raise InvalidRequestError(f"starting_offsets is {starting_offsets!r}; expected one of {', '.join(STARTS)}")
    if max_offsets_per_trigger is not None and max_offsets_per_trigger < 1:
        raise InvalidRequestError(f"max_offsets_per_trigger is {max_offsets_per_trigger}; expected 1 or more, or None")


def ingest_sink(
    table: Table,
    make_rules: MakeRules,
    *,
    on_error: OnError,
    dead_letter_table: Table | str | None,
    catalog: Catalog | None,
    topic: str,
    topic_id: str,
    orders_truncations: bool,
    servers: str | None = None,
    commit_user: str | None = None,
    task_count: int | None = None,
) -> IngestSink:
    """The foreachBatch function of an ingest. Raises InvalidRequestError for a table that an ingest cannot write."""
    rowkind = ROWKIND_FIELD.of(table.schema.options)
    if rowkind is not None:
        raise InvalidRequestError(
            f"table {table.name} takes the kind of a change from its column {rowkind!r} (rowkind.field), and the"
            " records of a topic have kinds of their own: remove the option"
        )
    make_rules(table)  # refuses units of columns that have no times
    letters = letter_box(table, dead_letter_table, catalog=catalog) if on_error is OnError.DEAD_LETTER else None
    if letters is None and dead_letter_table is not None:
        raise InvalidRequestError(f"dead_letter_table goes with on_error='dead-letter', found {on_error.value!r}")
    named = dataset_of_topic(servers, topic)
    return IngestSink(
        sink=knowing_fields(
            LakelogSink(table, commit_user=commit_user, task_count=task_count),
            lambda store: fields_of_topic(named, [field.name for field in store.schema.fields]),
        ),
        make_rules=make_rules,
        on_error=on_error,
        letters=letters,
        topic=topic,
        topic_id=topic_id,
        orders_truncations=orders_truncations,
        commit_user=commit_user,
        task_count=task_count,
    )


def client_config(bootstrap_servers: str | None, kafka: Mapping[str, str] | None) -> dict[str, str]:
    """The settings of the client that reads the topic. Raises OptionError, and InvalidRequestError without servers."""
    given = {f"{CALL_PREFIX}{key}": value for key, value in (kafka or {}).items()}
    if bootstrap_servers is not None:
        given[f"{CALL_PREFIX}{SERVERS}"] = bootstrap_servers
    settings = {**session_kafka_settings(), **call_settings(given)}
    config = user_settings(settings, named="", environ=os.environ)
    servers = config.get(SERVERS) or os.environ.get(BOOTSTRAP_KEY)
    if not servers:
        raise InvalidRequestError(
            f"no Kafka is named; give bootstrap_servers, set {BOOTSTRAP_KEY}, or kafka={{'profile': ...}}"
        )
    config[SERVERS] = servers
    check_servers(config)
    return config


def parse_on_error(given: str) -> OnError:
    """What happens to bad records. Raises InvalidRequestError."""
    try:
        return OnError(given)
    except ValueError:
        known = ", ".join(OnError)
        raise InvalidRequestError(f"on_error is {given!r}; expected one of {known}") from None
