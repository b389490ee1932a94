"""Random changes of a table and two branches, merged: the rows and the conflicts are those of a model of dicts.

All sides are rolled back, also behind what was merged, have other columns for a while, and are kept in order by another
engine too, which expires what no consumer wants.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import ConflictError, InvalidRequestError, NotFoundError
from lakelog.filestore.alter.schema_changes import AddColumn, RenameColumn
from lakelog.filestore.metadata.snapshots.snapshot import CommitKind, Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import read_hint
from lakelog.filestore.read.scan import plan_splits
from lakelog.filestore.read.split_rows import read_splits
from lakelog.filestore.refs import create_branch, delete_branch
from lakelog.filestore.refs.merges import sides
from lakelog.filestore.refs.merges.merge_plan import BranchConflictError
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.filestore.verbs import delete, merge_changes, restore, rollback
from tests.support.examples import rest_in_full
from tests.support.tables.altered import altered
from tests.support.tables.foreign_engine import expire_as_others_do, fast_forward_as_others_do, foreign_snapshot
from tests.support.tables.merge_model import Row, merged_counts, merged_rows
from tests.support.tables.small_tables import UNSYNCED, in_new_process
from tests.support.tables.taken_over import take_over

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
ADDED = ("more", "other")  # columns that come later
ATOMIC = pa.schema([field for field in SCHEMA if field.name != "items"])
_NUMBERS = (None, 0.0, -0.0, 1.5, float("nan"))
_ITEMS: tuple[list[float | None] | None, ...] = (None, [], [1.0, None], [float("nan")])
_KEYS = 8
VECTORS = {"deletion-vectors.enabled": "true"}
SEEDS = rest_in_full(range(30), 1)


@dataclass(frozen=True)
class Kind:
    """A kind of table."""

    schema: pa.Schema
    primary_keys: tuple[str, ...] = ()
    partition_keys: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    @property
    def has_more_columns(self) -> bool:
        """Whether columns can be added: in a value-count table the whole row is the key."""
        return "write-mode" not in self.options

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
    """A row that Python compares as the format does; a column that it lacks is null."""
    return tuple(repr(row.get(name)) for name in (*SCHEMA.names, *ADDED))


@dataclass(frozen=True)
class State:
    """The rows of a commit: by key, and how often each is there."""

    rows: Mapping[object, Row]
    counts: Counter[Row]


class Line:
    """A table or a branch of it, and the rows that it must have."""

    def __init__(self, history: History, files: FileStoreTable) -> None:
        self.history, self.kind, self.chance = history, history.kind, history.chance
        self.files = files
        self.rows: dict[object, Row] = {}
        self.counts: Counter[Row] = Counter()
        self.merged: dict[str, str] = {}  # of the table: a branch -> the commit up to which it is merged
        self.expired: set[str | None] = set()  # commits

    @property
    def state(self) -> State:
        return State(dict(self.rows), Counter(self.counts))

    def living(self) -> list[Snapshot]:
        return [self.files.snapshots.get(number) for number in self.files.snapshots.ids()]

    def targets(self) -> list[Snapshot]:
        """What the line can go back to: with deletion vectors rows wait in an APPEND for the compaction behind it."""
        waits = "deletion-vectors.enabled" in self.kind.options
        return [one for one in self.living() if not waits or one.commit_kind is CommitKind.COMPACT]

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
        added = {name: self.chance.choice((None, 1)) for name in ADDED}
        return {name: (row | added)[name] for name in self.files.schema.field_names}

    def key_of(self, row: dict[str, object]) -> object:
        return tuple(row[name] for name in self.kind.primary_keys)

    def step(self) -> None:
        verbs = (
            *(self.add,) * 3,
            self.remove,
            self.compact,
            self.restore,
            self.rollback,
            self.rename_and_add,
            self.upkeep_of_others,
        )
        verb = self.chance.choice(verbs)
        self.history.moves.append(f"{verb.__name__} {self.files.branch}")
        verb()
        self.history.take_commits()

    def add(self) -> None:
        self.put([self.new_row() for _ in range(self.chance.randrange(1, 4))], self.files)

    def put(self, rows: list[dict[str, object]], files: FileStoreTable) -> None:
        """Write rows through a table whose columns may have other names for the moment."""
        renamed = [dict(zip(files.schema.field_names, row.values(), strict=True)) for row in rows]
        files.write(pa.Table.from_pylist(renamed, files.schema.arrow_schema))
        for row in rows:
            self.rows[self.key_of(row)] = of_row(row)
            self.counts[of_row(row)] += 1
            self.history.values[of_row(row)] = row

    def rename_and_add(self) -> None:
        """A column has another name for one write: so a number of a schema means other columns on each line."""
        rows = [self.new_row()]
        renamed = altered(self.files, RenameColumn("amount", "sum"))
        self.put(rows, renamed)
        self.files = altered(renamed, RenameColumn("sum", "amount"))

    def remove(self) -> None:
        if "deletion-vectors.enabled" in self.kind.options:  # a statement sees no row that waits for a compaction
            row = self.new_row()
            self.files.write(pa.Table.from_pylist([row], self.kind.schema), kinds=pa.array([3], pa.int8()))
            self.rows.pop(self.key_of(row), None)
        elif self.kind.primary_keys:
            delete(self.files, f"id = {(gone := self.chance.randrange(_KEYS))}")
            self.rows = {key: row for key, row in self.rows.items() if key[-1] != gone}  # type: ignore[index]  # a tuple
        elif "write-mode" in self.kind.options:
            delete(self.files, f"id = {(gone := self.chance.randrange(3))}")
            self.counts = Counter({row: count for row, count in self.counts.items() if row[1] != repr(gone)})
        else:  # some rows of a partition stay
            gone = self.chance.randrange(2)
            there = [row for row in self.counts.elements() if row[0] == repr(gone)]
            kept = self.chance.sample(there, len(there) // 2)
            rows = [self.history.values[row] for row in kept]
            self.files.write(
                pa.Table.from_pylist(rows, self.files.schema.arrow_schema), mode="overwrite", where=f"p = {gone}"
            )
            self.counts = Counter({row: count for row, count in self.counts.items() if row[0] != repr(gone)})
            self.counts.update(kept)

    def compact(self) -> None:
        self.files.compact(full=self.chance.random() < 0.5)

    def restore(self) -> None:
        oldest = read_hint(self.files.file_io, self.files.paths.earliest_hint) or 0  # maybe a branch's: docs/limits.md
        if there := [one for one in self.targets() if one.id >= oldest]:
            then = self.chance.choice(there)
            restore(self.files, version=then.id)
            self.take(self.history.states[then.uuid])

    def rollback(self) -> None:
        """The branch, or the table, also behind what was merged, and the table behind where a branch began."""
        if there := self.targets():
            then = self.chance.choice(there[-4:])
            is_known = any(one.has_own_properties for one in self.living() if one.id <= then.id)
            try:
                rollback(self.files, snapshot_id=then.id)
            except InvalidRequestError:  # nothing tells up to where branches were merged before the next snapshot
                if is_known:
                    raise
                return
            self.take(self.history.states[then.uuid])
            self.merged = dict(self.history.merged_at[then.uuid])

    def upkeep_of_others(self) -> None:
        """Another engine commits, such as by ANALYZE, and may expire what no consumer wants."""
        if self.living():
            foreign_snapshot(self.files, CommitKind.ANALYZE)
            if self.chance.random() < 0.5:
                before = {one.uuid for one in self.living()}
                expire_as_others_do(self.files)
                self.expired |= before - {one.uuid for one in self.living()}

    def take(self, state: State) -> None:
        self.rows, self.counts = dict(state.rows), Counter(state.counts)

    def check(self) -> None:
        written = plan_splits(self.files, self.files.snapshots.latest(), is_followed=True)  # with rows that wait
        found = [of_row(row) for batch in read_splits(self.files, written.splits) for row in batch.to_pylist()]
        if self.kind.primary_keys:
            assert sorted(found) == sorted(self.rows.values()), self.history.moves
        else:
            assert Counter(found) == +self.counts, self.history.moves


class History:
    """A table and two branches, which are merged again and again."""

    def __init__(self, folder: Path, kind: Kind, seed: int) -> None:
        self.kind, self.chance = kind, random.Random(seed)
        self.moves: list[str] = []
        self.states: dict[str | None, State] = {}  # by commit
        self.merged_at: dict[str | None, dict[str, str]] = {}
        self.values: dict[Row, dict[str, object]] = {}
        self.main = Line(self, kind.table(folder))
        self.branches: dict[str, Line] = {}
        self.forks: dict[str, str | None] = {}
        self.merges = self.refused = 0

    def take_commits(self) -> None:
        """The rows of the commits that the last step made."""
        for line in (self.main, *self.branches.values()):
            for snapshot in line.living():
                self.states.setdefault(snapshot.uuid, line.state)
                self.merged_at.setdefault(snapshot.uuid, dict(line.merged))

    def branch(self, name: str) -> None:
        create_branch(self.main.files, name)
        self.branches[name] = line = Line(self, self.main.files.on_branch(name))
        line.take(self.main.state)
        self.forks[name] = line.living()[-1].uuid

    def take_another(self) -> None:
        """Another branch takes the place of what the table has since: what was merged before it began stays merged."""
        if not self.main.living():
            return
        main = self.main
        create_branch(main.files, "t")
        taken = Line(self, main.files.on_branch("t"))
        taken.take(main.state)
        taken.merged = dict(main.merged)
        self.branches["t"] = taken
        for _ in range(self.chance.randrange(3)):
            self.chance.choice((main, taken)).step()
        del self.branches["t"]
        verb = self.chance.choice(("merge_branch", "replace_main", "fast_forward", "others"))
        self.moves.append(f"{verb} t")
        try:
            if verb == "others":
                fast_forward_as_others_do(main.files, "t")
            else:
                take_over(main.files, verb, "t")
        except ConflictError:
            assert verb == "fast_forward"
        else:
            main.take(taken.state)
            main.merged = taken.merged
        main.files = in_new_process(main.files.path)
        if "t" in main.files.branch_names():
            delete_branch(main.files, "t")
        main.check()

    def add_columns(self) -> None:
        """All lines get a column that others may have: a merge compares lines of equal columns."""
        lines = (self.main, *self.branches.values())
        wanted = {name for line in lines for name in line.files.schema.field_names if name in ADDED}
        wanted |= {self.chance.choice(ADDED)} if self.chance.random() < 0.3 and self.kind.has_more_columns else set()
        for line in lines:
            for name in sorted(wanted - set(line.files.schema.field_names)):
                line.files = altered(line.files, AddColumn(name, "INT"))

    def merge(self, name: str, policy: str) -> None:
        """Merge a branch, and compare rows and conflicts with the model's."""
        self.add_columns()
        main, branch = self.main, self.branches[name]
        commit = main.merged.get(name, self.forks[name])
        self.moves.append(f"merge {name} {policy}")
        there = {*branch.expired, *(one.uuid for one in branch.living())}
        if commit not in there and commit != self.forks[name]:
            with pytest.raises((InvalidRequestError, NotFoundError), match="base="):
                merge_changes(main.files, name, on_conflict=policy)
            main.check()
            self.refused += 1
            return
        base = self.states[commit]
        if main.kind.primary_keys:
            rows, conflicts = merged_rows(base.rows, main.rows, branch.rows, policy=policy)
            counts: Counter[Row] = Counter()
        else:
            counts, conflicts = merged_counts(base.counts, main.counts, branch.counts, policy=policy)  # type: ignore[assignment]  # sets of rows
            rows = {}
        planned = merge_changes(main.files, name, on_conflict=policy, dry_run=True)
        keys = main.kind.primary_keys or main.files.schema.field_names
        found = [{name: row[name] for name in keys} for row in planned.conflicts.to_pylist()]
        of: Callable[[dict[str, object]], object] = main.key_of if main.kind.primary_keys else of_row
        assert len(found) == len(conflicts), self.moves
        assert {of(row) for row in found} == conflicts, self.moves
        if policy == "fail" and conflicts:
            before = main.files.snapshots.latest_id()
            with pytest.raises(BranchConflictError):
                merge_changes(main.files, name)
            assert main.files.snapshots.latest_id() == before
            return
        merge_changes(main.files, name, on_conflict=policy)
        main.rows, main.counts = rows, counts
        newest = branch.living()[-1].uuid
        if newest is not None and newest != commit:
            main.merged[name] = newest
        self.take_commits()
        main.check()
        again = merge_changes(main.files, name, on_conflict=policy)
        assert again.snapshot_id is None
        self.merges += 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_merges_of_a_random_history_are_those_of_a_model(tmp_path: Path, kind: str, seed: int) -> None:
    run_history(tmp_path, KINDS[kind], seed)


@pytest.mark.parametrize("kind", ["primary key", "dynamic buckets", "spilled", "rows that wait"])
@pytest.mark.parametrize("seed", rest_in_full(range(1, 30), 1))
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


def run_history(folder: Path, kind: Kind, seed: int) -> History:
    history = History(folder, kind, seed)
    main, chance = history.main, history.chance
    for _ in range(chance.randrange(6)):
        main.step()
    for _ in range(3):  # rows that all sides have
        main.add()
        history.take_commits()
    history.branch("b")
    for turn in range(4):
        if turn == 1:
            history.branch("c")
        for _ in range(chance.randrange(8)):
            chance.choice((main, *history.branches.values())).step()
        if chance.random() < 0.3:
            history.take_another()
        history.merge(chance.choice([*history.branches]), chance.choice(("fail", "branch", "main", "branch")))
    for branch in history.branches.values():
        branch.check()
    return history
