"""Transactions that meet faults on a real broker: no reader sees a part of one, none is lost, none is there twice.

Each fault strikes one batch of a history, at a place that the seed chooses; a reader of committed records looks on.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

import pytest

from lakelog.catalog import Catalog
from lakelog.common.errors import ConflictError, StalledError
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.kafka.clients.offsets import high_watermark, high_watermarks, last_stable_offsets
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.logstore.kafka.records import consumer
from lakelog.logstore.kafka.records.consumer import close_idle_consumers
from lakelog.logstore.kafka.records.tail import read_tail
from lakelog.protocol.access.table_log import kafka_topic
from lakelog.protocol.state.steps import Step
from lakelog.protocol.writing import task
from tests.support.kills.crashing_writer import InjectedCrash
from tests.support.kills.fault_runs import BUCKETS, KINDS, Follower, Run, die, once
from tests.support.logs.log_records import await_committed, log_of_table
from tests.support.logs.log_topics import leave_open

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

SEEDS_FULL = 24
TIMEOUT = {"log.kafka.transaction.timeout.ms": "1000"}


@dataclass(frozen=True, slots=True)
class Fault:
    """What strikes a batch, written in the run; `options` are those of the table."""

    strike: Callable[[Run, EmbeddedBroker], None]
    options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def some_bucket(run: Run) -> int:
    return run.rng.randrange(BUCKETS)


def abort(run: Run, _broker: EmbeddedBroker) -> None:
    """The process ends before its commit, and aborts what it has sent."""
    run.batch("a", once(die, Step.COMMIT, some_bucket(run)))


def leave_behind(run: Run, _broker: EmbeddedBroker) -> None:
    """The process is killed before its commit: the transaction stays open until the next owner's fence."""
    identifier = run.new_batch("a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionalProducer, "close", lambda _producer: None)
        with pytest.raises(InjectedCrash):
            run.write("a", identifier, once(die, Step.COMMIT, some_bucket(run)))
    if run.rng.random() < 0.5:
        run.batch("b")  # which fences the bucket, too
    run.write("a", identifier, is_new=True)


def fence(run: Run, _broker: EmbeddedBroker) -> None:
    """Another writer takes the bucket over, and writes a batch of its own."""
    step = run.rng.choice((Step.LOOK, Step.PRODUCE, Step.COMMIT, Step.AFTER_COMMIT))

    def take_over() -> None:
        run.batch("b")

    run.batch("a", once(take_over, step, some_bucket(run)))


def let_loose(run: Run, _broker: EmbeddedBroker) -> None:
    """A process that was held goes on after another one has written its batch."""
    identifier = run.new_batch("a")
    step = run.rng.choice((Step.PRODUCE, Step.COMMIT, Step.AFTER_COMMIT))
    ended: list[str] = []

    def replay() -> None:
        zombie = run.writers.pop("a")
        run.write("a", identifier, is_new=True)
        run.writers["a"] = zombie
        ended.append("replayed")

    with suppress(ConflictError):  # it is refused, or finds that the batch is done
        run.write("a", identifier, once(replay, step, some_bucket(run)))
    assert ended
    run.writers.pop("a", None)


def time_out(run: Run, _broker: EmbeddedBroker) -> None:
    """The broker aborts a transaction that is open for too long; the commit is refused, and the batch runs again."""
    bucket = some_bucket(run)
    topic = kafka_topic(log_of_table(run.table))

    def wait_until_aborted() -> None:
        while last_stable_offsets(topic, BUCKETS)[bucket].offset != high_watermark(topic.partition(bucket)).offset:
            threading.Event().wait(0.05)

    run.batch("a", once(wait_until_aborted, Step.COMMIT, bucket))


def kill_broker(run: Run, broker: EmbeddedBroker) -> None:
    """The broker is killed while it commits: the outcome is unknown. It starts again on the same folder."""
    delay_seconds = run.rng.choice((0.0, 0.001, 0.003, 0.006, 0.01, 0.02))
    is_killed = threading.Event()

    def kill() -> None:
        info = broker.status()
        assert info is not None
        os.kill(info.pid, signal.SIGKILL)
        is_killed.set()
        broker.start()

    killer = threading.Timer(delay_seconds, kill)

    def strike() -> None:
        killer.start()
        if not delay_seconds:
            is_killed.wait()

    identifier = run.new_batch("a")
    run.write("a", identifier, once(strike, Step.AFTER_COMMIT if run.rng.random() < 0.2 else Step.COMMIT, 0))
    killer.join()


def hide(run: Run, _broker: EmbeddedBroker) -> None:
    """A foreign producer's open transaction hides what is behind it; it is no part of the table when it is aborted."""
    bucket = some_bucket(run)
    partition = kafka_topic(log_of_table(run.table)).partition(bucket)
    await_committed(run.table)
    run.follower.read_on()
    foreign = TransactionalProducer(partition, f"foreign-{uuid.uuid4()}")
    leave_open(foreign, [1, 2, 3])
    has_bucket = run.rng.random() < 0.5  # a process that has it fences nobody, and reads no tail
    before = run.follower.positions[bucket]
    user = list(run.given)[-1][0] if has_bucket else "a"
    identifier = run.new_batch(user)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakelog.protocol.stores.task_stores.read_tail", partial(read_tail, timeout_seconds=1.0))
        with pytest.raises(StalledError):
            run.write(user, identifier, is_new=not has_bucket)
    run.follower.read_on()
    assert run.follower.positions[bucket] == before
    foreign.close()
    run.write(user, identifier, is_new=True)


def crash_behind_the_log(run: Run, _broker: EmbeddedBroker) -> None:
    """The process ends when the log has decided and no snapshot has the batch; another writer may come first."""
    identifier = run.new_batch("a")
    step = run.rng.choice((Step.AFTER_COMMIT, Step.BEFORE_SNAPSHOT, Step.AFTER_SNAPSHOT))
    with pytest.raises(InjectedCrash):
        run.write("a", identifier, once(die, step, some_bucket(run) if step is Step.AFTER_COMMIT else None))
    if run.rng.random() < 0.5:
        run.batch("b")
    run.write("a", identifier, is_new=True)


FAULTS = {
    "abort": Fault(abort),
    "left open": Fault(leave_behind),
    "fence": Fault(fence),
    "zombie": Fault(let_loose),
    "time-out": Fault(time_out, TIMEOUT),
    "broker killed in commit": Fault(kill_broker),
    "foreign open transaction": Fault(hide),
    "crash after log commit": Fault(crash_behind_the_log),
}
FULL_ALONE = {"time-out", "foreign open transaction", "left open"}  # which wait for a broker


def cases() -> Iterator[object]:
    """(fault, kind, seed): the kinds take turns over faults and seeds; the first seeds are those of the gate."""
    names = list(KINDS)
    for place, fault in enumerate(FAULTS):
        gate = 0 if fault in FULL_ALONE else 1
        for seed in range(SEEDS_FULL):
            kind = names[(place + seed + seed // len(names)) % len(names)]
            marks = () if seed < gate else (pytest.mark.full,)
            yield pytest.param(fault, kind, seed, id=f"{fault}, {kind}, {seed}", marks=marks)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker of this module's own, which tests kill."""
    broker = EmbeddedBroker(tmp_path_factory.mktemp("faults"), start_timeout_seconds=180)
    yield broker
    broker.stop()


@pytest.fixture(autouse=True)
def short_requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give brokers two seconds for an answer."""
    for module in ("clients.clients", "clients.offsets", "producers.writer", "records.consumer"):
        monkeypatch.setattr(f"lakelog.logstore.kafka.{module}.ANSWER_SECONDS", 2.0)
    yield
    close_idle_consumers()


def strike(fault: str, kind: str, seed: int, folder: Path, broker: EmbeddedBroker) -> Run:
    """A history with one fault: two writers, then the batch that is struck, then both again."""
    catalog = Catalog(folder, bootstrap_servers=broker.start().bootstrap_servers)
    run = Run.of(catalog, "db.t", KINDS[kind], hash_of(fault, seed), FAULTS[fault].options)
    run.batch("a")
    if run.rng.random() < 0.5:
        run.batch("b")
    FAULTS[fault].strike(run, broker)
    for user in run.rng.sample("ab", 2):
        run.batch(user)
    return run


def hash_of(fault: str, seed: int) -> int:
    """A seed of its own for each case, the same in every run."""
    return random.Random(f"{fault} {seed}").randrange(1 << 32)


@pytest.mark.parametrize(("fault", "kind", "seed"), list(cases()))
def test_no_fault_shows_a_part_of_a_transaction_or_loses_one(
    fault: str, kind: str, seed: int, tmp_path: Path, broker: EmbeddedBroker
) -> None:
    strike(fault, kind, seed, tmp_path, broker).check()


def has_violation(fault: str, seeds: range, folder: Path, broker: EmbeddedBroker) -> bool:
    """Whether a seed breaks a promise: by a check, or by an error of a writer that cannot go on."""
    for seed in seeds:
        try:
            strike(fault, "append-only", seed, folder / str(seed), broker).check()
        except (AssertionError, KeyError):
            return True
    return False


@pytest.mark.full
def test_a_reader_of_uncommitted_records_sees_parts_of_transactions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broker: EmbeddedBroker
) -> None:
    read_on = Follower.read_on

    def read_everything(follower: Follower, held: Mapping[int, int] | None = None) -> None:
        with monkeypatch.context() as patch:
            patch.setitem(consumer.OWN_CONSUMER_SETTINGS, "isolation.level", "read_uncommitted")
            close_idle_consumers()
            read_on(follower, held)
        close_idle_consumers()

    monkeypatch.setattr("tests.support.kills.fault_runs.last_stable_offsets", high_watermarks)
    monkeypatch.setattr(Follower, "read_on", read_everything)
    assert has_violation("abort", range(1), tmp_path, broker)


@pytest.mark.full
def test_a_writer_that_does_not_look_for_its_own_transaction_logs_it_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broker: EmbeddedBroker
) -> None:
    monkeypatch.setattr(task, "has_own", lambda _batch, _headers: False)
    assert has_violation("crash after log commit", range(6), tmp_path, broker)


@pytest.mark.full
def test_a_process_that_was_held_and_does_not_look_behind_its_fence_writes_its_batch_twice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broker: EmbeddedBroker
) -> None:
    monkeypatch.setattr(task, "check_not_stale", lambda _state, _batch: None)
    assert has_violation("zombie", range(6), tmp_path, broker)
