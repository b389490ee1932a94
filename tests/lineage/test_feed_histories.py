"""Random histories of writers, feeds that end anywhere, expiries and renames: none is missing, none is double."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.catalog import Catalog, Table
from lakelog.lineage import feed, known_edges, rebuild
from lakelog.lineage.tables.edge_columns import FORK_OPERATION
from lakelog.lineage.tables.feeding import feed_catalog
from tests.support.files.faulty_file_io import FaultyFileIO, InjectedCrash
from tests.support.lineage.lineage_records import LINEAGE_ON, commit_batch, entry, lineage, system_rows, table_source

Known = tuple[str, str | None, int, str, int, str, int]  # sink, branch, snapshot, user, batch, source, its snapshot
STEPS = 30
STORED = ("sink_table", "sink_line", "sink_snapshot", "user", "identifier", "source_table", "source_to")


class History:
    """Two tables and a branch, written by three jobs that take in parts of each other's batches."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.catalog = Catalog(folder, options=LINEAGE_ON)
        options = {"bucket": "1", "snapshot.num-retained.min": "1", "snapshot.num-retained.max": "6"}
        for name in ("db.t", "db.u"):
            self.catalog.create_table(name, schema=pa.schema({"id": pa.int64()}), options=options)
        self.names = ["db.t", "db.u"]
        self.next_batch: dict[tuple[int, str | None, str], int] = {}
        self.model: list[tuple[int, str | None, int, str, int, str, int]] = []
        self.branches: list[int] = []
        feed(self.catalog)  # what expires before lineage is first recorded is not known

    def line(self) -> tuple[int, str | None, Table]:
        at = self.random.randrange(2)
        table = self.catalog.load_table(self.names[at])
        if at in self.branches and self.random.random() < 0.4:
            return at, "trial", table.branch("trial")
        return at, None, table

    def commit(self) -> None:
        at, branch, table = self.line()
        users = self.random.sample(["j1", "j2", "j3"], k=self.random.randint(1, 2))
        entries = []
        for user in users:
            batch = self.next_batch.get((at, branch, user), 0)
            entries.append(entry(user, batch, lineage(batch, table_source("db.a", end=batch + 1), job=user)))
        user, batch = users[0], self.next_batch.get((at, branch, users[0]), 0)
        snapshot = commit_batch(table, user, batch, *entries)
        self.next_batch[at, branch, user] = batch + 1
        self.model.append((at, branch, snapshot.id, user, batch, "db.a", batch + 1))

    def write(self) -> None:
        _, _, table = self.line()
        table.write(pa.table({"id": [1]}))  # compacts, and expires by itself

    def feed(self) -> None:
        feed(self.catalog)

    def feed_in_part(self) -> None:
        left = self.random.randint(1, 12)

        def end(_: str) -> None:
            nonlocal left
            left -= 1
            if not left:
                raise InjectedCrash

        with contextlib.suppress(InjectedCrash):
            feed_catalog(self.catalog, end)

    def fail_at_a_call(self) -> None:
        real = self.catalog._file_io
        self.catalog._file_io = FaultyFileIO(real, fails_at=self.random.randint(1, 300), after_effect=True)
        try:
            with contextlib.suppress(InjectedCrash):
                feed(self.catalog)
        finally:
            self.catalog._file_io = real

    def expire(self) -> None:
        _, _, table = self.line()
        table.upkeep.expire_snapshots(retain_max=self.random.randint(1, 3), retain_min=1)

    def rename(self) -> None:
        at = self.random.randrange(2)
        name = f"db.n{self.random.randrange(1_000_000)}"
        self.catalog.rename_table(self.names[at], name)
        self.names[at] = name

    def branch(self) -> None:
        at = self.random.randrange(2)
        table = self.catalog.load_table(self.names[at])
        if at not in self.branches and next(iter(table.snapshots()), None) is not None:
            table.branches.create("trial")
            self.branches.append(at)
            for (other, branch, user), batch in list(self.next_batch.items()):
                if (other, branch) == (at, None):
                    self.next_batch[at, "trial", user] = batch

    def rebuild(self) -> None:
        rebuild(self.catalog)

    def expected(self) -> list[Known]:
        return sorted(((self.names[at], *rest) for at, *rest in self.model), key=repr)  # type: ignore[misc]

    def known(self) -> list[Known]:
        found = known_edges(self.catalog)
        columns = ["sink_table", "sink_branch", "sink_snapshot", "user", "identifier", "source_table", "source_to"]
        return sorted((tuple(row.values()) for row in found.select(columns).to_pylist()), key=repr)

    def run(self) -> None:
        acts = {
            self.commit: 10,
            self.write: 3,
            self.feed: 2,
            self.feed_in_part: 3,
            self.fail_at_a_call: 2,
            self.expire: 3,
            self.rename: 1,
            self.branch: 1,
            self.rebuild: 1,
        }
        for _ in range(STEPS):
            (act,) = self.random.choices(list(acts), weights=list(acts.values()))
            act()
        assert self.known() == self.expected()
        feed(self.catalog)
        assert self.known() == self.expected()
        found = [(*row[:1], None if row[1] == "main" else row[1], *row[2:]) for row in self.stored()]
        assert sorted(found, key=repr) == self.expected()

    def stored(self) -> list[tuple[object, ...]]:
        """The rows of batches; where branches began are rows beside them."""
        rows = system_rows(self.catalog, "snapshot_edges", *STORED, "operation")
        return [row[:-1] for row in rows if row[-1] != FORK_OPERATION]


@pytest.mark.parametrize("seed", range(1))
def test_each_batch_is_known_once_whatever_happens(tmp_path: Path, seed: int) -> None:
    History(tmp_path, seed).run()


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 40))
def test_each_batch_is_known_once_in_more_histories(tmp_path: Path, seed: int) -> None:
    History(tmp_path, seed).run()
