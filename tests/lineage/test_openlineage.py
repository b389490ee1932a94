"""What an OpenLineage receiver gets of committed batches: valid events, few of them, and no secret."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any  # Any: JSON
from uuid import uuid4

import confluent_kafka
import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, InvalidRequestError, Table
from lakelog.filestore.metadata.origins.record import (
    BatchLineage,
    CommittedBatch,
    ForeignSource,
    ReadMode,
    Source,
    TableSource,
    TableVersion,
    UnknownSource,
)
from lakelog.lineage import made_from
from lakelog.lineage.openlineage import OpenLineageEmitter
from lakelog.lineage.openlineage.events import RunStatus, status_after
from tests.support.lineage.lineage_records import commit_batch, entry
from tests.support.lineage.openlineage_schema import errors_of
from tests.support.logs.foreign_topics import new_topic
from tests.support.servers.openlineage_receiver import Receiver, running_receiver

RUN = "7c0a9ad2-3a75-4c3f-9d0b-0f4a4a9f7d11"
MINUTE = 60_000


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "lake")


@pytest.fixture
def table(catalog: Catalog) -> Table:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    catalog.create_table("db.a", schema=schema, primary_keys="id").write(pa.table({"id": [1], "name": ["x"]}))
    return catalog.create_table("db.t", schema=schema, options={"bucket": "1"})


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with running_receiver() as running:
        yield running


def http(receiver: Receiver, **more: object) -> dict[str, object]:
    auth = {"type": "api_key", "apiKey": "hush-hush"}
    return {"transport": {"type": "http", "url": receiver.url, "retry": {"total": 0}, "auth": auth, **more}}


def source_of(table: Table, *, end: int = 1, mode: ReadMode = ReadMode.STREAM) -> TableSource:
    return TableSource(
        table=table.name, uuid=table.uuid, path=table.path, mode=mode, end=TableVersion(snapshot_id=end), is_exact=True
    )


def streamed(table: Table, batch_id: int, *sources: Source, run: str = RUN) -> tuple[int, int, str]:
    """Commit a micro-batch; the arguments of a commit listener."""
    lineage = BatchLineage(job="orders", query_id="q", run_id=run, batch_id=batch_id, sources=sources)
    return batch_id, commit_batch(table, "q", batch_id, entry("q", batch_id, lineage)).id, "APPEND"


def states(receiver: Receiver) -> list[str]:
    return [event["eventType"] for event in receiver.events]


def test_the_schemas_of_the_specification_refuse_what_is_no_event(
    catalog: Catalog, table: Table, receiver: Receiver
) -> None:
    emitter = OpenLineageEmitter(table, config=http(receiver))
    emitter.notify_commit_complete(*streamed(table, 0, source_of(catalog.load_table("db.a"))))
    emitter.notify_end(None)
    event = receiver.events[0]
    assert errors_of(event) == []
    facet = event["outputs"][0]["facets"]["version"]

    assert errors_of(event | {"eventType": "STARTED"})
    assert errors_of(event | {"run": {}})
    assert errors_of(event | {"eventTime": "yesterday"})
    assert errors_of(event | {"job": event["job"] | {"facets": {"version": facet}}})
    for wrong in (
        {"datasetVersion": 1},
        {"_producer": "lakelog"},
        {"_schemaURL": facet["_schemaURL"].replace("1", "9")},
    ):
        assert errors_of(event | {"outputs": [event["outputs"][0] | {"facets": {"version": facet | wrong}}]})


def test_a_stream_is_a_start_and_a_complete_with_all_that_is_known(
    catalog: Catalog, table: Table, receiver: Receiver
) -> None:
    emitter = OpenLineageEmitter(table, config=http(receiver), namespace="shop")
    emitter.notify_commit_complete(*streamed(table, 0, source_of(catalog.load_table("db.a"))))
    emitter.notify_commit_complete(*streamed(table, 1, source_of(catalog.load_table("db.a"), end=2)))
    assert emitter.close()

    start, complete = receiver.events

    assert [errors_of(event) for event in (start, complete)] == [[], []]
    assert states(receiver) == ["START", "COMPLETE"]
    assert receiver.paths == ["/api/v1/lineage"] * 2
    assert receiver.authorizations == ["Bearer hush-hush"] * 2
    assert {event["run"]["runId"] for event in receiver.events} == {RUN}
    assert (start["job"]["namespace"], start["job"]["name"]) == ("shop", "orders")
    assert start["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert start["run"]["facets"]["processing_engine"]["name"] == "spark"
    versions = [(event["inputs"][0], event["outputs"][0]) for event in receiver.events]
    assert [[one["facets"]["version"]["datasetVersion"] for one in pair] for pair in versions] == [
        ["1", "1"],
        ["2", "2"],
    ]
    (read,), (written,) = start["inputs"], start["outputs"]
    assert (read["namespace"], read["name"]) == ("file", catalog.load_table("db.a").path)
    assert (written["namespace"], written["name"]) == ("file", table.path)
    fields = [(field["name"], field["type"]) for field in read["facets"]["schema"]["fields"]]
    assert fields == [("id", "BIGINT NOT NULL"), ("name", "STRING")]
    (known,) = written["facets"]["symlinks"]["identifiers"]
    assert (known["namespace"], known["name"], known["type"]) == (catalog.warehouse, "db.t", "TABLE")


def test_running_follows_a_change_of_the_sources_and_nothing_else(
    catalog: Catalog, table: Table, receiver: Receiver
) -> None:
    emitter = OpenLineageEmitter(table, config=http(receiver))
    one, other = source_of(catalog.load_table("db.a")), ForeignSource(format="kafka", name="orders", end="{}")
    for batch_id in range(20):
        sources = [one] if batch_id < 10 else [one, other]
        emitter.notify_commit_complete(*streamed(table, batch_id, *sources))
    emitter.close()

    assert states(receiver) == ["START", "RUNNING", "COMPLETE"]
    changed = receiver.events[1]
    assert errors_of(changed) == []
    assert [(found["namespace"], found["name"]) for found in changed["inputs"]][1] == ("kafka", "orders")


def status(*, time: int, told: int | None = None, rows: int | None = 0) -> RunStatus:
    batch = CommittedBatch(user="q", identifier=1, lineage=BatchLineage(batch_id=1, run_id=RUN))
    return RunStatus(run_id=RUN, batch=batch, snapshot_id=1, time_millis=time, row_count=rows, told_millis=told)


@pytest.mark.parametrize(
    ("minutes", "later", "expected"),
    [(10, 10 * MINUTE, "RUNNING"), (10, 10 * MINUTE - 1, None), (None, 10_000 * MINUTE, None)],
)
def test_running_is_due_once_in_so_many_minutes(minutes: int | None, later: int, expected: str | None) -> None:
    due = status(time=5 + later, told=5).due(None if minutes is None else minutes * MINUTE)

    assert (None if due is None else due.value) == expected


def test_the_rows_of_a_run_are_summed_and_unknown_once_they_are_of_others_too(table: Table) -> None:
    streamed(table, 0)
    snapshot = table.store.snapshots.get(1)
    batch = CommittedBatch(user="q", identifier=0, lineage=BatchLineage(batch_id=0, run_id=RUN))

    counts = [
        status_after(status(time=0, rows=before), batch, snapshot, sink_uuid="u", row_count=rows).row_count
        for before, rows in [(3, 4), (None, 4), (3, None)]
    ]

    assert counts == [7, None, None]


def test_a_batch_write_is_a_run_of_its_own(table: Table, receiver: Receiver) -> None:
    emitter = OpenLineageEmitter(table, config=http(receiver))
    lineage = BatchLineage(job="mend", operation="merge", sources=(UnknownSource(why="an RDD"),))
    for identifier in (4, 5):
        snapshot = commit_batch(table, "u", identifier, entry("u", identifier, lineage))
        emitter.notify_commit_complete(identifier, snapshot.id, "APPEND")
    emitter.close()

    assert states(receiver) == ["START", "COMPLETE"] * 2
    assert [errors_of(event) for event in receiver.events] == [[]] * 4
    runs = [event["run"]["runId"] for event in receiver.events]
    assert runs[0] == runs[1] != runs[2] == runs[3]
    assert {event["job"]["facets"]["jobType"]["processingType"] for event in receiver.events} == {"BATCH"}
    assert {event["job"]["facets"]["jobType"]["jobType"] for event in receiver.events} == {"MERGE"}
    assert [event["inputs"] for event in receiver.events] == [[]] * 4


def test_a_batch_write_is_sent_by_the_snapshot_that_it_gives_back(
    catalog: Catalog, table: Table, receiver: Receiver
) -> None:
    emitter = OpenLineageEmitter(table, config=http(receiver))
    recorded = made_from(table, "db.a@1", job="nightly")
    for number in range(2):
        emitter.send(recorded.write(pa.table({"id": [number], "name": ["x"]})))
    emitter.send(None)
    emitter.close()

    assert states(receiver) == ["START", "COMPLETE"] * 2
    assert [errors_of(event) for event in receiver.events] == [[]] * 4
    assert len({event["run"]["runId"] for event in receiver.events}) == 2
    assert {event["job"]["name"] for event in receiver.events} == {"nightly"}
    assert {event["inputs"][0]["name"] for event in receiver.events} == {catalog.load_table("db.a").path}
    assert {event["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] for event in receiver.events} == {1}


def test_a_new_run_ends_the_one_before(table: Table, receiver: Receiver) -> None:
    emitter = OpenLineageEmitter(table, config=http(receiver))
    emitter.notify_commit_complete(*streamed(table, 0))
    emitter.notify_commit_complete(*streamed(table, 1, run=str(uuid4())))
    emitter.close()

    runs = [(event["eventType"], event["run"]["runId"] == RUN) for event in receiver.events]
    assert runs == [("START", True), ("ABORT", True), ("START", False), ("COMPLETE", False)]


def test_a_batch_that_did_not_commit_is_not_sent(
    table: Table, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    emitter = OpenLineageEmitter(table, config=http(receiver))
    emitter.notify_commit_complete(3, 77, "APPEND")
    table.write(pa.table({"id": [1], "name": ["a"]}))
    emitter.notify_commit_complete(0, 1, "APPEND")
    emitter.close()

    assert receiver.events == []
    assert [record.getMessage().split()[0] for record in caplog.records if record.name == "lakelog.lineage"] == [
        "openlineage-failed"
    ]


def test_a_failure_is_sent_without_secrets(table: Table, receiver: Receiver) -> None:
    emitter = OpenLineageEmitter(table, config=http(receiver))
    emitter.notify_commit_complete(*streamed(table, 0))
    emitter.close(
        ValueError("cannot read s3://me:pw@host/x?token=abc with hush-hush, Bearer eyJhbGciOi.x and password=p1")
    )

    failed = receiver.events[-1]

    assert errors_of(failed) == []
    assert failed["eventType"] == "FAIL"
    assert failed["run"]["facets"]["errorMessage"]["message"] == (
        "ValueError: cannot read s3://***@host/x?token=*** with ***, Bearer *** and password=***"
    )


@pytest.mark.parametrize("answer", [401, 500])
def test_a_receiver_that_refuses_costs_a_warning_without_secrets(
    table: Table, receiver: Receiver, answer: int, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer = answer
    url = receiver.url.replace("http://", "http://me:hunter2@")
    with caplog.at_level(logging.DEBUG):
        emitter = OpenLineageEmitter(table, config=http(receiver, url=url))
        for batch_id in range(3):
            emitter.notify_commit_complete(*streamed(table, batch_id))
        assert emitter.close()

    ours = [record.getMessage() for record in caplog.records if record.name == "lakelog.lineage"]
    assert len(ours) == 2  # START, which is tried again after a minute, and COMPLETE
    assert all(line.startswith("openlineage-failed table=db.t error=") for line in ours)
    assert not any("hunter2" in line or "hush" in line for line in ours)


def test_start_is_sent_with_a_later_batch_where_the_receiver_did_not_take_it(table: Table, receiver: Receiver) -> None:
    now = [0]
    emitter = OpenLineageEmitter(table, config=http(receiver), now_millis=lambda: now[0])
    receiver.answer = 503
    emitter.notify_commit_complete(*streamed(table, 0))
    emitter._outbox.close(30)
    receiver.answer, now[0] = 201, MINUTE
    emitter.notify_commit_complete(*streamed(table, 1))
    emitter.close()

    assert states(receiver) == ["START", "COMPLETE"]
    assert receiver.events[0]["outputs"][0]["facets"]["version"]["datasetVersion"] == "2"


def test_a_job_does_not_wait_for_a_receiver_that_does_not_answer(table: Table) -> None:
    with running_receiver() as gone:
        pass
    emitter = OpenLineageEmitter(table, config=http(gone))
    for batch_id in range(3):
        emitter.notify_commit_complete(*streamed(table, batch_id))

    assert emitter.close()


def test_a_configuration_that_the_client_refuses_is_an_error_without_secrets(table: Table) -> None:
    config = {"transport": {"type": "http", "auth": {"type": "api_key", "apiKey": "hush-hush"}}}

    with pytest.raises(InvalidRequestError, match="refuses its configuration") as caught:
        OpenLineageEmitter(table, config=config)

    assert "hush" not in str(caught.value)


def test_the_extra_is_named_where_the_client_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("openlineage", "lakelog.lineage.openlineage"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openlineage.client", None)

    with pytest.raises(InvalidRequestError, match=r"pip install 'lakelog\[openlineage\]'"):
        __import__("lakelog.lineage.openlineage")


@pytest.mark.integration
def test_events_reach_a_topic_of_kafka_by_the_client_s_own_transport(table: Table, bootstrap_servers: str) -> None:
    topic = new_topic(bootstrap_servers).name
    settings = {"bootstrap.servers": bootstrap_servers}
    emitter = OpenLineageEmitter(table, config={"transport": {"type": "kafka", "topic": topic, "config": settings}})
    emitter.notify_commit_complete(*streamed(table, 0))
    assert emitter.close()

    events = consumed(bootstrap_servers, topic, 2)

    assert [event["eventType"] for _, event in events] == ["START", "COMPLETE"]
    assert [errors_of(event) for _, event in events] == [[], []]
    assert {key for key, _ in events} == {b"run:lakelog/orders"}


def consumed(servers: str, topic: str, count: int) -> list[tuple[bytes | None, dict[str, Any]]]:
    settings = {"bootstrap.servers": servers, "group.id": str(uuid4()), "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    messages = consumer.consume(count, timeout=60)
    consumer.close()
    return [(message.key(), json.loads(message.value() or b"")) for message in messages]
