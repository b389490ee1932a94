"""Fresh reads: the newest snapshot and the log behind it, in histories with batches that wait, statements and deaths.

The law: a fresh read equals the plain read behind the snapshot that takes in the same offsets.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.catalog.logs.statements import logged_table
from lakelog.common.errors import InvalidRequestError, NotFoundError, UnavailableError, UnsupportedError
from lakelog.filestore.metadata.tables import ConsumerManager
from lakelog.logstore.broker.broker import EmbeddedBroker
from lakelog.logstore.kafka.producers.writer import TransactionalProducer
from lakelog.protocol.state.prepared import PreparedCommits
from lakelog.protocol.state.state import Batch
from lakelog.protocol.statements import branch_merging, statements
from lakelog.protocol.statements.settling import settle
from lakelog.protocol.statements.statement_runs import LoggedTable
from lakelog.protocol.stores.driver_snapshots import DriverSnapshots
from lakelog.protocol.stores.table_states import read_state
from lakelog.protocol.writing import fresh
from lakelog.protocol.writing.task import write_bucket
from tests.support.examples import in_full, rest_in_full
from tests.support.kills.dying_process import fence
from tests.support.logs.local_writer import LocalWriter
from tests.support.logs.log_records import await_committed
from tests.support.logs.logged_lines import KINDS, Kind
from tests.support.tables.small_tables import SCHEMA, UNSYNCED, in_new_process

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

IDS = 12
MERGED = {
    "sum": Kind(["id"], {"merge-engine": "aggregation", "fields.batch.aggregate-function": "sum"}),
    "partial update": Kind(["id"], {"merge-engine": "partial-update"}),
    "first row": Kind(["id"], {"merge-engine": "first-row"}),
}
ACTIONS = (
    *("log",) * 8, *("check",) * 4, *("take in",) * 2, *("settle",) * 2, *("statement",) * 2, "compact", "restart",
    *("die in a batch",) * 2, *("die in a statement",) * 3,
)  # fmt: skip


class Died(BaseException):
    """The writer ends here."""


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (statements, branch_merging):
        monkeypatch.setattr(module, "GRACE_MILLIS", 0)


class FreshHistory:
    """A table with two writers by interval, and what happens to it."""

    def __init__(self, catalog: Catalog, kind: Kind, seed: int) -> None:
        self.rng = random.Random(seed)
        self.catalog, self.kind = catalog, kind
        options = {"bucket": "2", "log.system": "kafka", **kind.options}
        self.table = catalog.create_table(f"db.t{seed}", schema=SCHEMA, primary_keys=kind.keys, options=options)
        self.numbers = {"a": 0, "b": 0}
        self.writers = {user: LocalWriter(self.table, user) for user in self.numbers}
        self.events: Counter[str] = Counter()
        self.value = 0

    def opened(self) -> Table:
        """The table as a new process has it."""
        store = in_new_process(self.table.path, UNSYNCED)
        return Table(store, bootstrap_servers=self.catalog._bootstrap_servers)

    def rows(self) -> pa.Table:
        self.value += 1
        ids = sorted(self.rng.sample(range(IDS), self.rng.randint(1, 4)))
        return pa.table([ids, [self.value] * len(ids)], schema=SCHEMA)

    def log(self) -> None:
        user = self.rng.choice("ab")
        self.writers[user].log(self.numbers[user], self.rows())
        self.numbers[user] += 1

    def restart(self) -> None:
        user = self.rng.choice("ab")
        self.writers[user] = LocalWriter(self.table, user)

    def take_in(self) -> None:
        self.writers[self.rng.choice("ab")].take_in()

    def settle(self) -> None:
        self.table.log_store.settle()

    def statement(self) -> None:
        self._change(self.opened())

    def _change(self, table: Table) -> None:
        if self.rng.random() < 0.5 and table.count(where="id < 3") and "engine" not in str(self.kind.options):
            table.delete("id < 3")
        else:
            table.write(self.rows())

    def compact(self) -> None:
        self.opened().compact(full=self.rng.random() < 0.5)

    def die_in_a_batch(self) -> None:
        """The writer logs one bucket of its batch; its next run has the same batch."""
        user = self.rng.choice("ab")
        rows, writer = self.rows(), self.writers[user]
        batch = Batch(user=user, identifier=self.numbers[user], source_digest=str(self.numbers[user]))
        for task in [one for one in writer._tasks(batch, rows, None) if one.rows is not None][:1]:
            write_bucket(task)
        if self.rng.random() < 0.5:
            self.check()
        self.writers[user] = LocalWriter(self.table, user)
        self.writers[user].log(self.numbers[user], rows)
        self.numbers[user] += 1

    def die_in_a_statement(self) -> None:
        """The statement is in the log of one bucket alone, if it has rows in both; or in both, and in no snapshot."""
        commit, committed, before = TransactionalProducer.commit, count(), self.value
        is_whole = self.rng.random() < 0.5

        def dying(producer: TransactionalProducer) -> int:
            if next(committed):
                if is_whole:
                    commit(producer)
                raise Died
            return commit(producer)

        try:
            with patch.object(TransactionalProducer, "commit", dying):
                self._change(self.opened())
        except Died:
            fence(self.opened())
            self.events["a whole statement died"] += is_whole
            adds_up = "aggregation" in self.kind.options.values()
            has_value = self.value > before and not adds_up and not is_whole
            self.check(absent=self.value if has_value else None)

    def check(self, absent: int | None = None) -> None:
        """The law; the handle that stays and a new one read the same. No row has the value of a statement in part."""
        await_committed(self.table)  # Kafka shows a transaction some time after its answer to the producer
        cold = self.opened()
        whole = cold.at(fresh=True, whole=True)
        found = self.table.at(fresh=True)
        shown, again = contents(found.to_arrow()), contents(cold.to_arrow(fresh=True, at_least=found.position))
        assert again == shown
        assert found.count() == len(shown)
        assert absent not in {value for _, value in shown}
        assert contents(found.to_batches()) == shown
        if self.table.schema.primary_keys:
            for handle in (found, cold.at(fresh=True, at_least=found.position)):
                ids = sorted(self.rng.sample(range(-1, IDS + 1), self.rng.randint(1, IDS)))
                looked_up = handle.lookup([{"id": one} for one in ids])
                assert contents(looked_up) == [row for row in shown if row[0] in ids]
                self.events["found behind the snapshot"] += handle._added is not None and looked_up.num_rows
            for table in (self.opened(), self.table):  # a look-up reads the logs of the buckets of its keys
                for one in self.rng.sample(range(IDS), 3):
                    looked_up = table.lookup({"id": one}, fresh=True)
                    assert contents(looked_up) == [row for row in shown if row[0] == one]
        self.events["behind a snapshot"] += found.position != self.table.at().position
        self.events["not whole"] += whole.position != found.position
        rest = contents(whole.to_arrow())
        self.table.log_store.settle()
        plain = self.table.at()
        if plain.position.offsets == found.position.offsets:
            self.events["compared"] += 1
            assert contents(plain.to_arrow()) == shown
        else:  # a statement that was cut off was finished by the settling
            self.events["a statement was finished"] += 1
        latest = self.table.snapshot()
        state = read_state(self.table.store, latest, topic_id=self.table.log.topic_id)  # type: ignore[union-attr]
        assert rest == shown or whole.position != found.position
        waiting = {user for user, _ in state.logged.taken()}
        self.events["a batch waits for its rest"] += bool(waiting)


def contents(rows: pa.Table | Iterator[pa.RecordBatch]) -> list[tuple[int, int]]:
    batches = rows.to_batches() if isinstance(rows, pa.Table) else rows
    return sorted((row["id"], row["batch"]) for batch in batches for row in batch.to_pylist())


def run(catalog: Catalog, kind: Kind, seed: int, steps: int) -> Counter[str]:
    history = FreshHistory(catalog, kind, seed)
    for _ in range(steps):
        action = history.rng.choice(ACTIONS)
        history.events[action] += 1
        getattr(history, action.replace(" ", "_"))()
    history.check()
    catalog.drop_table(f"db.t{seed}")
    return history.events


@pytest.mark.parametrize("kind", rest_in_full([*KINDS, *MERGED], 2))
def test_a_fresh_read_equals_the_plain_read_behind_its_snapshot(
    kind: str, tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    events = run(catalog, {**KINDS, **MERGED}[kind], 30, 25)
    assert all(events[one] for one in ("compared", "behind a snapshot", "not whole"))


@pytest.mark.full
@pytest.mark.parametrize("kind", [*KINDS, *MERGED])
def test_fresh_reads_equal_plain_reads_in_many_histories(kind: str, tmp_path: Path, bootstrap_servers: str) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    seeds = range(100, 100 + in_full(40))
    events = sum((run(catalog, {**KINDS, **MERGED}[kind], seed, 40) for seed in seeds), Counter[str]())
    assert events["a statement was finished"]


def test_a_read_that_shows_a_part_of_a_statement_is_seen(
    tmp_path: Path, bootstrap_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fresh, "cut_tails", lambda tails, *_: tails)
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    with pytest.raises(AssertionError):
        run(catalog, KINDS["upsert"], 20, 60)


def test_what_a_fresh_read_refuses_is_named(tmp_path: Path, bootstrap_servers: str) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"log.system": "kafka"})
    options = {"log.system": "kafka", "log.consistency": "eventual"}
    eventual = catalog.create_table("db.e", schema=SCHEMA, primary_keys=["id"], options=options)
    plain = catalog.create_table("db.p", schema=SCHEMA, primary_keys=["id"])
    written = plain.write(pa.table([[1], [2]], schema=SCHEMA))

    with pytest.raises(InvalidRequestError, match="shows the newest state, and tag names another one"):
        table.to_arrow(fresh=True, tag="t")
    with pytest.raises(UnsupportedError, match=r"db[.]e has an eventual log"):
        eventual.count(fresh=True)
    with pytest.raises(InvalidRequestError, match="the position is of table"):
        table.at(fresh=True, at_least=plain.at().position)
    with pytest.raises(InvalidRequestError, match="has no log"):
        plain.log_store.settle()
    assert plain.count(fresh=True) == 1
    assert plain.at(fresh=True, at_least=written).position == plain.at().position
    LocalWriter(table, "a").log(0, pa.table([[1], [2]], schema=SCHEMA))
    await_committed(table)
    ahead = table.at(fresh=True).position
    with pytest.raises(UnavailableError, match=r"no snapshot of table db[.]t has reached the position"):
        table.at(at_least=str(ahead), timeout=0.1)
    table.log_store.settle()
    assert table.at(at_least=str(ahead), timeout=0).count() == 1


def test_without_a_broker_there_is_no_fresh_read(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path / "broker").start()
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=broker.bootstrap_servers)
    options = {"log.system": "kafka", "log.unavailable-timeout": "1 s"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    table.write(pa.table([[1], [2]], schema=SCHEMA))
    os.kill(broker.pid, signal.SIGKILL)

    with pytest.raises(UnavailableError):
        table.to_arrow(fresh=True)
    assert table.count() == 1


def test_tags_and_branches_of_the_newest_state_have_what_waits(tmp_path: Path, bootstrap_servers: str) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options={"log.system": "kafka"})
    writer = LocalWriter(table, "a")
    writer.log(0, pa.table([[1], [0]], schema=SCHEMA))
    table.tags.create("one")
    writer.log(1, pa.table([[2], [0]], schema=SCHEMA))
    table.branches.create("two")
    writer.log(2, pa.table([[3], [0]], schema=SCHEMA))
    table.delete("id > 1")
    writer.log(3, pa.table([[4], [0]], schema=SCHEMA))
    await_committed(table)
    table.tags.create("three", tag="one")

    assert table.to_arrow(tag="one")["id"].to_pylist() == [1]
    assert sorted(table.branch("two").to_arrow()["id"].to_pylist()) == [1, 2]
    assert table.to_arrow()["id"].to_pylist() == [1]  # a statement sees what waits
    assert table.to_arrow(tag="three")["id"].to_pylist() == [1]
    assert sorted(table.to_arrow(fresh=True)["id"].to_pylist()) == [1, 4]


def test_settling_leaves_a_statement_that_begins_meanwhile_to_its_own_commit(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    """Taken in without its user, it would be logged again by whoever finishes it."""
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    options = {"bucket": "2", "bucket-key": "id", "log.system": "kafka"}
    table = catalog.create_table("db.t", schema=SCHEMA, options=options)
    LocalWriter(table, "a").log(0, pa.table([[1], [0]], schema=SCHEMA))
    rows = pa.table([[*range(10, 20)], [1] * 10], schema=SCHEMA)
    dies = patch.object(DriverSnapshots, "append", side_effect=Died)
    with patch.object(LoggedTable, "_begin"), dies, pytest.raises(Died):
        table.write(rows)  # it is in the log of both buckets
    await_committed(table)
    logged = logged_table(table)
    looks = count()

    def finish() -> object:
        return logged.finish_left_over() if next(looks) else None  # the first look came before the statement

    settle(logged.table, logged.target, finish)

    assert table.count() == 11
    assert table.count(fresh=True) == 11
    table.write(pa.table([[2], [2]], schema=SCHEMA))
    assert table.count() == 12
    assert PreparedCommits(table.store).names() == []


def waiting_table(tmp_path: Path, bootstrap_servers: str) -> tuple[Table, LocalWriter]:
    """A table with ids 0 and 1 in snapshot 1, and 2 and 3 in the log alone."""
    catalog = Catalog(tmp_path / "lake", bootstrap_servers=bootstrap_servers)
    options = {"bucket": "1", "log.system": "kafka", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    table = catalog.create_table("db.t", schema=SCHEMA, primary_keys=["id"], options=options)
    writer = LocalWriter(table, "a")
    writer.log(0, pa.table([[0, 1], [0, 0]], schema=SCHEMA))
    writer.take_in()
    writer.log(1, pa.table([[2, 3], [1, 1]], schema=SCHEMA))
    await_committed(table)
    return table, writer


def expire_what_was_read(table: Table, writer: LocalWriter) -> int:
    """Another writer replaces all files of the table, and expires what may expire; returns the oldest snapshot."""
    writer.take_in()
    table.compact(full=True)
    table.write(pa.table([[9], [9]], schema=SCHEMA))
    table.compact(full=True)
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    return next(iter(table.snapshots())).id


def consumers_in(table: Table) -> list[str]:
    return [one.name for one in (Path(table.path) / "consumer").glob("consumer-lakelog-stream-*")]


def test_the_files_of_a_fresh_read_in_batches_do_not_expire_before_its_end(
    tmp_path: Path, bootstrap_servers: str
) -> None:
    table, writer = waiting_table(tmp_path, bootstrap_servers)
    batches = table.to_batches(fresh=True)
    read = [next(batches)]
    assert len(consumers_in(table)) == 1

    assert expire_what_was_read(table, writer) == 1

    read += batches
    assert sorted(pa.Table.from_batches(read)["id"].to_pylist()) == [0, 1, 2, 3]
    assert consumers_in(table) == []
    table.upkeep.expire_snapshots(retain_max=1, retain_min=1)
    assert len(list(table.snapshots())) == 1


def test_in_a_with_block_all_reads_of_a_state_have_their_files(tmp_path: Path, bootstrap_servers: str) -> None:
    table, writer = waiting_table(tmp_path, bootstrap_servers)
    with table.at(fresh=True) as scan:
        lazy = scan.to_polars()
        expire_what_was_read(table, writer)
        assert sorted(lazy.collect()["id"].to_list()) == [0, 1, 2, 3]
        assert scan.count() == 4
        assert scan.to_arrow(where="id = 3")["batch"].to_pylist() == [1]
    assert consumers_in(table) == []


def test_without_the_lease_they_would_have_expired(tmp_path: Path, bootstrap_servers: str) -> None:
    table, writer = waiting_table(tmp_path, bootstrap_servers)
    scan = table.at(fresh=True)
    assert expire_what_was_read(table, writer) > 1
    with pytest.raises(NotFoundError):
        scan.to_arrow()


def test_a_folder_that_cannot_be_written_is_read_without_a_lease(
    tmp_path: Path, bootstrap_servers: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _ = waiting_table(tmp_path, bootstrap_servers)

    def refuse(*_given: object, **_named: object) -> None:
        raise UnavailableError("access denied")

    monkeypatch.setattr(ConsumerManager, "put", refuse)
    assert sum(batch.num_rows for batch in table.to_batches(fresh=True)) == 4
    assert [one for one in caplog.messages if "may expire before it ends: access denied" in one]
