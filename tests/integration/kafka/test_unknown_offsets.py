"""Kafka's client may answer a question for an offset with neither offset nor error.

So it does where a broker is stopped while it is asked: whoever has asked waits and asks again, and decides nothing by
it.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from lakelog.catalog import Catalog, Table, open_table
from lakelog.common.clock import system_millis
from lakelog.common.errors import UnavailableError
from lakelog.common.patience import Patience
from lakelog.filestore.expire.expiry import Retention
from lakelog.filestore.metadata.snapshots.users import carried_properties
from lakelog.filestore.verbs import expire_snapshots
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.kafka.clients.kafka_topic import KafkaTopic
from lakelog.logstore.kafka.clients.offsets import high_watermarks, log_start_offsets, offsets_since
from lakelog.logstore.kafka.clients.topic import create_topic
from lakelog.logstore.kafka.records.foreign_topic import ForeignHead, describe_foreign
from lakelog.logstore.kafka.records.open_transactions import open_transactions
from lakelog.protocol.reading.log_tail import EARLIEST, tail_of
from lakelog.protocol.state.log_generations import EndedGeneration, ended_generations
from lakelog.protocol.state.steps import Step
from lakelog.protocol.upkeep.log_check import LogReport, check_log, repair_log
from lakelog.protocol.upkeep.log_expiry import expire_log
from lakelog.protocol.upkeep.reader_guard import find_readers_behind
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.kills.frozen import frozen
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import log_of_table, log_range
from tests.support.logs.log_topics import leave_open, log_topic
from tests.support.logs.promises import check_log_equals_files
from tests.support.logs.unknown_offsets import OffsetAnswers
from tests.support.streams.planned_reader import Reader, expected, rows_of, write
from tests.support.tables.small_tables import SCHEMA

pytestmark = pytest.mark.integration

OPTIONS = {"bucket": "2", "log.system": "kafka", "log.changelog-mode": "all", "log.retention": "0 ms"}
KEEP_NEWEST = Retention(count_min=1, count_max=1, age_millis=0, limit=100)
QUESTIONS = (0, 1, 2, 4, 7, 10, 12)  # of up to 13 that a call asks


@pytest.fixture
def table(tmp_path: Path, bootstrap_servers: str) -> Table:
    """A table with the batches 0 and 1 of a job."""
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    made = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=OPTIONS)
    for batch in range(2):
        write(made, batch)
    return made


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> OffsetAnswers:
    return OffsetAnswers.into(monkeypatch)


def leave_behind(table: Table, batch: int) -> None:
    """A writer is killed when its batch is in the log, and in no snapshot."""

    def die(step: Step, *_: object) -> None:
        if step is Step.BEFORE_SNAPSHOT:
            raise InjectedCrash

    with pytest.raises(InjectedCrash):
        LocalWriter(open_table(table.path), "job", observe=die).write(batch, rows_of(batch), None)


def batches_of(table: Table) -> set[int]:
    return set(open_table(table.path).to_arrow()["batch"].to_pylist())


def ended(table: Table) -> EndedGeneration:
    store = open_table(table.path).store
    properties = carried_properties(store.snapshots.latest(), store.snapshots).properties
    return ended_generations(properties, where="the newest")[-1]


def ends_of(table: Table) -> dict[int, int]:
    return {bucket: log_range(table, bucket)[1] for bucket in range(2)}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_stream_from_a_timestamp_reads_every_change(table: Table, answers: OffsetAnswers, question: int) -> None:
    begun = table.store.snapshots.get(1).time_millis - 60_000
    expire_snapshots(table.store, retention=KEEP_NEWEST, now_millis=system_millis())
    reader = Reader(open_table(table.path), **{"log.scan": "from-timestamp", "timestamp": str(begun)})

    with answers.lacking(after=question):
        for _ in range(3):  # without an answer there is nothing to read
            reader.read()

    assert reader.rows == expected(0, 1)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_renewal_takes_in_a_healthy_log_whole(
    table: Table, answers: OffsetAnswers, caplog: pytest.LogCaptureFixture, question: int
) -> None:
    leave_behind(table, 2)

    with answers.lacking(after=question), caplog.at_level(logging.WARNING, "lakelog.protocol"):
        open_table(table.path).log_store.renew(keep_topic=True, force=True)

    assert batches_of(table) == {0, 1, 2}
    assert ended(table) == replace(ended(table), ends=ends_of(table), is_lost=False)
    assert caplog.messages == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_rescale_keeps_where_the_log_ended(table: Table, answers: OffsetAnswers, question: int) -> None:
    with answers.lacking(after=question):
        open_table(table.path).upkeep.rescale(3)

    assert dict(ended(table).ends) == ends_of(table)
    write(table, 2)
    assert batches_of(table) == {0, 1, 2}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_removed_log_is_taken_in_whole(table: Table, answers: OffsetAnswers, question: int) -> None:
    with answers.lacking(after=question):
        open_table(table.path).log_store.remove(keep_topic=True, force=True)

    assert dict(ended(table).ends) == ends_of(table)
    assert batches_of(table) == {0, 1}


def test_an_expiry_deletes_no_record_without_an_answer(table: Table, answers: OffsetAnswers) -> None:
    log, store = log_of_table(table), table.store
    expire_snapshots(store, retention=KEEP_NEWEST, now_millis=system_millis())
    was = [log_range(table, bucket) for bucket in range(2)]

    for question in range(2):
        with answers.lacking(after=question), pytest.raises(UnavailableError, match="neither an answer nor an error"):
            expire_log(store, log, now_millis=system_millis())
    assert [log_range(table, bucket) for bucket in range(2)] == was

    with answers.lacking(after=0):
        moved = expire_log(store, log, now_millis=system_millis() + 60_000, patience=Patience(30))
    assert set(moved) == {0, 1}


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_writer_waits_for_an_answer_and_takes_in_what_was_left(
    table: Table, answers: OffsetAnswers, question: int
) -> None:
    leave_behind(table, 2)

    with answers.lacking(after=question):
        LocalWriter(open_table(table.path), "job").write(2, rows_of(2), None)

    assert batches_of(table) == {0, 1, 2}
    check_log_equals_files(open_table(table.path))


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_check_finds_the_log_as_it_is_and_a_repair_nothing(
    table: Table, answers: OffsetAnswers, question: int
) -> None:
    log = log_of_table(table)
    sound: LogReport = check_log(table.store, log)

    with answers.lacking(after=question):
        assert check_log(table.store, log) == sound
    with answers.lacking(after=question):
        repaired = repair_log(table.store, log)

    assert sound.is_sound
    assert (repaired.buckets, repaired.left, repaired.snapshot_id) == ((), (), None)


@pytest.mark.parametrize("question", range(3))
def test_a_tail_begins_where_it_was_asked_to(table: Table, answers: OffsetAnswers, question: int) -> None:
    with answers.lacking(after=question):
        assert tail_of(table.store, log_of_table(table), start=EARLIEST).starts == {0: 0, 1: 0}


def test_a_reader_is_not_called_behind_without_an_answer(table: Table, answers: OffsetAnswers) -> None:
    Reader(open_table(table.path)).read()

    with answers.lacking(after=0), pytest.raises(UnavailableError, match="neither an answer nor an error"):
        find_readers_behind(table.store, log_of_table(table), now_millis=system_millis())


@pytest.fixture
def topic(bootstrap_servers: str) -> Iterator[KafkaTopic]:
    with log_topic(bootstrap_servers) as made:
        producer = made.producer()
        leave_open(producer, [1, 2, 3])
        yield made
        producer.close()


def test_the_checkpoint_of_another_programs_topic_gets_offsets_alone(topic: KafkaTopic, answers: OffsetAnswers) -> None:
    head = ForeignHead(topic, describe_foreign(topic).topic_id)

    for look in (head.ends, head.starts):
        with answers.lacking(after=0), pytest.raises(UnavailableError):
            look()
        assert dict(look()) == {0: 0, 1: 0}


@pytest.mark.parametrize("question", range(3))
def test_an_open_transaction_is_found_or_nothing_is_said(
    topic: KafkaTopic, answers: OffsetAnswers, question: int
) -> None:
    with answers.lacking(after=question), pytest.raises(UnavailableError):
        open_transactions(topic, [0, 1])
    assert [(one.partition, one.first_offset) for one in open_transactions(topic, [0, 1])] == [(0, 0)]


def await_unread(port: int) -> None:
    """Return when a request lies in a connection to a port, and its process has not read it."""
    while not any(
        fields[1].endswith(f":{port:04X}") and int(fields[4].partition(":")[2], 16)
        for name in ("tcp", "tcp6")
        for fields in (line.split() for line in Path(f"/proc/net/{name}").read_text("ascii").splitlines()[1:])
    ):
        os.sched_yield()


WAYS_TO_ASK: Sequence[Callable[[KafkaTopic], Mapping[int, int | None]]] = (
    lambda topic: {bucket: at.offset for bucket, at in high_watermarks(topic, 2).items()},
    lambda topic: {bucket: at.offset for bucket, at in log_start_offsets(topic, 2).items()},
    lambda topic: offsets_since(topic, 2, 1_000),
)


@pytest.mark.full
def test_a_broker_that_is_killed_while_it_is_asked_leaves_no_answer(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "kafka")
    try:
        running = broker.start()
        topic = KafkaTopic(client_config={"bootstrap.servers": running.bootstrap_servers}, name="t")
        create_topic(topic, 2)
        for ask in WAYS_TO_ASK:
            with_answer = ask(topic)
            with ThreadPoolExecutor(1) as threads:
                with frozen(running.pid):
                    asked = threads.submit(ask, topic)
                    await_unread(int(running.bootstrap_servers.rpartition(":")[2]))
                    os.kill(running.pid, signal.SIGKILL)
                with pytest.raises(UnavailableError):
                    asked.result()

            running = broker.start()
            assert Patience(60).keep_trying(partial(ask, topic)) == with_answer
    finally:
        broker.stop()
