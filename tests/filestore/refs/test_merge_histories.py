"""Random changes of a table and its branch, merged: the rows and the conflicts are those of a model of dicts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.filestore.read.scan import plan
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.refs.merges import sides
from lakelog.filestore.refs.merges.branch_merge import BranchConflictError
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from tests.support.merge_model import Row, merged_counts, merged_rows
from tests.support.small_tables import UNSYNCED

SCHEMA = pa.schema(
    [
        pa.field("p", pa.int32(), nullable=False),
        pa.field("id", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("items", pa.list_(pa.float64())),
        pa.field("amount", pa.decimal128(38, 2)),
    ]
)
ATOMIC = pa.schema([field for field in SCHEMA if field.name != "items"])
_NUMBERS = (None, 0.0, -0.0, 1.5, float("nan"))
_ITEMS: tuple[list[float | None] | None, ...] = (None, [], [1.0, None], [float("nan")])
_KEYS = 8
VECTORS = {"deletion-vectors.enabled": "true"}
SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 30))]


@dataclass(frozen=True)
class Kind:
    """A kind of table."""

    schema: pa.Schema
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    def table(self, folder: Path) -> FileStoreTable:
        schema = build_schema(
            self.schema, primary_keys=self.primary_keys, partition_keys=self.partition_keys, options=self.options
        )
        return FileStoreTable.create(f"{folder}/t", schema, UNSYNCED)


KINDS = {
    "primary key": Kind(SCHEMA, ("id",), options={"bucket": "2"}),
    "write only": Kind(SCHEMA, ("id",), options={"bucket": "1", "write-only": "true"}),
    "partitioned": Kind(SCHEMA, ("p", "id"), ("p",), {"bucket": "2"}),
    "dynamic buckets": Kind(SCHEMA, ("p", "id"), ("p",), {"bucket": "-1", "dynamic-bucket.target-row-num": "2"}),
    "deletion vectors": Kind(SCHEMA, ("id",), options={"bucket": "2", **VECTORS}),
    "rows that wait": Kind(SCHEMA, ("id",), options={"bucket": "2", "write-only": "true", **VECTORS}),
    "spilled": Kind(SCHEMA, ("id",), options={"bucket": "1", "read.memory-budget": "1 kb"}),
    "value count": Kind(ATOMIC, (), ("p",), {"bucket": "2", "write-mode": "change-log"}),
    "append": Kind(SCHEMA, (), ("p",), {"bucket": "-1"}),
}


def of_row(row: dict[str, object]) -> Row:
    """A row that Python compares as the format does."""
    return tuple(repr(value) for value in row.values())


class Line:
    """A table or its branch, and the rows that it must have."""

    def __init__(self, kind: Kind, files: FileStoreTable, chance: random.Random) -> None:
        self.kind, self.files, self.chance = kind, files, chance
        self.rows: dict[object, Row] = {}
        self.counts: Counter[Row] = Counter()
        self.values: dict[Row, dict[str, object]] = {}
        self.past: dict[int, tuple[dict[object, Row], Counter[Row]]] = {}

    def new_row(self) -> dict[str, object]:
        few = self.chance.randrange
        row = {
            "p": few(2),
            "id": few(_KEYS),
            "text": self.chance.choice((None, "a", "b")),
            "number": self.chance.choice(_NUMBERS),
            "items": self.chance.choice(_ITEMS),
            "amount": None,
        }
        if not self.kind.primary_keys:  # few rows, so that equal ones meet
            row |= {"text": None, "number": None, "items": None, "id": few(3)}
        return {name: row[name] for name in self.kind.schema.names}

    def key_of(self, row: dict[str, object]) -> object:
        return tuple(row[name] for name in self.kind.primary_keys)

    def step(self) -> None:
        step = self.chance.choice((self.add, self.add, self.add, self.remove, self.compact, self.restore))
        step()
        newest = self.files.snapshots.latest_id()
        if newest is not None:
            self.past[newest] = dict(self.rows), Counter(self.counts)

    def add(self) -> None:
        rows = [self.new_row() for _ in range(self.chance.randrange(1, 4))]
        self.files.write(pa.Table.from_pylist(rows, self.kind.schema))
        for row in rows:
            self.rows[self.key_of(row)] = of_row(row)
            self.counts[of_row(row)] += 1
            self.values[of_row(row)] = row

    def remove(self) -> None:
        if "deletion-vectors.enabled" in self.kind.options:  # a statement sees no row that waits for a compaction
            row = self.new_row()
            self.files.write(pa.Table.from_pylist([row], self.kind.schema), kinds=pa.array([3], pa.int8()))
            self.rows.pop(self.key_of(row), None)
        elif self.kind.primary_keys:
            self.files.delete(f"id = {(gone := self.chance.randrange(_KEYS))}")
            self.rows = {key: row for key, row in self.rows.items() if key[-1] != gone}  # type: ignore[index]  # a tuple
        elif "write-mode" in self.kind.options:
            self.files.delete(f"id = {(gone := self.chance.randrange(3))}")
            self.counts = Counter({row: count for row, count in self.counts.items() if row[1] != repr(gone)})
        else:  # some rows of a partition stay
            gone = self.chance.randrange(2)
            there = [row for row in self.counts.elements() if row[0] == repr(gone)]
            kept = self.chance.sample(there, len(there) // 2)
            rows = pa.Table.from_pylist([self.values[row] for row in kept], self.kind.schema)
            self.files.write(rows, mode="overwrite", where=f"p = {gone}")
            self.counts = Counter({row: count for row, count in self.counts.items() if row[0] != repr(gone)})
            self.counts.update(kept)

    def compact(self) -> None:
        self.files.compact(full=self.chance.random() < 0.5)

    def restore(self) -> None:
        there = [number for number in self.past if self.files.snapshots.find(number) is not None]
        if there:
            then = self.chance.choice(there)
            self.files.restore(version=then)
            self.rows, self.counts = dict(self.past[then][0]), Counter(self.past[then][1])

    def check(self) -> None:
        written = plan(self.files, self.files.snapshots.latest(), is_followed=True)  # with rows that wait
        found = [of_row(row) for batch in read_splits(self.files, written.splits) for row in batch.to_pylist()]
        if self.kind.primary_keys:
            assert sorted(found) == sorted(self.rows.values())
        else:
            assert Counter(found) == self.counts


def merge(main: Line, branch: Line, base: Line, policy: str) -> None:
    """Merge the branch, and compare result and conflicts with the model's."""
    if main.kind.primary_keys:
        rows, conflicts = merged_rows(base.rows, main.rows, branch.rows, policy=policy)
        counts: Counter[Row] = Counter()
    else:
        counts, conflicts = merged_counts(base.counts, main.counts, branch.counts, policy=policy)  # type: ignore[assignment]  # sets of rows
        rows = {}
    planned = main.files.merge_changes("b", on_conflict=policy, dry_run=True)
    keys = main.kind.primary_keys or main.kind.schema.names
    found = [{name: row[name] for name in keys} for row in planned.conflicts.to_pylist()]
    of: Callable[[dict[str, object]], object] = main.key_of if main.kind.primary_keys else of_row
    assert len(found) == len(conflicts)
    assert {of(row) for row in found} == conflicts
    if policy == "fail" and conflicts:
        before = main.files.snapshots.latest_id()
        with pytest.raises(BranchConflictError):
            main.files.merge_changes("b")
        assert main.files.snapshots.latest_id() == before
        return
    main.files.merge_changes("b", on_conflict=policy)
    main.rows, main.counts = rows, counts
    main.values |= branch.values
    base.rows, base.counts = dict(branch.rows), Counter(branch.counts)
    main.check()
    again = main.files.merge_changes("b", on_conflict=policy)
    assert again.snapshot_id is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_merges_of_a_random_history_are_those_of_a_model(tmp_path: Path, kind: str, seed: int) -> None:
    run_history(tmp_path, KINDS[kind], seed)


