"""What an ingest takes by the kind of its table and by the keys of its records, through a real broker and Spark."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any  # Any: parsed JSON, and options of any type

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import InvalidRequestError
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.spark import error_of, ingest
from lakelog.spark.session import TIME_CONF
from tests.support.logs.foreign_topics import fill, new_topic
from tests.support.logs.promises import check_log_equals_files

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def run(spark: SparkSession, topic: KafkaTopic, table: Table, folder: Path, **options: Any) -> None:
    """Take in what the topic has now."""
    query = ingest(
        spark,
        topic.name,
        table,
        bootstrap_servers=topic.client_config["bootstrap.servers"],
        checkpoint_location=folder / "checkpoint",
        available_now=True,
        **options,
    )
    query.awaitTermination()


def change(op: str, before: Any = None, after: Any = None) -> bytes:
    return json.dumps({"before": before, "after": after, "source": {}, "op": op}).encode()


@pytest.mark.full
def test_a_value_count_table_takes_updates_and_deletes_and_skip_loses_none(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    topic = new_topic(bootstrap_servers)
    one, two, three = ({"id": number, "name": "x"} for number in (1, 2, 3))
    values = [
        *(change("c", after=row) for row in (one, one, two)),
        change("u", one, three),
        change("d", two),
        change("u", None, two),  # which row it replaces is unknown
    ]
    fill(topic, [(None, value) for value in values])
    options = {"write-mode": "change-log", "bucket": "1", "log.system": "kafka"}
    catalog = Catalog(str(tmp_path / "lake"), bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema="id INT, name STRING", options=options)

    run(spark, topic, table, tmp_path, on_error="skip")

    assert sorted(row["id"] for row in table.to_arrow().to_pylist()) == [1, 3]
    check_log_equals_files(table)


@pytest.mark.full
def test_a_narrow_record_key_is_said_at_the_start_and_leaves_no_old_row(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(bootstrap_servers)
    monday, tuesday = ({"day": day, "id": 1} for day in ("mon", "tue"))
    values = [change("c", after=monday), change("u", None, tuesday)]
    fill(topic, [(b'{"id":1}', value) for value in values])
    catalog = Catalog(str(tmp_path / "lake"))
    table = catalog.create_table("db.t", schema="day STRING, id INT", primary_keys=["day", "id"])

    run(spark, topic, table, tmp_path, on_error="dead-letter")

    assert table.to_arrow().to_pylist() == [monday]
    assert "REPLICA IDENTITY FULL" in catalog.load_table("db.t_dead_letters").to_arrow()["reason"][0].as_py()
    said = [one.getMessage() for one in caplog.records if "have keys without" in one.getMessage()]
    assert len(said) == 1
    assert "without day, which the primary key of table db.t has" in said[0]

    other = catalog.create_table("db.u", schema="day STRING, id INT", primary_keys=["day", "id"])
    run(spark, topic, other, tmp_path / "u", partition_changes="never")
    assert other.count() == 2


@pytest.mark.full
def test_a_batch_whose_times_have_another_unit_ends_the_query_and_says_the_way_out(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    """MySQL's DATETIME is a number of milliseconds; Spark's SQL makes TIMESTAMP columns of six digits."""
    topic = new_topic(bootstrap_servers)
    moments = (1_767_225_600_000, 0, 1_767_225_601_000)
    fill(topic, [(None, change("c", after={"id": number, "at": at})) for number, at in enumerate(moments)])
    table = Catalog(str(tmp_path / "lake")).create_table("db.t", schema="id INT, at TIMESTAMP(6)", primary_keys="id")

    with pytest.raises(StreamingQueryException) as ended:
        run(spark, topic, table, tmp_path, on_error="skip")

    error = error_of(ended.value)
    assert isinstance(error, InvalidRequestError)
    for word in ("column 'at'", "1767225600000 as a number of us", "time_precision_mode", "time_units={'at': 'ms'}"):
        assert word in str(error)
    assert table.snapshot() is None

    with pytest.raises(InvalidRequestError, match=r"time_units names 'id', and table db\.t has the type INT"):
        run(spark, topic, table, tmp_path, time_units={"id": "ms"})
    with pytest.raises(InvalidRequestError, match="time_precision_mode is 'iso'; expected one of adaptive, "):
        run(spark, topic, table, tmp_path, time_precision_mode="iso")
    run(spark, topic, table, tmp_path, time_units={"at": "ms"})
    years = [row["at"].year for row in sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])]
    assert years == [2026, 1970, 2026]


@pytest.mark.full
def test_an_unchanged_value_beside_a_time_is_taken_from_the_table(
    spark: SparkSession, bootstrap_servers: str, tmp_path: Path
) -> None:
    """In a session as users have it: Spark's setting for the type TIME is off by default."""
    session = spark.newSession()
    session.conf.unset(TIME_CONF)
    topic = new_topic(bootstrap_servers)
    table = Catalog(str(tmp_path / "lake")).create_table(
        "db.t", schema="id INT, t TIME(3), n STRING", primary_keys="id"
    )
    fill(topic, [(b'{"id":1}', change("c", after={"id": 1, "t": 3_723_004, "n": "long"}))])
    run(session, topic, table, tmp_path)
    after = {"id": 1, "t": 3_724_000, "n": "__debezium_unavailable_value"}
    fill(topic, [(b'{"id":1}', change("u", None, after))])

    run(session, topic, table, tmp_path)

    assert table.to_arrow().to_pylist() == [{"id": 1, "t": dt.time(1, 2, 4), "n": "long"}]
