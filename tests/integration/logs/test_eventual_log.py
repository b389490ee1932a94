"""Eventual logs on a real broker: visible at once, repeated by replays, and in the end the rows of the files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any  # Any: options of every kind, values of every column type

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from hypothesis import given

from lakelog.catalog import Catalog, Table
from lakelog.common.arrow import to_arrow_schema
from lakelog.common.errors import InvalidRequestError
from lakelog.common.types import RowKind
from lakelog.logstore.codec.debezium import encode_changes
from lakelog.logstore.kafka.clients.offsets import high_watermark
from lakelog.logstore.kafka.producers.eventual_writer import authors_behind, open_producer
from lakelog.logstore.kafka.records.authors import Author, authors_of
from lakelog.logstore.kafka.records.reader import read_range
from lakelog.logstore.options import ChangelogMode
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.state import Batch
from lakelog.protocol.state.steps import Step
from lakelog.protocol.writing.eventual import check_no_other_left
from lakelog.protocol.writing.finished import done_batches
from lakelog.protocol.writing.writer_lease import WriterLeaseError, take_lease
from tests.integration.logs.test_log_equals_files import History, _by_key, _exact, histories
from tests.support.kills.crashing_writer import CrashingWriter, InjectedCrash, table_of
from tests.support.logs.broker_settings import broker_settings
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import log_of_table
from tests.support.logs.promises import log_changes, snapshot_states

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
ADD = RowKind.INSERT
Change = tuple[RowKind, tuple[int, str]]


def make(folder: Path, bootstrap_servers: str, schema: Any = SCHEMA, **options: str) -> Table:
    catalog = Catalog(folder, bootstrap_servers=bootstrap_servers)
    given = {"bucket": "1", "log.system": "kafka", "log.consistency": "eventual", **options}
    return catalog.create_table("db.t", schema=schema, primary_keys=["k"], options=given)


def write(writer: LocalWriter, identifier: int, *changes: Change) -> None:
    kinds = pa.array([kind.value for kind, _ in changes], pa.int8())
    writer.write(identifier, table_of([row for _, row in changes], SCHEMA), kinds)


def consumed(table: Table, bucket: int = 0) -> list[Message]:
    """What any consumer of the topic sees now, with Kafka's own client."""
    log = log_of_table(table)
    consumer = Consumer(
        {
            **log.client_config,
            "group.id": "anybody",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": "false",
        }
    )
    try:
        consumer.assign([TopicPartition(log.topic, bucket, 0)])
        end = high_watermark(kafka_topic(log).partition(bucket)).offset
        found: list[Message] = []
        while len(found) < end:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            found.append(message)
        return found
    finally:
        consumer.close()


def fold(changes: Sequence[tuple[int, int, int, pa.Table]], end: int | None = None) -> dict[int, str]:
    """The last record of each key before an offset."""
    rows: dict[int, str] = {}
    for _, offset, kind, row in changes:
        if end is None or offset < end:
            rows.pop(row["k"][0].as_py(), None)
            if RowKind(kind).is_add:
                rows[row["k"][0].as_py()] = row["v"][0].as_py()
    return rows


