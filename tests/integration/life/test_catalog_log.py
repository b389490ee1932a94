"""Tables with a log: the topic that belongs to them."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import CorruptDataError, OptionError
from lakelog.filestore.schema.schema import TableSchema
from lakelog.filestore.schema.schema_manager import SchemaManager
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.kafka.clients.topic import create_topic, delete_topic, describe_topic
from lakelog.protocol.access.kafka_profiles import BOOTSTRAP_KEY
from lakelog.protocol.access.table_log import kafka_topic
from tests.support.logs.log_records import await_deleted
from tests.support.logs.log_topics import topic_at

pytestmark = pytest.mark.integration

SCHEMA = pa.schema({"id": pa.int64(), "name": pa.string()})
LOGGED = {"log.system": "kafka", "bucket": "3"}


def make_table(folder: Path, bootstrap_servers: str) -> Table:
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    return catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=LOGGED)


def test_a_logged_table_has_a_topic_of_its_own_with_a_partition_per_bucket(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    table = make_table(tmp_path, bootstrap_servers)
    assert table.log is not None

    topic = describe_topic(kafka_topic(table.log))

    assert topic.partition_count == 3
    assert topic.topic_id == table.log.topic_id
    assert topic.name == f"db.t.{table.store.uuid}"
    table.log.check_topic()


def test_a_table_remembers_the_kafka_that_its_catalog_named(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make_table(tmp_path, bootstrap_servers)

    reopened = open_table(table.path)

    assert reopened.log is not None
    assert reopened.log.bootstrap_servers == bootstrap_servers


def test_a_table_without_a_named_kafka_asks_the_environment(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BOOTSTRAP_KEY, bootstrap_servers)
    table = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=LOGGED)
    assert table.log is not None

    assert table.log.bootstrap_servers == bootstrap_servers
    assert "log.kafka.bootstrap.servers" not in table.schema.options


def test_a_table_without_any_kafka_starts_the_broker_of_its_warehouse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(BOOTSTRAP_KEY, raising=False)
    broker = EmbeddedBroker(tmp_path)
    try:
        made = Catalog(tmp_path).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=LOGGED)
        assert broker.status() is not None
        broker.stop()

        reopened = open_table(made.path)
        assert reopened.to_arrow().num_rows == 0
        assert broker.status() is None, "reading files needs no broker"
        assert reopened.log is not None
        reopened.log.check_topic()
        assert broker.status() is not None
    finally:
        broker.stop()


def test_dropping_a_table_deletes_its_topic(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make_table(tmp_path, bootstrap_servers)
    assert table.log is not None

    Catalog(tmp_path).drop_table("db.t")

    await_deleted(kafka_topic(table.log))


def test_another_topic_of_the_same_name_is_refused_and_outlives_the_table(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    table = make_table(tmp_path, bootstrap_servers)
    assert table.log is not None
    delete_topic(kafka_topic(table.log))
    other = create_topic(kafka_topic(table.log), 3)

    with pytest.raises(CorruptDataError, match=f"has the id {other}, table .* expects {table.log.topic_id}"):
        table.log.check_topic()
    Catalog(tmp_path).drop_table("db.t")

    assert describe_topic(kafka_topic(table.log)).topic_id == other
    delete_topic(kafka_topic(table.log))


def test_a_table_that_cannot_be_made_leaves_no_topic(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def fail(_: SchemaManager, schema: TableSchema) -> None:
        made.append(schema.options["log.topic"])
        raise OSError("disk full")

    monkeypatch.setattr(SchemaManager, "create", fail)

    with pytest.raises(OSError, match="disk full"):
        make_table(tmp_path, bootstrap_servers)

    await_deleted(topic_at(bootstrap_servers, made[0]))


def test_a_client_setting_that_librdkafka_refuses_is_named(tmp_path: Path, bootstrap_servers: str) -> None:
    options = LOGGED | {"log.kafka.no.such.setting": str(uuid.uuid4())}

    with pytest.raises(OptionError, match=r"no\.such\.setting"):
        Catalog(tmp_path, bootstrap_servers).create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
