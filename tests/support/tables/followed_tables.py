"""Tables of each kind whose changes are in files, which change at random, and what followers make of the changes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.system.audit_range import audit_changes
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import changes as file_changes
from lakelog.filestore.verbs import restore
from tests.support.tables.small_tables import SCHEMA, UNSYNCED

KEYS = 6
Change = tuple[str, int, int]
Rows = Counter[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of table. With `has_old_rows` each change fits the rows before it; `keeps_first` is what a key does."""

    options: Mapping[str, str]
    has_key: bool = True
    has_old_rows: bool = False
    takes_deletes: bool = True
    keeps_first: bool = False


VECTORS = {"deletion-vectors.enabled": "true"}
FIRST_ROW = {"merge-engine": "first-row"}
KINDS: Mapping[str, Kind] = {
    "none": Kind({}),
    "input": Kind({"changelog-producer": "input"}),
    "lookup": Kind({"changelog-producer": "lookup"}, has_old_rows=True),
    "full-compaction": Kind({"changelog-producer": "full-compaction"}, has_old_rows=True),
    "deletion vectors": Kind(VECTORS),
    "deletion vectors, input": Kind({**VECTORS, "changelog-producer": "input"}),
    "deletion vectors, lookup": Kind({**VECTORS, "changelog-producer": "lookup"}, has_old_rows=True),
    "first-row": Kind(FIRST_ROW, takes_deletes=False, keeps_first=True),
    "first-row, lookup": Kind(
        {**FIRST_ROW, "changelog-producer": "lookup"}, has_old_rows=True, takes_deletes=False, keeps_first=True
    ),
    "dynamic buckets": Kind({"bucket": "-1", "dynamic-bucket.target-row-num": "3"}),
    "append-only": Kind({"bucket-key": "id"}, has_key=False, takes_deletes=False),
    "value count": Kind({"write-mode": "change-log"}, has_key=False),
}


def table_of(folder: Path | str, kind: Kind) -> FileStoreTable:
    """An empty table of a kind, whose rows wait for a compaction."""
    options = {"write-only": "true", "bucket": "2", **kind.options}
    schema = build_schema(SCHEMA, primary_keys=["id"] if kind.has_key else [], options=options)
    return FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)


def rows_of(ids: Iterable[int], batch: int) -> pa.Table:
    """Rows of a batch."""
    given = list(ids)
    return pa.table([pa.array(given, pa.int64()), pa.array([batch] * len(given), pa.int32())], schema=SCHEMA)


def shown(table: FileStoreTable) -> Rows:
    """What a read shows."""
    return _rows(table.to_arrow())


def start_of(table: FileStoreTable, snapshot: Snapshot | None) -> Rows:
    """The rows with which a follower begins."""
    batches = list(read_splits(table, plan_splits(table, snapshot, is_followed=True).splits))
    return _rows(pa.Table.from_batches(batches, schema=table.schema.arrow_schema))


def _rows(table: pa.Table) -> Rows:
    return Counter(zip(table["id"].to_pylist(), table["batch"].to_pylist(), strict=True))


def changes_of(table: FileStoreTable, after: int | None = None) -> list[Change]:
    """The changes behind a snapshot."""
    found = (row for batch in file_changes(table, after=after) for row in batch.to_pylist())
    return [(row["_row_kind"], row["id"], row["batch"]) for row in found]


def audited(table: FileStoreTable) -> list[Change]:
    """What `audit_log` has of all snapshots."""
    pieces = audit_changes(table, SCHEMA.names, after=None, up_to=None)
    return [(row["rowkind"], row["id"], row["batch"]) for piece in pieces for row in piece.to_pylist()]


def fold(rows: Rows, changes: Sequence[Change], kind: Kind, *, is_strict: bool | None = None) -> Rows:
    """What changes make of rows; those with old rows must fit them."""
    fits = kind.has_old_rows if is_strict is None else is_strict
    if not kind.has_key:
        found = Counter(rows)
        for change, *row in changes:
            found[row[0], row[1]] += 1 if change in ("+I", "+U") else -1
        return +found
    state = dict(rows.keys())
    assert len(state) == rows.total()
    for change, key, batch in changes:
        if change in ("-U", "-D"):
            had = state.pop(key, None)
            assert not fits or had == batch, (change, key, batch, had)
            continue
        assert not fits or key not in state, (change, key, batch, state)
        if not (kind.keeps_first and key in state):
            state[key] = batch
    return Counter(dict.fromkeys(state.items(), 1))


@dataclass
class History:
    """A table that changes at random."""

    table: FileStoreTable
    kind: Kind
    dice: random.Random
    batch: int = 0
    moves: list[str] = field(default_factory=list)

    def move(self, *names: str) -> None:
        """Change the table, in one of these ways."""
        name = self.dice.choice(names)
        self.moves.append(name)
        getattr(self, f"_{name}")()

    def _write(self) -> None:
        self.batch += 1
        self.table.write(rows_of(self.dice.sample(range(KEYS), self.dice.randint(1, KEYS)), self.batch))

    def _delete(self) -> None:
        if not self.kind.takes_deletes:
            return
        batch = self.dice.randint(0, self.batch)
        ids = self.dice.sample(range(KEYS), 2)
        there = [one for one in ids if self.kind.has_key or shown(self.table)[one, batch] > 0]
        self.table.write(rows_of(there, batch), kinds=pa.array([3] * len(there), pa.int8()))

    def _compact(self) -> None:
        self.table.compact(full=self.dice.random() < 0.5)

    def _overwrite(self) -> None:
        self.batch += 1
        ids = self.dice.sample(range(KEYS), self.dice.randint(0, 3))
        self.table.write(rows_of(ids, self.batch), mode="overwrite")

    def _restore(self) -> None:
        ids = self.table.snapshots.ids()
        if ids:
            restore(self.table, snapshot_id=self.dice.choice(ids))