def die_at(step: Step, *, after: int = 0) -> Callable[[Step, str, int, int | None], None]:
    """An observer that ends the process at a step, after so many of them."""
    left = [after]

    def observe(taken: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if taken is step:
            left[0] -= 1
            if left[0] < 0:
                raise InjectedCrash(step)

    return observe


def test_records_can_be_read_before_their_batch_has_a_snapshot(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make(tmp_path, bootstrap_servers)
    seen: list[list[Message]] = []

    def observe(step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if step is Step.BEFORE_SNAPSHOT:
            assert table.store.snapshots.latest() is None
            seen.append(consumed(table))

    write(LocalWriter(table, "q", observe=observe), 0, (ADD, (1, "a")), (ADD, (2, "b")))
    assert [message.key() for message in seen[0]] == [b'{"k":1}', b'{"k":2}']
    assert table.store.snapshots.latest() is not None


def test_every_record_says_whose_batch_it_is_of_and_a_replay_repeats_it(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make(tmp_path, bootstrap_servers)
    with pytest.raises(InjectedCrash):
        write(LocalWriter(table, "q", observe=die_at(Step.BEFORE_SNAPSHOT)), 0, (ADD, (1, "a")), (ADD, (2, "b")))
    write(LocalWriter(table, "q"), 0, (ADD, (1, "a")), (ADD, (2, "b")))
    messages = consumed(table)
    assert [message.key() for message in messages] == [b'{"k":1}', b'{"k":2}'] * 2
    assert [dict(message.headers() or []) for message in messages] == [
        {"lakelog-user": b"q", "lakelog-identifier": b"0", "lakelog-digest": b"0"}
    ] * 4
    partition = kafka_topic(log_of_table(table)).partition(0)
    assert authors_of(messages, partition) == authors_behind(partition, 0) == {Author("q", 0, "0")}
    ((_, state),) = list(snapshot_states(table))
    position = state.logged.position(0)
    assert (position.offset, position.records) == (4, 4)
    assert table.to_arrow().to_pylist() == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]


def test_records_that_a_left_over_attempt_sends_late_are_left_out(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make(tmp_path, bootstrap_servers)
    writer = LocalWriter(table, "q")
    write(writer, 0, (ADD, (1, "old")))
    write(writer, 1, (ADD, (1, "new")))
    send_late(table, Author("q", 0), (1, "old"))

    assert fold(log_changes(table, 0)) == {1: "new"}
    partition = kafka_topic(log_of_table(table)).partition(0)
    done = done_batches(table.store, {0: 2}, topic_id=log_of_table(table).topic_id)
    assert done == {0: {"q": 1}}
    read = read_range(partition, table.schema.fields, start=2, end=3, done=done[0])
    assert [batch.num_rows for batch in read if batch.num_rows] == []
    taken = list(read_range(partition, table.schema.fields, start=2, end=3))
    assert [batch.num_rows for batch in taken] == [1]  # by who does not know what was before


def send_late(table: Table, author: Author, row: tuple[int, str], bucket: int = 0) -> None:
    """Records that were under way for long."""
    records = encode_changes(
        table_of([row], SCHEMA),
        None,
        table.schema.fields,
        table.schema.primary_keys,
        ChangelogMode.UPSERT,
        update_bytes_max=1 << 20,
    )
    with open_producer(kafka_topic(log_of_table(table)).partition(bucket)) as producer:
        producer.send(records, author, lambda: None)


def test_done_batches_are_those_of_the_newest_snapshot_before(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make(tmp_path, bootstrap_servers)
    writer = LocalWriter(table, "q")
    for number in range(3):
        write(writer, number, (ADD, (number, "x")))
    topic_id = log_of_table(table).topic_id
    found = [done_batches(table.store, {0: offset}, topic_id=topic_id) for offset in range(5)]
    assert found == [{}, {0: {"q": 0}}, {0: {"q": 1}}, {0: {"q": 2}}, {0: {"q": 2}}]


def test_a_second_writer_is_refused_while_the_first_one_writes(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make(tmp_path, bootstrap_servers)
    write(LocalWriter(table, "a"), 0, (ADD, (1, "a")))
    with pytest.raises(WriterLeaseError, match="the query a writes table"):
        write(LocalWriter(table, "b"), 0, (ADD, (1, "b")))
    assert fold(log_changes(table, 0)) == {1: "a"}


def test_a_writer_whose_lease_another_run_has_taken_sends_nothing(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make(tmp_path, bootstrap_servers)

    def observe(step: Step, user: str, _identifier: int, _bucket: int | None) -> None:
        if step is Step.PRODUCE:
            take_lease(table.store, user=user, run="newer")

    with pytest.raises(WriterLeaseError, match="another run of the query a writes table"):
        write(LocalWriter(table, "a", observe=observe), 0, (ADD, (1, "a")))
    assert consumed(table) == []


def test_two_writers_at_once_conflict_and_lose_nothing(tmp_path: Path, bootstrap_servers: str) -> None:
    """Should two writers meet in spite of the lease, snapshots still go by the offsets that they were written on."""
    table = make(tmp_path, bootstrap_servers)
    calls: list[Step] = []

    def observe(step: Step, _user: str, _identifier: int, _bucket: int | None) -> None:
        if step is Step.BEFORE_SNAPSHOT and not calls:
            calls.append(step)
            lease = take_lease(table.store, user="a", run="other")
            write(LocalWriter(table, "b", lease=lease), 0, (ADD, (2, "b")))

    first = LocalWriter(table, "a", observe=observe)
    first.lease = take_lease(table.store, user="a", run="1")
    with pytest.raises(WriterLeaseError):  # the batch runs again, and meets the end of its lease
        write(first, 0, (ADD, (1, "a")))
    assert table.to_arrow().to_pylist() == [{"k": 2, "v": "b"}]
    write(LocalWriter(table, "a"), 0, (ADD, (1, "a")))
    assert table.to_arrow().to_pylist() == [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]
    assert fold(log_changes(table, 0)) == {1: "a", 2: "b"}


def test_another_querys_unfinished_batch_is_found(tmp_path: Path, bootstrap_servers: str) -> None:
    table = make(tmp_path, bootstrap_servers)
    write(LocalWriter(table, "a"), 0, (ADD, (1, "a")))
    with pytest.raises(InjectedCrash):
        write(LocalWriter(table, "a", observe=die_at(Step.BEFORE_SNAPSHOT)), 1, (ADD, (1, "b")))
    *_, (_, state) = snapshot_states(table)
    partition = kafka_topic(log_of_table(table)).partition(0)
    left = authors_behind(partition, state.logged.position(0).offset)
    assert left == {Author("a", 1, "1")}
    batch = Batch(user="b", identifier=0, source_digest=None)
    with pytest.raises(InvalidRequestError, match="has records of batch 1 of the query a, and no snapshot has"):
        check_no_other_left(batch, 0, left, state.users, table_name="db.t")


def check(history: History, bootstrap_servers: str, folder: Path) -> None:
    table = make(folder, bootstrap_servers, history.fields, bucket="2")
    truths = _write(table, history)
    for bucket in range(2):
        late = log_changes(table, bucket)
        for snapshot, state in snapshot_states(table):
            (entry,) = state.users.values()
            truth = truths[entry.identifier]
            assert _by_key(table.to_arrow(snapshot_id=snapshot.id)) == truth, "files"
            end = state.logged.position(bucket).offset
            in_bucket = {change[3]["k"][0].as_py() for change in late}
            expected = {key: row for key, row in truth.items() if key in in_bucket}
            assert _fold(late, end) == expected, "log"
    assert {entry.identifier for _, state in snapshot_states(table) for entry in state.users.values()} == set(
        range(len(history.batches))
    )
    Catalog(folder, bootstrap_servers=bootstrap_servers).drop_table("db.t")


def _fold(changes: Sequence[tuple[int, int, int, pa.Table]], end: int) -> dict[int, str]:
    rows: dict[int, str] = {}
    for _, offset, kind, row in changes:
        if offset < end:
            rows.pop(row["k"][0].as_py(), None)
            if RowKind(kind).is_add:
                rows[row["k"][0].as_py()] = _exact(row)
    return rows


def _write(table: Table, history: History) -> list[dict[int, str]]:
    schema = to_arrow_schema(table.schema.fields)
    writer = CrashingWriter(table, history.crashes)
    truths: list[dict[int, str]] = []
    rows: dict[int, str] = {}
    for identifier, batch in enumerate(history.batches):
        given_rows = table_of([row for _, row in batch], schema)
        writer.write(identifier, given_rows, pa.array([kind.value for kind, _ in batch], pa.int8()))
        for place, (kind, row) in enumerate(batch):
            rows.pop(row[0], None)
            if kind.is_add:
                rows[row[0]] = _exact(given_rows.slice(place, 1))
        truths.append(dict(rows))
    return truths


def test_an_eventual_log_and_the_files_come_to_the_same_rows(bootstrap_servers: str) -> None:
    run(bootstrap_servers, examples=8)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_an_eventual_log_and_the_files_come_to_the_same_rows_in_many_histories(bootstrap_servers: str) -> None:
    run(bootstrap_servers, examples=200)


def run(bootstrap_servers: str, *, examples: int) -> None:
    @broker_settings(examples)
    @given(history=histories())
    def law(history: History) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(history, bootstrap_servers, Path(folder))

    law()