@pytest.mark.parametrize("kind", ["primary key", "dynamic buckets", "spilled", "rows that wait"])
@pytest.mark.parametrize("seed", SEEDS[1:])
def test_merges_that_look_up_the_rows_of_the_table_are_those_of_a_model(
    tmp_path: Path, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "LOOKUP_ROWS_MIN", -1)
    monkeypatch.setattr(sides, "LOOKUP_RATIO_MIN", -1)
    run_history(tmp_path, KINDS[kind], seed)


@pytest.mark.parametrize(
    "kind", ["primary key", "write only", "partitioned", "dynamic buckets", "deletion vectors", "rows that wait"]
)
@pytest.mark.parametrize("seed", SEEDS)
def test_merges_that_read_the_commits_in_between_are_those_of_a_model(
    tmp_path: Path, kind: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sides, "LOOKUP_ROWS_MIN", -1)
    monkeypatch.setattr(sides, "LOOKUP_RATIO_MIN", 1 << 40)
    run_history(tmp_path, KINDS[kind], seed)


def run_history(folder: Path, kind: Kind, seed: int) -> None:
    chance = random.Random(seed)
    main = Line(kind, kind.table(folder), chance)
    for _ in range(chance.randrange(6)):
        main.step()
    for _ in range(3):  # rows that both sides have
        main.add()
    main.files.create_branch("b")
    base, branch = (Line(kind, main.files.on_branch("b"), chance) for _ in range(2))
    for line in (base, branch):
        line.rows, line.counts, line.values = dict(main.rows), Counter(main.counts), dict(main.values)
        line.past = dict(main.past)
    for _ in range(3):
        for _ in range(chance.randrange(8)):
            chance.choice((main, branch)).step()
        merge(main, branch, base, chance.choice(("fail", "branch", "main", "branch")))
    branch.check()
