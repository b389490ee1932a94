"""Random histories of real tables whose rows wait for compactions, and what real reads show of each of their snapshots.

`orders` is a table of any kind that is written by hand. Streams copy it into `a` and `b`, and a stream of `a` goes into
`d`: a sink has what its follower is given. Statements copy what a batch read of `orders` shows into `c`. So a snapshot
of these shows a version of `orders` where a batch read of it has the rows that one of that version had.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from pathlib import Path

import pyarrow as pa

from lakelog.catalog import Catalog, Table
from lakelog.common.errors import ConflictError, NotFoundError
from lakelog.common.types import ROW_KIND_TEXTS, RowKind
from lakelog.filestore.commit.batches import append_commit
from lakelog.filestore.compact.bucket_work import due_work, pick_unit
from lakelog.filestore.compact.buckets import compact_buckets
from lakelog.filestore.compact.committing import commit_results
from lakelog.filestore.metadata.origins.record import BatchLineage, ReadMode, TableSource
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.read.changes import change_files, continues, read_change_file
from lakelog.filestore.verbs.upkeep_verbs import merge_due
from lakelog.filestore.write.write import write_rows
from lakelog.lineage import feed
from lakelog.lineage.answers.consistent import ConsistentSnapshots, NotConsistentError, consistent_snapshots
from lakelog.lineage.records.sources import version_of
from tests.support.lineage.lineage_jobs import overwrite_rows, read_of
from tests.support.lineage.lineage_records import LINEAGE_ON
from tests.support.tables.followed_tables import KEYS, KINDS, Change, Kind, Rows, fold, rows_of, start_of
from tests.support.tables.small_tables import SCHEMA

SINKS = ("none", "none", "deletion vectors", "lookup", "deletion vectors, lookup")
SOURCES = tuple(name for name, kind in KINDS.items() if kind.has_key and name != "dynamic buckets")
MADE = ("a", "b", "c", "d")  # from orders


@dataclass
class Follower:
    """A stream that copies a table into another one. `rows` is what it has been given up to the snapshot `read`."""

    name: str
    source: Table
    sink: Table
    kind: Kind
    rows: Rows = field(default_factory=Counter)
    read: Snapshot | None = None
    batch: int = 0
    is_stopped: bool = False

    def run(self, end: Snapshot) -> None:
        """A batch up to a snapshot of the source. The stream ends where the source was rolled back, or has expired."""
        found = self._given(end)
        if found is None:
            self.is_stopped = True
            return
        source = read_of(self.source, end=end.id)
        if self.read is not None:
            source = replace(source, start=version_of(self.read))
        self._commit(found, source)
        self.rows, self.read = found, end
        self.batch += 1

    def _given(self, end: Snapshot) -> Rows | None:
        """The rows with what the stream is given; None where it fails."""
        store = self.source.store
        if self.read is None:
            return start_of(store, end)
        found = [store.snapshots.find(number) for number in range(self.read.id, end.id + 1)]
        steps = [one for one in found if one is not None]
        is_whole = len(steps) == len(found) and steps[0].uuid == self.read.uuid
        if not is_whole or not all(continues(store, one, other) for one, other in pairwise(steps)):
            return None
        changes = [change for one in steps[1:] for change in self._changes(one)]
        return fold(self.rows, changes, self.kind, is_strict=False)

    def _changes(self, snapshot: Snapshot) -> Iterator[Change]:
        store = self.source.store
        for entry in change_files(store, snapshot):
            for batch in read_change_file(store, entry, store.schema.fields, kind_name="kind"):
                for row in batch.to_pylist():
                    yield ROW_KIND_TEXTS[row["kind"]], row["id"], row["batch"]

    def _commit(self, found: Rows, source: TableSource) -> None:
        """Bring the sink from what the stream had to what it has now."""
        before, now = dict(self.rows.keys()), dict(found.keys())
        ids = [key for key in before.keys() | now.keys() if before.get(key) != now.get(key)]
        rows = pa.table([ids, [now.get(key, before.get(key)) for key in ids]], schema=SCHEMA)
        kinds = pa.array([int(RowKind.INSERT if key in now else RowKind.DELETE) for key in ids], pa.int8())
        store = self.sink.store
        live = store.live_files.of(store.snapshots.latest())
        written = write_rows(store, rows, kinds, first_sequence=live.next_sequence)
        record = BatchLineage(job=self.name, query_id=self.name, batch_id=self.batch, sources=[source])
        named = {"user": self.name, "identifier": self.batch, **record.to_json()}
        append_commit(
            store,
            user=self.name,
            identifier=self.batch,
            digest=None,
            entries=written.entries,
            changelog=written.changelog,
            lineage={"batches": [named]},
        )


class WaitingHistory:
    """Tables that change at random. Every choice comes from `dice`.

    `rows` is what batch reads have shown, by commit.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.catalog = Catalog(folder, options=LINEAGE_ON if dice.random() < 0.3 else {})
        self.source = dice.choice(SOURCES)
        self.tables = {"orders": self._create("orders", self.source)}
        sinks = [dice.choice(SINKS) for _ in MADE]
        self.tables |= {name: self._create(name, sink) for name, sink in zip(MADE, sinks, strict=True)}
        kind = KINDS[self.source]
        self.followers = [Follower(name, self.tables["orders"], self.tables[name], kind) for name in ("a", "b")]
        self.followers.append(Follower("d", self.tables["a"], self.tables["d"], KINDS[sinks[0]]))
        self.rows: dict[str, Rows] = {}
        self.batch = 0
        self.moves: list[str] = []

    def _create(self, name: str, kind: str) -> Table:
        only = str(self.dice.random() < 0.7).lower()
        options = {"bucket": self.dice.choice("123"), "write-only": only, **KINDS[kind].options}
        return self.catalog.create_table(f"db.{name}", schema=SCHEMA, primary_keys="id", options=options)

    def run(self, moves: int) -> None:
        """So many moves, and the rows of each snapshot."""
        names = {
            "write": 6,
            "follow": 9,
            "copy": 2,
            "compact": 3,
            "compact_some": 5,
            "compact_late": 3,
            "delete": 1,
            "overwrite": 0.7,
            "restore": 0.5,
            "rollback": 0.5,
            "take_branch": 0.4,
            "rescale": 0.3,
            "expire": 1.2,
            "feed": 0.5,
        }
        self._write()
        for _ in range(moves):
            self._remember()
            (name,) = self.dice.choices(list(names), list(names.values()))
            self.moves.append(name)
            getattr(self, f"_{name}")()
        self._remember()

    def living(self, name: str) -> Sequence[Snapshot]:
        """The living snapshots of a table."""
        return self.tables[name].store.snapshots.living()

    def _remember(self) -> None:
        for name, table in self.tables.items():
            for snapshot in self.living(name):
                if snapshot.uuid not in self.rows:
                    found = table.store.to_arrow(snapshot_id=snapshot.id)
                    rows = zip(found["id"].to_pylist(), found["batch"].to_pylist(), strict=True)
                    self.rows[str(snapshot.uuid)] = Counter(rows)

    # Moves.

    def _some(self) -> pa.Table:
        self.batch += 1
        return rows_of(self.dice.sample(range(KEYS), self.dice.randint(1, 3)), self.batch)

    def _write(self) -> None:
        self.tables["orders"].write(self._some())

    def _delete(self) -> None:
        if KINDS[self.source].takes_deletes:
            rows = self._some()
            self.tables["orders"].store.write(rows, kinds=pa.array([3] * rows.num_rows, pa.int8()))

    def _overwrite(self) -> None:
        self.tables["orders"].write(self._some(), mode="overwrite")

    def _restore(self) -> None:
        self.tables["orders"].restore(snapshot_id=self.dice.choice(self.living("orders")).id)

    def _rollback(self) -> None:
        self.tables["orders"].upkeep.rollback(snapshot_id=self.dice.choice(self.living("orders")).id, force=True)

    def _take_branch(self) -> None:
        orders = self.tables["orders"]
        orders.branches.create("next")
        orders.branch("next").write(self._some())
        if self.dice.random() < 0.5:
            orders.branch("next").compact(full=True)
        orders.branches.fast_forward("next")
        orders.branches.delete("next")

    def _rescale(self) -> None:
        name = self.dice.choice(["orders", *MADE])
        table = self.tables[name]
        if table.store.snapshots.latest_id() is not None:
            self.tables[name] = rescaled = table.upkeep.rescale(self.dice.choice([1, 2, 3]))
            for one in self.followers:
                one.source = rescaled if one.source.name == table.name else one.source
                one.sink = rescaled if one.sink.name == table.name else one.sink

    def _follow(self) -> None:
        one = self.dice.choice(self.followers)
        snapshots = one.source.store.snapshots.living()
        first = 0 if one.read is None else one.read.id
        ends = [snapshot for snapshot in snapshots if snapshot.id >= first]
        if ends and not one.is_stopped:
            one.run(self.dice.choice(ends[-3:] if self.dice.random() < 0.5 else ends[-1:]))

    def _copy(self) -> None:
        orders = self.tables["orders"]
        snapshot = self.dice.choice(self.living("orders")[-2:])
        rows = orders.store.to_arrow(snapshot_id=snapshot.id)
        overwrite_rows(self.tables["c"], rows, read_of(orders, end=snapshot.id, mode=ReadMode.BATCH))

    def _compact(self) -> None:
        self._any().store.compact(full=self.dice.random() < 0.7)

    def _compact_some(self) -> None:
        """One bucket, or some of them."""
        store = self._any().store
        buckets = sorted(store.live_files.of(store.snapshots.latest()).buckets)
        if buckets:
            some = self.dice.sample(buckets, self.dice.randint(1, max(len(buckets) - 1, 1)))
            merge_due(store, some, is_full=self.dice.random() < 0.7, clock=None)

    def _compact_late(self) -> None:
        """A compaction that began before another move."""
        store = self._any().store
        work = due_work(
            store, store.snapshots.latest(), None, lambda _, files, marked: pick_unit(store, files, is_full=True)
        )
        results = compact_buckets(store, work)
        self.dice.choice([self._write, self._follow, self._compact_some])()
        if results:
            try:
                commit_results(store, results)
            except (ConflictError, NotFoundError):
                self.moves.append("refused")

    def _expire(self) -> None:
        self._any().upkeep.expire_snapshots(retain_max=self.dice.randint(1, 3), retain_min=1)

    def _feed(self) -> None:
        if self.catalog.lineage_options:
            feed(self.catalog)

    def _any(self) -> Table:
        return self.tables[self.dice.choice(["orders", "orders", "orders", *MADE])]

    # Answers.

    def ask(self, names: Sequence[str]) -> ConsistentSnapshots | None:
        """The consistent snapshots of these tables; None where there are none."""
        try:
            return consistent_snapshots(self.catalog, [f"db.{name}" for name in names])
        except NotConsistentError:
            return None

    def asked(self) -> list[str]:
        """Some of the tables that have snapshots."""
        there = [name for name in self.tables if self.living(name)]
        return self.dice.sample(there, min(len(there), self.dice.choice([1, 2, 2, 3])))

    def wrong(self, found: ConsistentSnapshots) -> list[str]:
        """What is not so in an answer: tables that have other rows than the versions from which they are made."""
        named = {**found.versions, **found.snapshots}
        at = {name: self.rows[str(version.commit)] for name, version in named.items()}
        pairs = [("db.orders", name) for name in ("db.a", "db.b", "db.c", "db.d")] + [("db.a", "db.d")]
        return [f"{made} of {one}" for one, made in pairs if one in at and made in at and at[one] != at[made]]

    def has_some(self, names: Sequence[str]) -> bool:
        """Whether some living snapshots have the rows of one version of orders."""
        ever = [self.rows[str(one.uuid)] for one in self.living("orders")]
        for chosen in product(*(self.living(name) for name in names)):
            rows = [self.rows[str(one.uuid)] for one in chosen]
            if all(one == rows[0] for one in rows) and rows[0] in ever:
                return True
        return False
