"""The progress topic: each snapshot's batch and offsets, at least once, whatever fails; and headers for programs."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.alter.schema_changes import SetOption
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.topic import create_topic, delete_topic
from lakelog.logstore.kafka.producers.side_topic import append_records, last_records
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.protocol.stores.table_states import read_state
from lakelog.protocol.upkeep.progress_topic import ProgressTopics
from tests.integration.logs.test_log_tools import make, write
from tests.support.logs.changes import TABLE_SCHEMA, make_history
from tests.support.logs.log_records import log_of_table
from tests.support.logs.log_topics import topic_at
from tests.support.streams.streams import feed, write_changes

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def topic(bootstrap_servers: str) -> Iterator[KafkaTopic]:
    """The name of a topic that does not exist yet."""
    named = topic_at(bootstrap_servers, f"progress-{uuid4().hex[:8]}")
    yield named
    close_idle_consumers()
    delete_topic(named)


@pytest.fixture
def catalog(tmp_path: Path, bootstrap_servers: str) -> Catalog:
    return Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)


def records(topic: KafkaTopic) -> list[dict[str, object]]:
    return [json.loads(value or b"") for _, value in last_records(topic, 1000)]


def publish(topics: ProgressTopics, table: Table) -> None:
    topics.publish(table.store, log_of_table(table))


def published(topic: KafkaTopic, table: Table) -> list[object]:
    return [one["snapshot"] for one in records(topic) if one["table_uuid"] == table.uuid]


def test_each_snapshot_is_published_with_its_batch_and_offsets(catalog: Catalog, topic: KafkaTopic) -> None:
    table = make(catalog, options={"log.progress-topic": topic.name})
    process = ProgressTopics()
    for identifier in (0, 1):
        write(table, identifier, (1, "a"), (2, "b"), (3, "c"))
        publish(process, table)
    table.compact(full=True)
    publish(process, table)

    found = records(topic)

    assert [(one["user"], one["batch"], one["snapshot"]) for one in found] == [("q", 0, 1), ("q", 1, 2)]
    for one in found:
        snapshot = table.snapshot(snapshot_id=int(str(one["snapshot"])))
        assert snapshot is not None
        positions = read_state(table.store, snapshot, topic_id=log_of_table(table).topic_id).logged.positions
        assert one["offsets"] == {str(bucket): at.offset for bucket, at in positions.items()}
        assert (one["commit_uuid"], one["time_millis"]) == (snapshot.uuid, snapshot.time_millis)
    assert (found[0]["table"], found[0]["topic"]) == ("db.t", log_of_table(table).topic)


def test_a_statement_is_published_by_its_own_process(catalog: Catalog, topic: KafkaTopic) -> None:
    table = make(catalog, options={"log.progress-topic": topic.name})
    write(table, 0, (1, "a"), (2, "b"))

    table.delete("id = 1")

    assert published(topic, table) == [1, 2]


def test_what_a_dead_writer_left_out_is_published_by_the_next_one(catalog: Catalog, topic: KafkaTopic) -> None:
    table = make(catalog, options={"log.progress-topic": topic.name})
    write(table, 0, (1, "a"))
    publish(ProgressTopics(), table)
    write(table, 1, (1, "b"))
    write(table, 2, (1, "c"))

    publish(ProgressTopics(), table)

    assert published(topic, table) == [1, 2, 3]
    publish(ProgressTopics(), table)
    assert published(topic, table) == [1, 2, 3], "a new process repeats none that it finds"


def test_several_tables_share_a_topic(catalog: Catalog, topic: KafkaTopic) -> None:
    options = {"log.progress-topic": topic.name}
    first, second = make(catalog, "db.one", options=options), make(catalog, "db.two", options=options)
    process = ProgressTopics()
    for identifier in (0, 1):
        for table in (first, second):
            write(table, identifier, (identifier, "a"))
            publish(process, table)

    assert [(one["table"], one["batch"]) for one in records(topic)] == [
        ("db.one", 0),
        ("db.two", 0),
        ("db.one", 1),
        ("db.two", 1),
    ]
    assert published(topic, second) == [1, 2]


def test_a_commit_does_not_fail_when_the_topic_cannot_be_written(
    catalog: Catalog, topic: KafkaTopic, caplog: pytest.LogCaptureFixture
) -> None:
    table = make(catalog, options={"log.progress-topic": topic.name})
    process = ProgressTopics()
    write(table, 0, (1, "a"))
    publish(process, table)
    write(table, 1, (1, "b"))
    elsewhere = open_table(table.path, options={"kafka.bootstrap.servers": "127.0.0.1:1"})
    with caplog.at_level(logging.WARNING):
        process.publish(elsewhere.store, log_of_table(elsewhere))
    assert f"topic {topic.name} lacks the newest snapshot until the next commit" in caplog.text

    write(table, 2, (1, "c"))
    publish(process, table)

    assert published(topic, table) == [1, 2, 3]


def test_a_table_that_was_rolled_back_is_published_again(catalog: Catalog, topic: KafkaTopic) -> None:
    table = make(catalog, options={"log.progress-topic": topic.name})
    process = ProgressTopics()
    write(table, 0, (1, "a"))
    publish(process, table)
    snapshot = table.snapshot()
    assert snapshot is not None
    Path(table.path, "snapshot", "snapshot-1").write_text(replace(snapshot, uuid=str(uuid4())).to_json())

    publish(process, open_table(table.path, options={f"kafka.{k}": v for k, v in topic.client_config.items()}))

    assert published(topic, table) == [1, 1]
    assert len({one["commit_uuid"] for one in records(topic)}) == 2


def test_a_topic_that_cannot_hold_progress_is_refused_when_the_table_is_created(
    catalog: Catalog, topic: KafkaTopic
) -> None:
    create_topic(topic, 2)
    with pytest.raises(InvalidRequestError, match="has 2 partitions"):
        make(catalog, options={"log.progress-topic": topic.name})
    other = make(catalog, "db.other")
    with pytest.raises(InvalidRequestError, match="the name of a table's log"):
        make(catalog, options={"log.progress-topic": log_of_table(other).topic})
    assert catalog.list_tables("db") == ["other"]


def test_a_topic_of_another_program_is_left_alone(
    catalog: Catalog, topic: KafkaTopic, caplog: pytest.LogCaptureFixture
) -> None:
    create_topic(topic, 1)
    append_records(topic, [(b"k", b"not ours")])
    table = make(catalog, options={"log.progress-topic": topic.name})
    write(table, 0, (1, "a"))

    with caplog.at_level(logging.WARNING):
        publish(ProgressTopics(), table)

    assert "holds records of another program" in caplog.text
    assert len(last_records(topic, 10)) == 1


def test_a_table_gets_a_progress_topic_later(catalog: Catalog, topic: KafkaTopic) -> None:
    table = make(catalog)
    write(table, 0, (1, "a"))
    table = table.alter(SetOption("log.progress-topic", topic.name))
    write(table, 1, (1, "b"))
    publish(ProgressTopics(), table)
    assert published(topic, table) == [1, 2]


def test_a_stream_publishes_each_of_its_batches(
    spark: object, catalog: Catalog, topic: KafkaTopic, tmp_path: Path
) -> None:
    options = {"log.system": "kafka", "log.progress-topic": topic.name}
    table = catalog.create_table("db.t", schema=TABLE_SCHEMA, primary_keys=["id"], options=options)
    feed(tmp_path, make_history(7, files=3, changes_per_file=20, keys=10), range(3))

    write_changes(spark, tmp_path, table)  # type: ignore[arg-type]  # the session of the fixture

    appended = [one.id for one in table.snapshots() if one.commit_kind.value == "APPEND"]
    assert published(topic, table) == appended
    assert len(appended) >= 2
