"""Fresh reads: the newest snapshot and the log behind it, in histories with batches that wait, statements and deaths.

The law: a fresh read equals the plain read behind the snapshot that takes in the same offsets.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.protocol.state.state import Batch
from lakelog.protocol.statements import branch_merging, statements
from lakelog.protocol.stores.table_states import read_state
from lakelog.protocol.writing.task import write_bucket
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.kills.dying_process import counting_kafka, fence
from tests.support.logs.local_writer import LocalWriter
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

    def opened(self, file_io: FaultyFileIO | None = None) -> Table:
        """The table as a new process has it."""
        store = in_new_process(self.table.path, file_io or UNSYNCED)
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
        faulty = FaultyFileIO(UNSYNCED, fails_at=self.rng.randint(1, 60), after_effect=self.rng.random() < 0.5)
        try:
            with counting_kafka(faulty):
                self._change(self.opened(faulty))
        except InjectedCrash:
            fence(self.opened())
            self.check()

    def check(self) -> None:
        """The law; the handle that stays and a new one read the same."""
        cold = self.opened()
        whole = cold.at(fresh=True, whole=True)
        found = self.table.at(fresh=True)
        fresh, again = contents(found.to_arrow()), contents(cold.to_arrow(fresh=True, at_least=found.position))
        assert again == fresh
        assert found.count() == len(fresh)
        assert contents(found.to_batches()) == fresh
        self.events["behind a snapshot"] += found.position != self.table.at().position
        self.events["not whole"] += whole.position != found.position
        before = contents(whole.to_arrow())
        self.table.log_store.settle()
        plain = self.table.at()
        if plain.position.offsets == found.position.offsets:
            self.events["compared"] += 1
            assert contents(plain.to_arrow()) == fresh
        else:  # a statement that was cut off was finished by the settling
            self.events["a statement was finished"] += 1
        latest = self.table.snapshot()
        state = read_state(self.table.store, latest, topic_id=self.table.log.topic_id)  # type: ignore[union-attr]
        assert before == fresh or whole.position != found.position
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


@pytest.mark.parametrize("kind", [*KINDS, *MERGED])
def test_a_fresh_read_equals_the_plain_read_behind_its_snapshot(
    kind: str, tmp_path: Path, bootstrap_servers: str
) -> None:
    catalog = Catalog(tmp_path, bootstrap_servers=bootstrap_servers)
    events = run(catalog, {**KINDS, **MERGED}[kind], 7, 20)
    assert events["compared"]
    assert events["behind a snapshot"]
